/** What is known of sensors before their series are read: layouts, extents, and dirty hours. */

import { MARK_TTL_S, SLOT_MS, shardOf, startOf } from '@sandglass/common/rollup'
import { unknownSensor } from '../measurements.js'
import { CLOCK_AHEAD_MS } from '../ranges.js'
import { SLOTS_MAX } from './store.js'

/**
 * Most slots of marks that one request looks at, for all of its sensors together. Each is a
 * partition, which costs about as much as a row. One sensor needs eight of them while rollups keep
 * up, and one for each minute that they are behind.
 */
export const MARK_SLOTS_MAX = 20_000

/** How long before they can expire marks count as gone, in milliseconds. */
const MARK_MARGIN_MS = 60_000

/** @typedef {import('../store.js').Store} Store */
/** @typedef {import('../store.js').Series} Extent */
/** @typedef {import('./stored.js').Progress} Progress */
/** @typedef {<T>(query: () => Promise<T>) => Promise<T>} Ask */

/**
 * @typedef {object} Sensor
 * @property {Awaited<ReturnType<Store['layouts']>>} layouts
 * @property {ReadonlyMap<string, Extent>} extents  By metric.
 * @property {number} doneMs  Until when slots are worked off; negative infinity where it is not
 *   known which hours have changed since.
 * @property {ReadonlyMap<string, ReadonlySet<number>>} dirtyHours  By metric.
 */

/**
 * @param {Store} store
 * @param {Ask} ask
 * @param {import('./budget.js').Budget} budget
 * @param {ReadonlySet<string>} ids
 * @param {number} nowMs
 * @returns {Promise<Map<string, Sensor>>}  By id.
 * @throws {import('@sandglass/common/problem').Problem}  If one is not there.
 */
export async function readSensors(store, ask, budget, ids, nowMs) {
  /** Sensors share their progress with others. @type {Map<number, Promise<number | undefined>>} */
  const progress = new Map()
  let slotsLeft = Math.min(MARK_SLOTS_MAX, budget.rows)

  /** @param {string} id */
  async function doneOf(id) {
    const shard = shardOf(id)
    const asked = progress.get(shard) ?? ask(() => store.rollupProgress(id))
    progress.set(shard, asked)
    return (await asked) ?? Number.NEGATIVE_INFINITY
  }

  /** @param {string} id  @returns {Promise<Pick<Sensor, 'doneMs' | 'dirtyHours'>>} */
  async function changes(id) {
    const doneMs = await doneOf(id)
    const untilMs = nowMs + CLOCK_AHEAD_MS
    const slots = (untilMs - startOf(doneMs, SLOT_MS)) / SLOT_MS
    const areKept = doneMs >= nowMs - MARK_TTL_S * 1000 + MARK_MARGIN_MS
    if (!areKept || slots > slotsLeft) return UNKNOWN
    slotsLeft -= slots
    /** @type {Promise<Map<string, Set<number>>>[]} */
    const parts = []
    for (let fromMs = startOf(doneMs, SLOT_MS); fromMs < untilMs; fromMs += SLOTS_MAX * SLOT_MS) {
      const toMs = Math.min(fromMs + SLOTS_MAX * SLOT_MS, untilMs)
      parts.push(ask(() => store.markedHours(id, { fromMs, toMs })))
    }
    budget.spend(Math.ceil(slots))
    return { doneMs, dirtyHours: joined(await Promise.all(parts)) }
  }

  const found = [...ids].map(async (id) => {
    const [isKnown, layouts, series, changed] = await Promise.all([
      ask(() => store.isKnown(id)),
      ask(() => store.layouts(id)),
      ask(() => store.series(id)),
      changes(id),
    ])
    if (!isKnown) throw unknownSensor()
    const extents = new Map(series.map((one) => [one.metric, one]))
    return /** @type {const} */ ([id, { layouts, extents, ...changed }])
  })
  return new Map(await Promise.all(found))
}

/** @type {Pick<Sensor, 'doneMs' | 'dirtyHours'>} */
const UNKNOWN = { doneMs: Number.NEGATIVE_INFINITY, dirtyHours: new Map() }

/** @param {readonly Map<string, Set<number>>[]} parts */
function joined(parts) {
  /** @type {Map<string, Set<number>>} */
  const all = new Map()
  for (const part of parts) {
    for (const [metric, hours] of part) {
      all.set(metric, new Set([...(all.get(metric) ?? []), ...hours]))
    }
  }
  return all
}
