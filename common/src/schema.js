/**
 * The CQL tables that services share, and the time bucket in which a measurement lies.
 * `docs/data-model.md` gives the reasons.
 */

import { LEVELS, MARK_TTL_S, rollupTable } from './rollup.js'
import { ruleTables } from './rules/tables.js'

const DAY_S = 86_400

/**
 * A retention class: one table, one time to live, one compaction window, so that what expires
 * together is deleted together, as whole files.
 *
 * @typedef {object} RetentionClass
 * @property {string} name
 * @property {number} ttlS  Seconds that a measurement is kept; 0 is for ever.
 * @property {'HOURS' | 'DAYS'} windowUnit
 * @property {number} windowSize  The compaction window, in that unit.
 * @property {number} bucketS  Seconds of one partition of one sensor, unless its layout says other.
 */

/** @type {readonly RetentionClass[]} */
export const RETENTION_CLASSES = [
  { name: '7d', ttlS: 7 * DAY_S, windowUnit: 'HOURS', windowSize: 6, bucketS: DAY_S / 4 },
  { name: '30d', ttlS: 30 * DAY_S, windowUnit: 'DAYS', windowSize: 1, bucketS: DAY_S },
  { name: '90d', ttlS: 90 * DAY_S, windowUnit: 'DAYS', windowSize: 3, bucketS: DAY_S },
  { name: '400d', ttlS: 400 * DAY_S, windowUnit: 'DAYS', windowSize: 14, bucketS: 7 * DAY_S },
  { name: 'keep', ttlS: 0, windowUnit: 'DAYS', windowSize: 91, bucketS: 7 * DAY_S },
]

/** The names of all retention classes. */
export const CLASS_NAMES = RETENTION_CLASSES.map(({ name }) => name)

/** The class of a sensor that was given none. */
export const CLASS_DEFAULT = '30d'

/**
 * From which event time on a sensor's measurements lie in which table and bucket width. A sensor
 * has one or more. New ones begin in the future; only a rewrite changes one of the past, after it
 * has copied what lies there (ADR 0021).
 *
 * @typedef {Place & LayoutFields} Layout
 */

/**
 * Where measurements lie: a table, the width of its partitions, and which copy.
 *
 * @typedef {object} Place
 * @property {string} className
 * @property {number} bucketS
 * @property {number} [generation]  Counts rewrites of the sensor: each writes partitions of its
 *   own. None is 0.
 */

/**
 * @typedef {object} LayoutFields
 * @property {number} fromMs  Event time from which it holds, milliseconds since the Unix epoch.
 * @property {Place} [next]  What is stored now is stored there, too: it is being rewritten.
 * @property {number} [lostMs]  Rows that were received before may have expired before they were
 *   rewritten; milliseconds since the Unix epoch.
 */

/** @param {string} name */
export function retentionClass(name) {
  const found = RETENTION_CLASSES.find((one) => one.name === name)
  if (!found) throw new Error(`no retention class ${name}; there are ${CLASS_NAMES.join(', ')}`)
  return found
}

/**
 * The layout of a sensor that is seen for the first time.
 *
 * @param {string} className
 * @returns {Layout}
 */
export function firstLayout(className) {
  return { fromMs: 0, className, bucketS: retentionClass(className).bucketS }
}

/**
 * The layout that holds at an event time: the last that began before or then.
 *
 * @param {readonly Layout[]} layouts  Ordered by `fromMs`, the first from 0.
 * @param {number} timeMs
 */
export function layoutAt(layouts, timeMs) {
  return layouts.findLast(({ fromMs }) => fromMs <= timeMs) ?? layouts[0]
}

/**
 * The start of the bucket in which an event time lies, in seconds since the Unix epoch.
 *
 * @param {number} bucketS
 * @param {number} timeMs
 */
export function bucketOf(bucketS, timeMs) {
  return Math.floor(timeMs / 1000 / bucketS) * bucketS
}

/**
 * Between the numbers of the same bucket in two generations: far more than seconds since 1970, so
 * that a reader of the table sees both.
 */
const GENERATION_STEP = 1e12

/** Most generations of a sensor, so that the number of a bucket stays exact. */
export const GENERATIONS_MAX = 9_000

/** Added to the start of a bucket. @param {Place} place */
export function generationOffset({ generation = 0 }) {
  return generation * GENERATION_STEP
}

/**
 * The column `bucket` of a row.
 *
 * @param {Place} place
 * @param {number} timeMs  Of the event.
 */
export function bucketAt(place, timeMs) {
  return bucketOf(place.bucketS, timeMs) + generationOffset(place)
}

/** The columns of `layout` besides its key. */
export const LAYOUT_COLUMNS =
  'class, bucket_s, generation, next_class, next_bucket_s, next_generation, lost_ts'

