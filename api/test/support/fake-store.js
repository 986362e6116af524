/** A store in memory: the rows of a database as a list, read the slow and certain way. */

import { Aggregate, rollupValue } from '@sandglass/common/aggregate'
import { believed, LEVELS, startOf } from '@sandglass/common/rollup'
import { bucketOf, layoutAt } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import { compareTimeUuids } from '../../src/dead-letters.js'
import { fakeDashboards } from './fake-dashboards.js'
import { fakeDecoders } from './fake-decoders.js'
import { fakeMetadata } from './fake-metadata.js'
import { fakeRules } from './fake-rules.js'

/** @typedef {import('../../src/store.js').Store} Store */
/** @typedef {import('../../src/merge.js').Row} Row */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */

/**
 * How far the rollups have come. Those that must not be believed are wrong.
 *
 * @typedef {{ doneMs: number, markedHours: Set<number> }} Rollups
 */

/** Everybody is served. */
export const NO_KEYS = {
  keys: /** @type {any} */ ({ unasked: 0 }),
  claims: /** @type {any} */ ({ counts: {} }),
  requireKeys: false,
}

/** @type {Layout[]} */
export const DAILY = [{ fromMs: 0, className: '30d', bucketS: 86_400 }]

/**
 * @param {object} [content]
 * @param {string} [content.name]  Of the one sensor.
 * @param {Row[]} [content.rows]
 * @param {Layout[]} [content.layouts]
 * @param {import('../../src/store.js').DeadLetter[]} [content.letters]
 * @param {Rollups} [content.rollups]
 * @param {() => number} [content.cut]  By how many rows the server ends an answer early.
 */
