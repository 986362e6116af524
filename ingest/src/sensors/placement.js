/**
 * Until when a message may be acknowledged whose rows were placed by layouts that were read before.
 *
 * A rewrite changes where rows of the past lie (`rewrite/`): it has each row stored in both places,
 * waits until everybody knows that, and then copies. A row that was placed by somebody who did not
 * know it, and that becomes durable after that, would be in the old place only. Such a message is
 * placed again before it is acknowledged. Events of about now are never rewritten (ADR 0021).
 */

/** How long a rewrite waits until everybody knows of it (`--rewrite-wait-s`), in milliseconds. */
export const SETTLE_MS = 300_000

/** As a share of that: how old layouts are at most when a row of the past is durable. */
const PLACED_SHARE = 0.4

/** How old an event is at least before its place can change, in milliseconds. */
export const SETTLED_MS = 1_800_000

/** The same when such a row is placed: the rest is left to become durable. */
const PLACING_SHARE = 0.3

/** @typedef {import('./series.js').Sensor} Sensor */

/**
 * @param {Sensor} sensor
 * @param {number} oldestMs  The earliest event time.
 * @param {number} settleMs
 * @returns {number}  Milliseconds since the Unix epoch.
 */
export function placedUntil({ layoutsReadMs }, oldestMs, settleMs) {
  return Math.max(layoutsReadMs + PLACED_SHARE * settleMs, oldestMs + SETTLED_MS)
}

/**
 * Whether the layouts must be read again before a row is placed.
 *
 * @param {Sensor} sensor
 * @param {number} oldestMs
 * @param {number} nowMs
 * @param {number} settleMs
 */
export function isPlacedTooLate({ layoutsReadMs }, oldestMs, nowMs, settleMs) {
  return nowMs > Math.max(layoutsReadMs + PLACING_SHARE * settleMs, oldestMs + SETTLED_MS / 2)
}
