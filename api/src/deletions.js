/** Deletions of measurements: what is asked for, what would go, and how they are shown. */

import { randomBytes } from 'node:crypto'
import {
  DELETION_COLUMNS,
  deletionOfRow,
  openStampUs,
  openStatement,
} from '@sandglass/common/deletion'
import { invalid, Problem } from '@sandglass/common/problem'
import { DAY_MS, HOUR_MS, startOf } from '@sandglass/common/rollup'
import { CLASS_NAMES, GC_GRACE_S, measurementTable } from '@sandglass/common/schema'
import { spans } from '@sandglass/common/spans'
import cassandra from 'cassandra-driver'
import { occupied } from './ranges.js'

const { Long, TimeUuid } = cassandra.types

/** @typedef {import('@sandglass/common/deletion').Deletion} Deletion */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/spans').Span} Span */
/** @typedef {import('./store.js').Store} Store */
/** @typedef {Pick<Deletion, 'metrics' | 'fromMs' | 'toMs' | 'isWhole'>} Asked */
/** @typedef {{ phase: string, metric?: string, atMs?: number, goneMs?: number,
 *   waitsFor?: 'broker', updatedMs: number }} State  As ingest stores it. */
/** @typedef {Deletion & { state: State | undefined }} StoredDeletion */
/** @typedef {(query: string, parameters: unknown[]) =>
 *   Promise<import('cassandra-driver').types.Row[]>} Ask */

/** Most deletions of a sensor that are not over. */
export const OPEN_MAX = 50

/** How long rows of a dry run are counted, in milliseconds. */
const COUNT_MS_MAX = 1_000

/** What the phases of ingest mean for whoever waits for the end. */
const STATES = new Map([
  ['delete', 'deleting'],
  ['tell', 'checking'],
  ['look', 'checking'],
  ['settle', 'checking'],
  ['again', 'checking'],
  ['done', 'done'],
])

/** @param {string} keyspace  @param {Ask} ask */
export function deletionQuestions(keyspace, ask) {
  const columns = `SELECT ${DELETION_COLUMNS}, state FROM ${keyspace}.deletion WHERE sensor_id = ?`
  const counts = new Map(
    CLASS_NAMES.map((name) => [
      name,
      `SELECT COUNT(*) AS n, MIN(ts) AS first, MAX(ts) AS last
       FROM ${keyspace}.${measurementTable(name)}
       WHERE sensor_id = ? AND bucket = ? AND metric = ? AND ts >= ? AND ts < ?`,
    ]),
  )
  return {
    /** Oldest first. @param {string} sensorId  @returns {Promise<StoredDeletion[]>} */
    async deletions(sensorId) {
      return (await ask(columns, [sensorId])).map(storedDeletion)
    },

    /**
     * @param {string} sensorId
     * @param {string} id
     * @returns {Promise<StoredDeletion | undefined>}
     */
    async deletion(sensorId, id) {
      const [row] = await ask(`${columns} AND id = ?`, [sensorId, id])
      return row && storedDeletion(row)
    },

    /** @param {Deletion} deletion */
    async askDeletion({ sensorId, id, askedMs, metrics, fromMs, toMs, isWhole = false }) {
      // The list first: ingest finds only what is listed.
      const stamp = Long.fromNumber(openStampUs({ askedMs }))
      await ask(openStatement(keyspace), [sensorId, id, stamp])
      await ask(
        `INSERT INTO ${keyspace}.deletion (sensor_id, id, metrics, from_ts, to_ts, whole)
         VALUES (?, ?, ?, ?, ?, ?)`,
        [sensorId, id, metrics, fromMs, toMs, isWhole],
      )
    },

    /**
     * How many rows a part of a partition has, and their first and last time.
     *
     * @param {string} sensorId
     * @param {string} metric
     * @param {Span} span
     */
    async countRows(sensorId, metric, { className, bucket, fromMs, toMs }) {
      const query = /** @type {string} */ (counts.get(className))
      const [row] = await ask(query, [sensorId, bucket, metric, fromMs, toMs])
      const { n, first, last } = row
      return { n: Number(String(n)), firstMs: first?.getTime(), lastMs: last?.getTime() }
    },
  }
}

/** @param {any} row  @returns {StoredDeletion} */
function storedDeletion(row) {
  return { ...deletionOfRow(row), state: row.state ? JSON.parse(row.state) : undefined }
}

/** @param {string} sensorId  @param {Asked} asked  @returns {Deletion} */
export function newDeletion(sensorId, asked) {
  const askedMs = Date.now()
  const id = TimeUuid.fromDate(new Date(askedMs), undefined, randomBytes(6), randomBytes(2))
  return { sensorId, id: id.toString(), askedMs, ...asked }
}

/**
 * Asks ingest for a deletion; the answer says where its progress is.
 *
 * @param {Store} store
 * @param {Deletion} wanted
 * @param {string} sensor  As the client calls it.
 * @param {import('fastify').FastifyReply} reply
 */