export function createFakeStore({
  name = 's',
  rows = [],
  layouts = DAILY,
  letters = [],
  rollups = undefined,
  cut = () => 0,
} = {}) {
  const id = sensorId(name)
  /** @type {Map<string, import('../../src/store.js').Sensor>} */
  const sensors = new Map()
  /** What was asked for. @type {Map<string, import('../../src/rewrites.js').Rewrite>} */
  const rewrites = new Map()
  /** @type {Map<string, import('../../src/store.js').Desired>} */
  const wanted = new Map()
  /** What was asked for. @type {import('../../src/deletions.js').StoredDeletion[]} */
  const deletions = []
  /** Layouts of sensors that were registered. @type {Map<string, Layout[]>} */
  const others = new Map()
  /** Newest first. @type {Map<string, import('../../src/store.js').DeadLetter[]>} */
  const lettersByPlace = new Map()
  for (const [index, letter] of letters.entries()) {
    const place = `${Math.floor(letter.receivedMs / 86_400_000)}/${index % 8}`
    lettersByPlace.set(place, [...(lettersByPlace.get(place) ?? []), letter])
  }
  for (const some of lettersByPlace.values()) some.sort((a, b) => compareTimeUuids(b.id, a.id))
  put({ id, name, type: undefined, unit: undefined, tags: {}, hidden: false, createdMs: 1 })

  /** @param {import('../../src/store.js').Sensor} sensor */
  function put(sensor) {
    sensors.set(sensor.id, sensor)
  }

  /**
   * @param {string} one
   * @param {string} metric
   * @param {import('../../src/series-reader.js').Part} part
   * @param {import('@sandglass/common/spans').Order} order
   * @param {number} rowsMax
   */
  async function readRows(one, metric, part, order, rowsMax) {
    const { className, bucket, fromMs, toMs, afterSeq } = part
    const sign = order === 'desc' ? -1 : 1
    const found = rows.filter((row) => {
      const layout = layoutAt(layouts, row.t)
      return (
        one === id &&
        row.metric === metric &&
        row.t >= fromMs &&
        (afterSeq === undefined
          ? row.t < toMs
          : row.t === fromMs && sign * (row.seq - afterSeq) > 0) &&
        layout.className === className &&
        bucketOf(layout.bucketS, row.t) === bucket
      )
    })
    found.sort((a, b) => sign * (a.t - b.t || a.seq - b.seq))
    const some = found.slice(0, Math.max(1, rowsMax - cut()))
    return { rows: some, isAll: some.length === found.length && found.length < rowsMax }
  }

  /** @param {string} one */
  function latestOf(one) {
    if (one !== id) return []
    return extents(rows).map(({ metric, lastMs }) => ({
      metric,
      t: lastMs,
      value: rows.find((row) => row.metric === metric && row.t === lastMs)?.value ?? null,
      receivedMs: lastMs,
    }))
  }

  /**
   * @param {string} one
   * @param {string} metric
   * @param {string} levelName
   * @param {import('@sandglass/common/spans').Range} range
   */
  function rollupsOf(one, metric, levelName, range) {
    const level = /** @type {import('@sandglass/common/rollup').Level} */ (
      LEVELS.find(({ name: its }) => its === levelName)
    )
    const mine = rows.filter((row) => one === id && row.metric === metric)
    return rolledUp(mine, level, range, rollups)
  }

  const marked = () => rollups?.markedHours ?? new Set()

  /** @satisfies {Store} */
  const store = {
    ...fakeRules(),
    ...fakeDashboards(),
    decoders: fakeDecoders(),
    ...fakeMetadata(
      (one) => (one === id ? extents(rows).map(({ metric }) => metric) : []),
      () => sensors.keys(),
    ),
    sensor: async (one) => sensors.get(one),
    names: async (ids) =>
      new Map([...sensors].flatMap(([one, { name }]) => (ids.includes(one) ? [[one, name]] : []))),
    rewrite: async (one) => rewrites.get(one),
    askRewrite: async (one, className) => {
      rewrites.set(one, { askedMs: Date.now(), className, state: undefined })
    },
    isKnown: async (one) => sensors.get(one)?.hidden === false,
    async *sensors() {
      yield [...sensors.values()]
    },
    async *heardTimes() {
      yield extents(rows).map(({ lastMs }) => ({ id, t: lastMs }))
    },
    layouts: async (one) => (one === id ? layouts : (others.get(one) ?? [])),
    series: async (one) => (one === id ? extents(rows) : []),
    latest: async (one) => latestOf(one),
    // A value at a time.
    async latestPart(one, metrics, from) {
      const all = latestOf(one).filter(({ metric }) => metrics?.includes(metric) ?? true)
      const at = Number(from ?? 0)
      return {
        rows: all.slice(at, at + 1),
        next: at + 1 < all.length ? String(at + 1) : undefined,
      }
    },
    latestTimes: async (one) => latestOf(one).map(({ metric, t }) => ({ metric, t })),
    rows: readRows,
    async numbers(one, metric, span) {
      const found = await readRows(one, metric, span, 'desc', Infinity)
      return { rows: found.rows.map(numberRow), pageState: undefined }
    },
    async hours(one, metric, part) {
      return rollupsOf(one, metric, '1h', part).map((row) => {
        const startMs = row.ts.getTime()
        const leftMs = LEVELS[1].ttlS * 1000
        return { startMs, aggregate: Aggregate.ofRow(row), oldestMs: startMs, leftMs }
      })
    },
    async dayCounts(one, metric, part) {
      return new Map(rollupsOf(one, metric, '1d', part).map(({ ts, n }) => [ts.getTime(), n]))
    },
    rollups: async (one, metric, { level, ...range }) => rollupsOf(one, metric, level, range),
    rollupProgress: async () => rollups?.doneMs,
    markedHours: async () =>
      new Map([...new Set(rows.map((row) => row.metric))].map((m) => [m, marked()])),
    statuses: async () => [],
    async addLayout(one, layout) {
      others.set(one, [...(others.get(one) ?? []), layout])
    },
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
    desired: async (one) => wanted.get(one),
    async putDesired(one, _name, state) {
      if (state === null) wanted.delete(one)
      else wanted.set(one, { state, changedMs: Date.now() })
    },
    deletions: async (one) => deletions.filter(({ sensorId }) => sensorId === one),
    deletion: async (one, its) =>
      deletions.find(({ sensorId, id: found }) => sensorId === one && found === its),
    async askDeletion(deletion) {
      deletions.push({ ...deletion, state: undefined })
    },
    async countRows(one, metric, { fromMs, toMs }) {
      const found = one === id ? rows.filter((row) => row.metric === metric) : []
      const times = found.map(({ t }) => t).filter((t) => t >= fromMs && t < toMs)
      return { n: times.length, firstMs: Math.min(...times), lastMs: Math.max(...times) }
    },
    async deadLetters(day, shard, before, rowsMax) {
      return (lettersByPlace.get(`${day}/${shard}`) ?? [])
        .filter(({ id: one }) => before === undefined || compareTimeUuids(one, before) < 0)
        .slice(0, rowsMax)
        .map(({ payload, ...head }) => head)
    },
    /** @param {number} _day  @param {number} _shard  @param {string} letterId */
    async deadLetterPayload(_day, _shard, letterId) {
      return letters.find((one) => one.id === letterId)?.payload
    },
  }
  return store
}

/** @param {Row} row  @returns {import('../../src/downsample/store.js').NumberRow} */
function numberRow({ t, value }) {
  const v = typeof value === 'number' ? value : null
  return { ts: new Date(t), v, i: null, b: typeof value === 'boolean' ? value : null }
}

/**
 * @param {Row[]} rows
 * @param {import('@sandglass/common/rollup').Level} level
 * @param {import('@sandglass/common/spans').Range} range
 * @param {Rollups | undefined} rollups
 * @returns {any[]}
 */
function rolledUp(rows, level, range, rollups) {
  /** @type {Map<number, Aggregate>} */
  const windows = new Map()
  for (const row of rows) {
    const value = rollupValue(numberRow(row))
    const startMs = startOf(row.t, level.windowMs)
    if (value === undefined || startMs < range.fromMs || startMs >= range.toMs) continue
    const aggregate = windows.get(startMs) ?? Aggregate.withSketch()
    windows.set(startMs, aggregate)
    aggregate.add(row.t, row.seq, value)
  }
  return [...windows].map(([startMs, { sketch, ...aggregate }]) => {
    const window = { fromMs: startMs, toMs: startMs + level.windowMs }
    const { doneMs = -Infinity, markedHours = [] } = rollups ?? {}
    const isTrue = believed(level, window, doneMs, markedHours).length > 0
    const lie = isTrue ? {} : { n: 1e9, sum: 1e9, min: -1e9, max: 1e9 }
    const bytes = level.name === '1m' ? null : sketch?.encode()
    return { ts: new Date(startMs), ...aggregate, ...lie, sketch: bytes }
  })
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
