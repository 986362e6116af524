/**
 * Until when a message may be acknowledged whose rows were placed by layouts that were read before.
 *
 * A rewrite changes where rows of the past lie (`rewrite/`): it has each row stored in both places,
 * waits until everybody knows that, and then copies. A row that was placed by somebody who did not
 * know it, and that becomes durable after that, would be in the old place only. Such a message is
 * placed again before it is acknowledged. Events of about now are never rewritten (ADR 0021).
 */

/** How long ago the layouts were read at most when a row of the past is durable, in ms. */
export const PLACED_MS_MAX = 120_000

/** How old an event is at least before its place can change, in milliseconds. */
export const SETTLED_MS = 1_800_000

/** How much of that time is left to become durable when a row is placed, in milliseconds. */
const ROOM_MS = 30_000

/** @typedef {import('./series.js').Sensor} Sensor */

/**
 * @param {Sensor} sensor
 * @param {number} oldestMs  The earliest event time.
 * @returns {number}  Milliseconds since the Unix epoch.
 */
export function placedUntil({ layoutsReadMs }, oldestMs) {
  return Math.max(layoutsReadMs + PLACED_MS_MAX, oldestMs + SETTLED_MS)
}

/**
 * Whether the layouts must be read again before a row is placed.
 *
 * @param {Sensor} sensor
 * @param {number} oldestMs
 * @param {number} nowMs
 */
export function isPlacedTooLate(sensor, oldestMs, nowMs) {
  return nowMs + ROOM_MS > placedUntil(sensor, oldestMs)
}