export async function askFor(store, wanted, sensor, reply) {
  if ((await store.deletions(wanted.sensorId)).filter(isOpen).length >= OPEN_MAX) {
    throw new Problem(
      'too-many-changes',
      `${OPEN_MAX} deletions of this sensor are not over: wait for one`,
      { parameter: 'sensor' },
    )
  }
  await store.askDeletion(wanted)
  const path = `/v1/sensors/${encodeURIComponent(sensor)}/deletions`
  reply.code(202).header('location', `${path}/${wanted.id}`)
  return presentDeletion({ ...wanted, state: undefined })
}

/** Whether it is not over. @param {StoredDeletion} deletion */
export function isOpen({ state }) {
  return state?.phase !== 'done'
}

/** @param {State} state */
function stateOf({ phase, goneMs }) {
  // One that looks before it is gone is not yet over with that.
  return goneMs === undefined ? 'deleting' : STATES.get(phase)
}

/** @param {StoredDeletion} deletion */
export function presentDeletion({ id, askedMs, metrics, fromMs, toMs, isWhole, state }) {
  return {
    id,
    sensor: isWhole === true,
    state: state ? stateOf(state) : 'asked',
    metrics,
    from: fromMs,
    to: toMs,
    asked: askedMs,
    at: state?.metric === undefined ? null : { metric: state.metric, until: state.atMs ?? null },
    gone: state?.goneMs ?? null,
    waits_for: state?.waitsFor ?? null,
    forgettable: state?.goneMs === undefined ? null : state.goneMs + GC_GRACE_S * 1000,
    updated: state?.updatedMs ?? null,
  }
}

/**
 * What would be deleted now.
 *
 * @param {Store} store
 * @param {Deletion} deletion
 * @param {AbortSignal} signal
 */
export async function dryRun(store, deletion, signal) {
  const { sensorId, metrics, fromMs, toMs, askedMs } = deletion
  const [layouts, series] = await Promise.all([store.layouts(sensorId), store.series(sensorId)])
  const wanted = series.filter(({ metric }) => !metrics || metrics.includes(metric))
  const range = { fromMs: fromMs ?? Number.NEGATIVE_INFINITY, toMs: toMs ?? Infinity }
  const untilMs = performance.now() + COUNT_MS_MAX
  const items = []
  let isComplete = true
  for (const extent of wanted) {
    const item = { metric: extent.metric, rows: 0, first: Infinity, last: -Infinity }
    const ranges = layouts.length > 0 ? occupied(extent, range, askedMs) : []
    for (const span of spans(layouts, ranges, 'asc')) {
      signal.throwIfAborted()
      isComplete &&= performance.now() < untilMs
      if (!isComplete) break
      const {
        n,
        firstMs = Infinity,
        lastMs = -Infinity,
      } = await store.countRows(sensorId, extent.metric, span)
      item.rows += n
      item.first = Math.min(item.first, firstMs)
      item.last = Math.max(item.last, lastMs)
    }
    if (item.rows > 0) items.push(item)
  }
  return {
    dry_run: true,
    metrics,
    from: fromMs,
    to: toMs,
    complete: isComplete,
    rows: items.reduce((sum, { rows }) => sum + rows, 0),
    items,
  }
}

/**
 * An end that lies within what is only stored as a sum: the rest of that could not be told.
 *
 * @param {import('./downsample/reader.js').SeriesDownsampler} downsampler
 * @param {Store} store
 * @param {Deletion} deletion
 * @param {AbortSignal} signal
 */
export async function requireWholeSums(downsampler, store, deletion, signal) {
  const { sensorId, metrics } = deletion
  const wanted = (await store.series(sensorId)).filter(
    ({ metric }) => !metrics || metrics.includes(metric),
  )
  const ends = /** @type {const} */ ([
    ['from', deletion.fromMs],
    ['to', deletion.toMs],
  ])
  for (const [parameter, edgeMs] of ends) {
    if (edgeMs === null || edgeMs % DAY_MS === 0) continue
    for (const { metric } of wanted) {
      const grainMs = await grainAt(downsampler, { sensorId, metric }, edgeMs, signal)
      if (edgeMs % grainMs === 0) continue
      const time = (/** @type {number} */ ms) => new Date(ms).toISOString()
      const beforeMs = startOf(edgeMs, grainMs)
      throw invalid(
        parameter,
        `cuts through ${grainMs === DAY_MS ? 'a day' : 'an hour'} of ${metric} of which only ` +
          `sums are left: give ${time(beforeMs)} or ${time(beforeMs + grainMs)}`,
      )
    }
  }
}

/**
 * In which wholes a series can be deleted at a time: a millisecond where raw rows are there, else
 * what was summed up of them.
 *
 * @param {import('./downsample/reader.js').SeriesDownsampler} downsampler
 * @param {{ sensorId: string, metric: string }} series
 * @param {number} timeMs
 * @param {AbortSignal} signal
 */
async function grainAt(downsampler, series, timeMs, signal) {
  const hourMs = startOf(timeMs, HOUR_MS)
  // A millisecond is answered from what is stored most finely, and widened to that.
  const question = {
    fromMs: hourMs + 1,
    toMs: hourMs + 2,
    stepMs: undefined,
    points: 1,
    needsSketch: false,
  }
  const { range } = await downsampler.read([series], question, signal)
  const lengthMs = range.toMs - range.fromMs
  if (lengthMs === 1) return 1
  return lengthMs <= HOUR_MS ? HOUR_MS : DAY_MS
}
