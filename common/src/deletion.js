/**
 * What was deleted for good: which rows a deletion covers, and the eras of `latest`. ADR 0046 says
 * how a deletion becomes true in every table.
 */

/**
 * @typedef {object} Deletion  As it was asked for.
 * @property {string} sensorId
 * @property {string} id  A version 1 UUID, whose time is `askedMs`.
 * @property {number} askedMs  What was received until then is deleted.
 * @property {string[] | null} metrics  null: all of them.
 * @property {number | null} fromMs  First millisecond of the event times; null: from the beginning.
 * @property {number | null} toMs  First millisecond after; null: to the end.
 * @property {boolean} [isWhole]  Whether the sensor goes, too, with all that is known of it.
 */

/** The columns of `deletion` from which {@link deletionOfRow} makes one. */
export const DELETION_COLUMNS = 'sensor_id, id, metrics, from_ts, to_ts, whole'

/**
 * How long it is known what was deleted, in seconds: what waits in a spool for longer than that
 * comes back.
 */
export const DELETION_TTL_S = 400 * 86_400

/** @param {any} row  With {@link DELETION_COLUMNS}.  @returns {Deletion} */
export function deletionOfRow(row) {
  return {
    sensorId: row.sensor_id.toString(),
    id: row.id.toString(),
    askedMs: row.id.getDate().getTime(),
    metrics: row.metrics ?? null,
    fromMs: row.from_ts?.getTime() ?? null,
    toMs: row.to_ts?.getTime() ?? null,
    isWhole: row.whole === true,
  }
}

/**
 * Whether a row is deleted.
 *
 * @param {Pick<Deletion, 'askedMs' | 'metrics' | 'fromMs' | 'toMs'>} deletion
 * @param {{ metric: string, timeMs: number, receivedMs: number }} row
 */
export function covers({ askedMs, metrics, fromMs, toMs }, { metric, timeMs, receivedMs }) {
  if (receivedMs > askedMs || (metrics && !metrics.includes(metric))) return false
  return timeMs >= (fromMs ?? Number.NEGATIVE_INFINITY) && timeMs < (toMs ?? Infinity)
}

/**
 * Whether a deletion takes all of a series, so that its name goes, too.
 *
 * @param {Pick<Deletion, 'fromMs' | 'toMs'>} deletion
 * @param {{ fromMs: number, toMs: number }} extent  Of the series.
 */
export function takesAll({ fromMs, toMs }, extent) {
  return (fromMs ?? 0) <= Math.max(0, extent.fromMs) && (toMs ?? Infinity) >= extent.toMs
}

/** The timestamp of its tombstones, in microseconds. @param {{ askedMs: number }} deletion */
export function deletionStampUs({ askedMs }) {
  return askedMs * 1000 + 999
}

/**
 * Lists a deletion as open. Its timestamp is below that of {@link closeStatement}, whatever the
 * clocks of those say who list it and take it off, so it is never listed again.
 *
 * @param {string} keyspace
 */
export function openStatement(keyspace) {
  return `INSERT INTO ${keyspace}.deletion_open (sensor_id, id) VALUES (?, ?)
          USING TIMESTAMP ? AND TTL ${DELETION_TTL_S}`
}

/** Takes it off the list. @param {string} keyspace */
export function closeStatement(keyspace) {
  return `DELETE FROM ${keyspace}.deletion_open USING TIMESTAMP ? WHERE sensor_id = ? AND id = ?`
}

/**
 * The timestamp of {@link openStatement}, in microseconds.
 *
 * @param {{ askedMs: number }} deletion
 */
export function openStampUs({ askedMs }) {
  return askedMs * 1000
}

/**
 * Between the timestamps of two eras of `latest`, in microseconds: more than event times reach. A
 * row of `latest` has the time of its event as its timestamp, so a tombstone of one would hide all
 * that is imported of older times later. The next era is above the tombstones of those before.
 */
export const ERA_US = 5_000_000_000_000_000

/** Most eras of a series: timestamps have 63 bits. */
export const ERAS_MAX = 1_800
