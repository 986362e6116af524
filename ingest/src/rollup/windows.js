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

/** Longer than reading an hour takes: rows may expire meanwhile. */
const READING_MS_MAX = HOUR_MS

/**
 * @param {RollupStore} store
 * @param {Window} window  An hour.
 * @param {readonly Layout[]} layouts  Of the sensor, at least one.
 * @param {number} version  Of rollups of one window, that of the higher version stays.
 * @param {() => number} now  Milliseconds since the Unix epoch.
 * @returns {Promise<Result>}
 */
export async function rollHour(store, window, layouts, version, now) {
  const { startMs } = window
  const range = { fromMs: startMs, toMs: startMs + HOUR_MS }
  const parts = [...spans(layouts, [range], 'desc')]
  const ttlsS = parts.map(({ className }) => retentionClass(className).ttlS || Infinity)
  const ttlMs = Math.min(...ttlsS) * 1000 - EXPIRY_MARGIN_MS
  // No row was received longer before its time than clocks may be ahead.
  const receivedMsMin = startMs - EVENT_AHEAD_MS_MAX
  const lostMs = lostBefore(layouts, range)
  /** Raw rows that were received before may be gone. */
  const goneMs = () => Math.max(now() - ttlMs, lostMs)
  const isOld = receivedMsMin <= goneMs() + READING_MS_MAX
  const [existing] = isOld ? await store.rollups(HOURS, window, range.toMs) : []
  const isExpired = () => existing && (existing.oldestMs ?? receivedMsMin) <= goneMs()
  if (isExpired()) return 'expired'

  const { hour, minutes, oldestMs } = await sumUp(store, window, parts)
  if (hour.n === 0) return 'empty'
  if (isExpired()) return 'expired'
  await store.write(MINUTES, window, minutes, version)
  await store.write(HOURS, window, [{ startMs, aggregate: hour, oldestMs }], version)
  return 'written'
}

/**
 * @param {RollupStore} store
 * @param {Window} window  An hour.
 * @param {readonly import('@sandglass/common/spans').Span[]} parts  Where its raw rows lie.
 */
async function sumUp(store, window, parts) {
  const hour = Aggregate.withSketch()
  /** @type {Map<number, Aggregate>} */
  const byMinute = new Map()
  let oldestMs = Number.POSITIVE_INFINITY
  let order = 0
  for (const part of parts) {
    for await (const row of store.raw(window, part)) {
      const value = rollupValue(/** @type {any} */ (row))
      if (value === undefined) continue
      const timeMs = row.ts.getTime()
      order--
      hour.add(timeMs, order, value)
      at(byMinute, startOf(timeMs, MINUTES.windowMs)).add(timeMs, order, value)
      oldestMs = Math.min(oldestMs, receiptMs(row))
    }
  }
  const minutes = [...byMinute].map(([startMs, aggregate]) => {
    return { startMs, aggregate, oldestMs: undefined }
  })
  return { hour, minutes, oldestMs }
}

/**
 * @param {RollupStore} store
 * @param {Window} window  A day.
 * @param {number} version
 * @param {object} more
 * @param {(hour: Window) => Promise<unknown>} more.sumUpHour  From its raw rows, if it can be.
 * @param {() => number} more.now  Milliseconds since the Unix epoch.
 * @returns {Promise<Result>}
 */
export async function rollDay(store, window, version, { sumUpHour, now }) {
  const { startMs } = window
  const [existing] = await store.rollups(DAYS, window, startMs + 1)
  // A day outlives its hours. Raw rows that are kept as long say what those said.
  if (existing && startMs + HOURS.ttlS * 1000 - EXPIRY_MARGIN_MS <= now()) {
    for (let hourMs = startMs; hourMs < startMs + DAY_MS; hourMs += HOUR_MS) {
      await sumUpHour({ ...window, startMs: hourMs })
    }
  }
  const day = Aggregate.withSketch()
  for (const { aggregate } of await store.rollups(HOURS, window, startMs + DAY_MS)) {
    day.merge(aggregate)
  }
  if (day.n === 0) return 'empty'
  // Hours are only ever added, so one that counts less has lost some.
  if (existing && existing.aggregate.n > day.n) return 'expired'
  await store.write(DAYS, window, [{ startMs, aggregate: day, oldestMs: undefined }], version)
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
  const microseconds = /** @type {{ toNumber(): number }} */ (wv ?? wi ?? wb)
  return Math.floor(microseconds.toNumber() / 1000)
}
