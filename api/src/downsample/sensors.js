/** What is known of sensors before their series are read: layouts, extents, and dirty hours. */

import { SLOT_MS, shardOf, unfinishedSlots } from '@sandglass/common/rollup'
import { unknownSensor } from '../measurements.js'
import { SLOTS_MAX } from './store.js'

/**
 * Most slots of marks that one request looks at, for all of its sensors together. Each is a
 * partition, which costs about as much as a row: all of them about a second. One sensor needs 68
 * while rollups keep up, and one more for each minute that they are behind.
 */
export const MARK_SLOTS_MAX = 40_000

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
    return asked
  }

  /** @param {string} id  @returns {Promise<Pick<Sensor, 'doneMs' | 'dirtyHours'>>} */
  async function changes(id) {
    const doneMs = await doneOf(id)
    const slots = unfinishedSlots(doneMs, nowMs)
    if (doneMs === undefined || !slots) return UNKNOWN
    const { fromMs, toMs } = slots
    const count = Math.ceil((toMs - fromMs) / SLOT_MS)
    if (count > slotsLeft) return UNKNOWN
    slotsLeft -= count
    /** @type {Promise<Map<string, Set<number>>>[]} */
    const parts = []
    for (let startMs = fromMs; startMs < toMs; startMs += SLOTS_MAX * SLOT_MS) {
      const some = { fromMs: startMs, toMs: Math.min(startMs + SLOTS_MAX * SLOT_MS, toMs) }
      parts.push(ask(() => store.markedHours(id, some)))
    }
    budget.spend(count)
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
