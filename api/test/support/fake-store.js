/** A store in memory: the rows of a database as a list, read the slow and certain way. */

import { bucketOf, layoutAt } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'

/** @typedef {import('../../src/store.js').Store} Store */
/** @typedef {import('../../src/merge.js').Row} Row */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */

/** @type {Layout[]} */
export const DAILY = [{ fromMs: 0, className: '30d', bucketS: 86_400 }]

/**
 * @param {object} [content]
 * @param {string} [content.name]  Of the one sensor.
 * @param {Row[]} [content.rows]
 * @param {Layout[]} [content.layouts]
 * @param {import('../../src/store.js').DeadLetter[]} [content.letters]
 */
export function createFakeStore({ name = 's', rows = [], layouts = DAILY, letters = [] } = {}) {
  const id = sensorId(name)
  /** @type {Map<string, import('../../src/store.js').Sensor>} */
  const sensors = new Map()
  put({ id, name, type: undefined, unit: undefined, tags: {}, hidden: false, createdMs: 1 })

  /** @param {import('../../src/store.js').Sensor} sensor */
  function put(sensor) {
    sensors.set(sensor.id, sensor)
  }

  /** @satisfies {Store} */
  const store = {
    sensor: async (one) => sensors.get(one),
    isKnown: async (one) => sensors.get(one)?.hidden === false,
    async *sensors() {
      yield [...sensors.values()]
    },
    layouts: async (one) => (sensors.has(one) ? layouts : []),
    series: async (one) => (one === id ? extents(rows) : []),
    latest: async (one) =>
      one === id
        ? extents(rows).map(({ metric, lastMs }) => ({
            metric,
            t: lastMs,
            value: rows.find((row) => row.metric === metric && row.t === lastMs)?.value ?? null,
            receivedMs: lastMs,
          }))
        : [],
    async rows(one, metric, { className, bucket, fromMs, toMs }, order, rowsMax) {
      const found = rows.filter((row) => {
        const layout = layoutAt(layouts, row.t)
        return (
          one === id &&
          row.metric === metric &&
          row.t >= fromMs &&
          row.t < toMs &&
          layout.className === className &&
          bucketOf(layout.bucketS, row.t) === bucket
        )
      })
      found.sort((a, b) => a.t - b.t || a.seq - b.seq)
      return (order === 'desc' ? found.reverse() : found).slice(0, rowsMax)
    },
    async addLayout() {},
    async putSensor(sensor) {
      put(sensor)
    },
    async updateSensor(one, { type, unit, tags }) {
      const sensor = sensors.get(one)
      if (!sensor) return
      if (type !== undefined) sensor.type = type ?? undefined
      if (unit !== undefined) sensor.unit = unit ?? undefined
      if (tags !== undefined) sensor.tags = tags
    },
    async hideSensor(one) {
      const sensor = sensors.get(one)
      if (sensor) sensor.hidden = true
    },
    async deadLetters(day, shard, before, rowsMax) {
      return letters
        .filter((_, index) => index % 8 === shard)
        .filter(({ receivedMs }) => Math.floor(receivedMs / 86_400_000) === day)
        .filter(({ id: letter }) => before === undefined || letter < before)
        .sort((a, b) => (a.id < b.id ? 1 : -1))
        .slice(0, rowsMax)
    },
  }
  return store
}

/** @param {Row[]} rows */
function extents(rows) {
  /** @type {Map<string, import('../../src/store.js').Series>} */
  const found = new Map()
  for (const { metric, t } of rows) {
    const one = found.get(metric) ?? { metric, firstMs: t, lastMs: t }
    found.set(metric, {
      metric,
      firstMs: Math.min(one.firstMs, t),
      lastMs: Math.max(one.lastMs, t),
    })
  }
  return [...found.values()]
}

/**
 * Random numbers that a seed repeats (mulberry32).
 *
 * @param {number} seed
 * @returns {(below: number) => number}  A whole number from 0 to `below` - 1.
 */
export function seeded(seed) {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}