/**
 * A layout as it is stored.
 *
 * @param {any} row  With `from_ts` and {@link LAYOUT_COLUMNS}.
 * @returns {Layout}
 */
export function layoutOfRow(row) {
  /** @type {Layout} */
  const layout = { fromMs: row.from_ts.getTime(), className: row.class, bucketS: row.bucket_s }
  if (row.generation) layout.generation = row.generation
  if (row.next_class) {
    layout.next = {
      className: row.next_class,
      bucketS: row.next_bucket_s,
      generation: row.next_generation,
    }
  }
  if (row.lost_ts) layout.lostMs = row.lost_ts.getTime()
  return layout
}

/** The table of a class's measurements, without its keyspace. @param {string} className */
export function measurementTable(className) {
  return `measurement_${className}`
}

/** Days of dead letters that are kept. */
export const DEAD_LETTER_TTL_S = 14 * DAY_S

/** Shards of one day's dead letters, so that a flood of them is not one partition. */
export const DEAD_LETTER_SHARDS = 8

/** How long it is known when devices came and went, and the seconds of one partition of that. */
export const STATUS_TTL_S = 90 * DAY_S
export const STATUS_BUCKET_S = 30 * DAY_S

/** How long a process is believed to live after it last said so. */
export const WORKER_TTL_S = 30

/** Cassandra's hint window: with the default of ten days, expired files would stay ten days. */
export const GC_GRACE_S = 10_800

/** @param {'HOURS' | 'DAYS'} unit  @param {number} size */
function timeWindow(unit, size) {
  return `compaction = {
      'class': 'TimeWindowCompactionStrategy',
      'compaction_window_unit': '${unit}', 'compaction_window_size': '${size}'}`
}

/** @param {string} keyspace  @param {RetentionClass} retention */
function createMeasurementTable(keyspace, { name, ttlS, windowUnit, windowSize }) {
  return `CREATE TABLE IF NOT EXISTS ${keyspace}.${measurementTable(name)} (
    sensor_id uuid, bucket bigint, metric text, ts timestamp, seq bigint,
    v double, i bigint, b boolean, s text, lat double, lon double,
    PRIMARY KEY ((sensor_id, bucket), metric, ts, seq)
  ) WITH CLUSTERING ORDER BY (metric ASC, ts DESC, seq DESC)
    AND ${timeWindow(windowUnit, windowSize)}
    AND default_time_to_live = ${ttlS} AND gc_grace_seconds = ${GC_GRACE_S}`
}

/** @param {string} keyspace  @param {import('./rollup.js').Level} level */
function createRollupTable(keyspace, { name, ttlS, windowDays }) {
  return `CREATE TABLE IF NOT EXISTS ${keyspace}.${rollupTable(name)} (
    sensor_id uuid, bucket bigint, metric text, ts timestamp,
    n bigint, sum double, min double, max double, first double, last double, sketch blob,
    oldest timestamp,
    PRIMARY KEY ((sensor_id, bucket), metric, ts)
  ) WITH ${timeWindow('DAYS', windowDays)}
    AND default_time_to_live = ${ttlS} AND gc_grace_seconds = ${GC_GRACE_S}`
}

/** Columns that tables of earlier versions lack. */
export const ADDED_COLUMNS = [
  { table: 'layout', column: 'generation', type: 'int' },
  { table: 'layout', column: 'next_class', type: 'text' },
  { table: 'layout', column: 'next_bucket_s', type: 'int' },
  { table: 'layout', column: 'next_generation', type: 'int' },
  { table: 'layout', column: 'lost_ts', type: 'timestamp' },
  { table: 'dead_letter', column: 'format', type: 'tinyint' },
  { table: 'dead_letter', column: 'rights', type: 'text' },
  { table: 'dead_letter', column: 'retention', type: 'text' },
  { table: 'series', column: 'unit', type: 'text' },
  { table: 'series', column: 'label', type: 'text' },
  { table: 'series', column: 'decimals', type: 'tinyint' },
  { table: 'series', column: 'expected_min', type: 'double' },
  { table: 'series', column: 'expected_max', type: 'double' },
  { table: 'series', column: 'told_unit', type: 'text' },
  { table: 'series', column: 'era', type: 'int' },
  { table: 'series', column: 'cover_era', type: 'int' },
  { table: 'deletion', column: 'whole', type: 'boolean' },
  { table: 'worker', column: 'deaf_from', type: 'timestamp' },
  { table: 'worker', column: 'deaf_to', type: 'timestamp' },
]

/** The columns of `series` and `type_metric` that hold what a person said of a metric. */
export const METADATA_COLUMNS = 'unit, label, decimals, expected_min, expected_max'

/** As they stand in the statement that creates a table. @param {string} of */
function addedTo(of) {
  return ADDED_COLUMNS.filter(({ table }) => table === of)
    .map(({ column, type }) => `${column} ${type}`)
    .join(', ')
}

