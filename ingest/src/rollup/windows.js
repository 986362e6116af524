/**
 * Computes rollups of an hour from its raw rows, and of a day from its hours: always as a whole,
 * so that what arrived late, twice or in another order changes nothing else.
 */

import { Aggregate, rollupValue } from '@sandglass/common/aggregate'
import { lostBefore } from '@sandglass/common/layout'
import { EVENT_AHEAD_MS_MAX } from '@sandglass/common/measurement'
import { DAY_MS, HOUR_MS, LEVELS, startOf } from '@sandglass/common/rollup'
import { retentionClass } from '@sandglass/common/schema'
import { spans } from '@sandglass/common/spans'

/** @typedef {import('./store.js').RollupStore} RollupStore */
/** @typedef {import('./store.js').RollupRow} RollupRow */
/** @typedef {import('./store.js').Window} Window */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */

/**
 * `expired`: raw rows that an earlier computation saw may be gone by now, so that one was left as
 * it is.
 *
 * @typedef {'written' | 'empty' | 'expired'} Result
 */

const [MINUTES, HOURS, DAYS] = LEVELS

/** Raw rows begin to expire this long before they should, as far as we trust clocks, in ms. */
const EXPIRY_MARGIN_MS = 60_000

/**
 * @param {RollupStore} store
 * @param {Window} window  An hour.
 * @param {readonly Layout[]} layouts  Of the sensor, at least one.
 * @param {number} nowMs
 * @returns {Promise<Result>}
 */
export async function rollHour(store, window, layouts, nowMs) {
  const { startMs } = window
  const range = { fromMs: startMs, toMs: startMs + HOUR_MS }
  const parts = [...spans(layouts, [range], 'desc')]
  const ttlsS = parts.map(({ className }) => retentionClass(className).ttlS || Infinity)
  const ttlMs = Math.min(...ttlsS) * 1000 - EXPIRY_MARGIN_MS
  // No row was received longer before its time than clocks may be ahead.
  const receivedMsMin = startMs - EVENT_AHEAD_MS_MAX
  const goneMs = Math.max(nowMs - ttlMs, lostBefore(layouts, range))
  const isOld = receivedMsMin <= goneMs
  const [existing] = isOld ? await store.rollups(HOURS, window, range.toMs) : []
  if (existing && (existing.oldestMs ?? receivedMsMin) <= goneMs) return 'expired'

  const hour = Aggregate.withSketch()
  /** @type {Map<number, Aggregate>} */
  const minutes = new Map()
  let oldestMs = Number.POSITIVE_INFINITY
  let order = 0
  for (const part of parts) {
    for await (const row of store.raw(window, part, isOld)) {
      const value = rollupValue(/** @type {any} */ (row))
      if (value === undefined) continue
      const timeMs = row.ts.getTime()
      order--
      hour.add(timeMs, order, value)
      at(minutes, startOf(timeMs, MINUTES.windowMs)).add(timeMs, order, value)
      if (isOld) oldestMs = Math.min(oldestMs, receiptMs(row))
    }
  }
  if (hour.n === 0) return 'empty'
  const finer = [...minutes].map(([minuteMs, aggregate]) => ({
    ...{ startMs: minuteMs, aggregate, oldestMs: undefined },
  }))
  await store.write(MINUTES, window, finer, nowMs)
  const row = { startMs, aggregate: hour, oldestMs: isOld ? oldestMs : undefined }
  await store.write(HOURS, window, [row], nowMs)
  return 'written'
}

/**
 * @param {RollupStore} store
 * @param {Window} window  A day.
 * @param {number} nowMs
 * @returns {Promise<Result>}
 */
export async function rollDay(store, window, nowMs) {
  const { startMs } = window
  const day = Aggregate.withSketch()
  for (const { aggregate } of await store.rollups(HOURS, window, startMs + DAY_MS)) {
    day.merge(aggregate)
  }
  if (day.n === 0) return 'empty'
  // Hours are only ever added, so one that counts less has lost some.
  const [existing] = await store.rollups(DAYS, window, startMs + 1)
  if (existing && existing.aggregate.n > day.n) return 'expired'
  await store.write(DAYS, window, [{ startMs, aggregate: day, oldestMs: undefined }], nowMs)
  return 'written'
}

/** @param {Map<number, Aggregate>} windows  @param {number} startMs */
function at(windows, startMs) {
  let aggregate = windows.get(startMs)
  if (!aggregate) {
    aggregate = new Aggregate()
    windows.set(startMs, aggregate)
  }
  return aggregate
}

/** When a row was received, in milliseconds. @param {import('./store.js').RawRow} row */
function receiptMs({ wv, wi, wb }) {
  return Number(String(wv ?? wi ?? wb)) / 1000
}