/**
 * The statements that create everything, each harmless when it is there already.
 *
 * @param {string} keyspace
 * @param {Record<string, unknown>} replication  e.g.
 *   `{class: 'SimpleStrategy', replication_factor: 1}`.
 */
export function schemaStatements(keyspace, replication) {
  const options = Object.entries(replication).map(([key, value]) => `'${key}': '${value}'`)
  return [
    `CREATE KEYSPACE IF NOT EXISTS ${keyspace} WITH replication = {${options.join(', ')}}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.sensor (
      sensor_id uuid PRIMARY KEY, name text, type text, unit text,
      tags frozen<map<text, text>>, hidden boolean, created_at timestamp)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.layout (
      sensor_id uuid, from_ts timestamp, class text, bucket_s int,
      ${addedTo('layout')},
      PRIMARY KEY (sensor_id, from_ts))`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.rewrite (
      sensor_id uuid PRIMARY KEY, asked timestamp, class text, state text)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.rewrite_open (
      sensor_id uuid, asked timestamp, PRIMARY KEY (sensor_id, asked)
    ) WITH gc_grace_seconds = ${GC_GRACE_S}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.deletion (
      sensor_id uuid, id timeuuid, metrics frozen<list<text>>, from_ts timestamp, to_ts timestamp,
      state text, ${addedTo('deletion')}, PRIMARY KEY (sensor_id, id))`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.deletion_open (
      sensor_id uuid, id timeuuid, PRIMARY KEY (sensor_id, id)
    ) WITH gc_grace_seconds = ${GC_GRACE_S}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.series (
      sensor_id uuid, metric text, first_ts timestamp, last_ts timestamp,
      ${addedTo('series')},
      PRIMARY KEY (sensor_id, metric))`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.type_metric (
      type text, metric text, unit text, label text, decimals tinyint,
      expected_min double, expected_max double,
      PRIMARY KEY (type, metric))`,
    ...RETENTION_CLASSES.map((retention) => createMeasurementTable(keyspace, retention)),
    `CREATE TABLE IF NOT EXISTS ${keyspace}.latest (
      sensor_id uuid, metric text, ts timestamp, kind tinyint,
      v double, i bigint, b boolean, s text, lat double, lon double, received timestamp,
      PRIMARY KEY (sensor_id, metric))`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.credential (
      key_id text PRIMARY KEY, hash blob, name text, scopes frozen<set<text>>, sensor_id uuid,
      expires timestamp, created_at timestamp)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.claim (
      claim_id text PRIMARY KEY, hash blob, name text, sensor_id uuid, sensor text,
      scopes frozen<set<text>>, expires timestamp, created_at timestamp,
      key_id text, claimed timestamp)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.desired (
      sensor_id uuid PRIMARY KEY, sensor text, state text, changed timestamp)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.decoder_set (
      id tinyint PRIMARY KEY, revision int, body text)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.status (
      sensor_id uuid, bucket bigint, ts timestamp, state text, client text, reason text,
      PRIMARY KEY ((sensor_id, bucket), ts)
    ) WITH CLUSTERING ORDER BY (ts DESC) AND ${timeWindow('DAYS', 3)}
      AND default_time_to_live = ${STATUS_TTL_S} AND gc_grace_seconds = ${GC_GRACE_S}`,
    ...LEVELS.map((level) => createRollupTable(keyspace, level)),
    `CREATE TABLE IF NOT EXISTS ${keyspace}.late_mark (
      shard smallint, slot timestamp, level tinyint, sensor_id uuid, metric text, ts timestamp,
      PRIMARY KEY ((shard, slot), level, sensor_id, metric, ts)
    ) WITH ${timeWindow('DAYS', 3)}
      AND default_time_to_live = ${MARK_TTL_S} AND gc_grace_seconds = ${GC_GRACE_S}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.rollup_progress (
      shard smallint PRIMARY KEY, done timestamp)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.worker (
      role text, id uuid, since timestamp, ${addedTo('worker')}, PRIMARY KEY (role, id)
    ) WITH default_time_to_live = ${WORKER_TTL_S} AND gc_grace_seconds = ${GC_GRACE_S}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.dead_letter (
      day int, shard smallint, id timeuuid, topic text, client text, payload blob, reason text,
      received timestamp, replayed timestamp, ${addedTo('dead_letter')},
      PRIMARY KEY ((day, shard), id)
    ) WITH CLUSTERING ORDER BY (id DESC)
      AND ${timeWindow('HOURS', 12)}
      AND default_time_to_live = ${DEAD_LETTER_TTL_S} AND gc_grace_seconds = ${GC_GRACE_S}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.dashboard (
      dashboard_id uuid PRIMARY KEY, name text, body text, bytes int, changed timestamp)`,
    ...ruleTables(keyspace, (unit, size) => timeWindow(unit, size), GC_GRACE_S),
  ]
}
