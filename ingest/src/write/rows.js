/**
 * The rows that ingest writes: the statements, and how values are bound to them.
 *
 * Every row says its timestamp, so that a retry writes the same bytes with the same timestamp:
 *
 * ```text
 * measurement                                time of first acceptance; of a replay, its own
 * sensor, layout, dead letter                time of first acceptance
 * status                                     its own time
 * latest                                     the smaller of event time and time of receipt, in the
 *                                            era of its series (ADR 0046)
 * series.told_unit                           time of first acceptance: what came last wins
 * series.last_ts                             the time itself: the largest wins
 * mark of a dirty hour, of a rule            its slot
 * series.first_ts                            counted down from the year 2100: the smallest wins;
 *                                            both in the era of the series' cover (ADR 0046)
 * ```
 *
 * What was kept in the spool for a while lives shorter by that, within limits: `lateTtlS`.
 */

import { ERA_US } from '@sandglass/common/deletion'
import { letterEnvelope } from '@sandglass/common/expressions/envelope'
import { expression } from '@sandglass/common/formats/expression'
import { deadLetterDay, KIND, VALUE_COLUMNS } from '@sandglass/common/measurement'
import { MARK, MARK_TTL_S, markTimestampUs, shardOf } from '@sandglass/common/rollup'
import {
  bucketAt,
  bucketOf,
  CLASS_NAMES,
  DEAD_LETTER_SHARDS,
  measurementTable,
  retentionClass,
  STATUS_BUCKET_S,
} from '@sandglass/common/schema'
import cassandra from 'cassandra-driver'
import { deadLetterIdOf } from './dead-letter-id.js'
import { Row } from './row.js'

const { Long, TimeUuid, Uuid } = cassandra.types

/** From when on what is written late lives shorter by that, in seconds. */
const LATE_S = 60

/** How much of its time is left to what is written late, at least, in seconds. */
const LEFT_S_MIN = 86_400

/** The first timestamp of an era, in microseconds. @param {number} era */
export const eraStart = (era) => Long.fromNumber(ERA_US).multiply(era)

/** The year 2100, in milliseconds since the Unix epoch. */
const YEAR_2100_MS = 4_102_444_800_000

/** How far a measurement may lie outside first and last time of its series, in milliseconds. */
export const COVER_MS = 600_000

/** What every dead letter has. */
const LETTER_COLUMNS = Object.freeze([
  ...['day', 'shard', 'id', 'topic', 'client', 'payload', 'reason', 'received', 'format'],
])

/** Most bytes of a payload that a dead letter keeps. */
export const PAYLOAD_KEPT_BYTES_MAX = 64 * 1024

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('../sensors/series.js').Sensor} Sensor */
/** @typedef {import('../sensors/series.js').Series} Series */
/** @typedef {import('../sensors/series.js').Newest} Newest */
/** @typedef {import('@sandglass/common/measurement').Value} Value */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/schema').Place} Place */

/** Microseconds since the Unix epoch. @param {number} ms */
const timestampOf = (ms) => Long.fromNumber(ms * 1000)

export class Rows {
  /** @type {Record<string, Record<string, string>>} */
  #measurementByClass
  #latestByKind
  #namedSensor
  #namelessSensor
  #firstLayout
  #seriesFirst
  #seriesLast
  #seriesUnit
  #markInsert
  #ruleMarkInsert
  #statusInsert
  /** With some columns more. @type {(more: string[]) => string} */
  #deadLetterInsert
  #deadLetterMark
  /** Ids as the driver takes them, by sensor. @type {WeakMap<Sensor, SensorKeys>} */
  #keys = new WeakMap()
  #now

  /**
   * @param {string} keyspace
   * @param {() => number} [now]  Milliseconds since the Unix epoch.
   */
  constructor(keyspace, now = Date.now) {
    this.#now = now
    /** @param {string} table  @param {string[]} columns */
    const insert = (table, columns) =>
      `INSERT INTO ${keyspace}.${table} (${columns.join(', ')}) ` +
      `VALUES (${columns.map(() => '?').join(', ')}) USING TIMESTAMP ?`
    /** @param {(columns: string[]) => string} build  By kind of value. */
    const byKind = (build) =>
      Object.fromEntries(
        Object.entries(VALUE_COLUMNS).map(([kind, columns]) => [kind, build([...columns])]),
      )
    const measurementKey = ['sensor_id', 'bucket', 'metric', 'ts', 'seq']
    this.#measurementByClass = Object.fromEntries(
      CLASS_NAMES.map((name) => [
        name,
        byKind((columns) => insert(measurementTable(name), [...measurementKey, ...columns])),
      ]),
    )
    const latestKey = ['sensor_id', 'metric', 'ts', 'kind', 'received']
    this.#latestByKind = byKind((columns) => insert('latest', [...latestKey, ...columns]))
    this.#namedSensor = insert('sensor', ['sensor_id', 'name', 'created_at'])
    this.#namelessSensor = insert('sensor', ['sensor_id', 'created_at'])
    this.#firstLayout = insert('layout', ['sensor_id', 'from_ts', 'class', 'bucket_s'])
    this.#seriesFirst = insert('series', ['sensor_id', 'metric', 'first_ts'])
    this.#seriesLast = insert('series', ['sensor_id', 'metric', 'last_ts'])
    this.#seriesUnit = insert('series', ['sensor_id', 'metric', 'told_unit'])
    const markKey = ['shard', 'slot', 'level', 'sensor_id', 'metric', 'ts']
    this.#markInsert = `${insert('late_mark', markKey)} AND TTL ?`
    this.#ruleMarkInsert = insert('rule_mark', ['slot', 'id', 'sensor_id', 'metric', 'ts'])
    this.#statusInsert = insert('status', [
      ...['sensor_id', 'bucket', 'ts', 'state', 'client', 'reason'],
    ])
    this.#deadLetterInsert = (more) => insert('dead_letter', [...LETTER_COLUMNS, ...more])
    this.#deadLetterMark = insert('dead_letter', ['day', 'shard', 'id', 'replayed'])
  }

  /**
   * @param {Message} message
   * @param {Series} series
   * @param {Place} place
   * @param {{ timeMs: number, seq: number, kind: number, value: Value }} what
   */
  measurement(message, series, place, what) {
    const row = this.copy(message, series, place, what)
    row.series = series
    row.timeMs = what.timeMs
    return row
  }

  /**
   * The same row in another place.
   *
   * @param {Message} message
   * @param {Series} series
   * @param {Place} place
   * @param {{ timeMs: number, seq: number, kind: number, value: Value }} what
   */
  copy(message, series, place, { timeMs, seq, kind, value }) {
    const keys = this.#keysOf(series.sensor)
    const bucket = keys.bucketOf(place.className, bucketAt(place, timeMs))
    /** @type {unknown[]} */
    const params = [keys.uuid, bucket.long, series.metric, timeMs, Long.fromNumber(seq)]
    bindValue(params, kind, value)
    params.push(timestampOf(message.writtenMs))
    let query = this.#measurementByClass[place.className][kind]
    const keptS = Math.floor((this.#now() - message.receivedMs) / 1000)
    const ttlS = lateTtlS(retentionClass(place.className).ttlS, keptS)
    if (ttlS !== undefined) {
      params.push(ttlS)
      query += ' AND TTL ?'
    }
    const bytes = textBytes(series.metric, value)
    return new Row(query, params, bucket.partition, bytes, message)
  }

  /** @param {Series} series  @param {Newest} newest  @param {Value} value  Of it. */
  latest(series, { timeMs, receivedMs, kind, timestampUs }, value) {
    const { uuid, latestPartition } = this.#keysOf(series.sensor)
    /** @type {unknown[]} */
    const params = [uuid, series.metric, timeMs, kind, receivedMs]
    bindValue(params, kind, value)
    const stamp = Long.fromNumber(timestampUs)
    params.push(series.era === 0 ? stamp : eraStart(series.era).add(stamp))
    const query = this.#latestByKind[kind]
    return new Row(query, params, latestPartition, textBytes(series.metric, value), undefined)
  }

  /** @param {Sensor} sensor  @param {Message} message */
  sensor(sensor, message) {
    const { uuid, sensorPartition } = this.#keysOf(sensor)
    const { receivedMs } = message
    const isNamed = sensor.name.toLowerCase() !== sensor.id
    const query = isNamed ? this.#namedSensor : this.#namelessSensor
    /** @type {unknown[]} */
    const params = isNamed ? [uuid, sensor.name, receivedMs] : [uuid, receivedMs]
    params.push(timestampOf(receivedMs))
    return new Row(query, params, sensorPartition, 2 * sensor.name.length, message)
  }

  /** @param {Sensor} sensor  @param {Layout} layout  @param {Message} message */
  layout(sensor, { fromMs, className, bucketS }, message) {
    const { uuid, layoutPartition } = this.#keysOf(sensor)
    const params = [uuid, fromMs, className, bucketS, timestampOf(message.receivedMs)]
    return new Row(this.#firstLayout, params, layoutPartition, className.length, message)
  }

  /** @param {Series} series  @param {number} timeMs  @param {Message} [message] */
  seriesFrom(series, timeMs, message) {
    const { uuid, seriesPartition } = this.#keysOf(series.sensor)
    const stamp = eraStart(series.coverEra).add(YEAR_2100_MS - timeMs)
    const params = [uuid, series.metric, timeMs, stamp]
    return new Row(this.#seriesFirst, params, seriesPartition, series.metric.length, message)
  }

  /** @param {Series} series  @param {number} timeMs  @param {Message} [message] */
  seriesTo(series, timeMs, message) {
    const { uuid, seriesPartition } = this.#keysOf(series.sensor)
    const stamp = eraStart(series.coverEra).add(timestampOf(timeMs))
    const params = [uuid, series.metric, timeMs, stamp]
    return new Row(this.#seriesLast, params, seriesPartition, series.metric.length, message)
  }

  /** The unit that a device tells. */
  /** @param {Series} series  @param {string} unit  @param {Message} message */
  seriesUnit(series, unit, message) {
    const { uuid, seriesPartition } = this.#keysOf(series.sensor)
    const params = [uuid, series.metric, unit, timestampOf(message.receivedMs)]
    const bytes = textBytes(series.metric, unit)
    return new Row(this.#seriesUnit, params, seriesPartition, bytes, message)
  }

  /**
   * Marks an hour of a series dirty.
   *
   * @param {Series} series
   * @param {number} hourMs
   * @param {number} slotMs
   * @param {Message} message
   */
  mark(series, hourMs, slotMs, message) {
    const { uuid, shard } = this.#keysOf(series.sensor)
    /** @type {unknown[]} */
    const params = [shard, slotMs, MARK.hour, uuid, series.metric, hourMs]
    params.push(Long.fromNumber(markTimestampUs(slotMs)), MARK_TTL_S)
    const partition = `k${shard}/${slotMs}`
    return new Row(this.#markInsert, params, partition, series.metric.length, message)
  }

  /**
   * Has the alert rules of a series evaluated from a time on.
   *
   * @param {Series} series
   * @param {number} timeMs
   * @param {number} slotMs
   * @param {Message} message
   */
  ruleMark({ sensor, metric }, timeMs, slotMs, message) {
    const { uuid } = this.#keysOf(sensor)
    const params = [slotMs, TimeUuid.now(), uuid, metric, timeMs, timestampOf(slotMs)]
    return new Row(this.#ruleMarkInsert, params, `r${slotMs}`, metric.length, message)
  }

  /**
   * That a device came or went.
   *
   * @param {{ id: string, state: string, clientId: string, reason: string, timeMs: number }} what
   */
  status({ id, state, clientId, reason, timeMs }) {
    const bucketS = bucketOf(STATUS_BUCKET_S, timeMs)
    const params = [Uuid.fromString(id), Long.fromNumber(bucketS), timeMs, state, clientId, reason]
    params.push(timestampOf(timeMs))
    const bytes = state.length + clientId.length + reason.length
    return new Row(this.#statusInsert, params, `t${id}/${bucketS}`, bytes, undefined)
  }

  /** @param {Message} message  @param {string} reason */
  deadLetter(message, reason) {
    const { topic, clientId, receivedMs, firstReceivedMs, format } = message
    message.deadLetterId ??= deadLetterIdOf(receivedMs)
    const { day, shard, id } = letterPlace(message.deadLetterId)
    const whole =
      format === expression.number
        ? letterEnvelope(message.payload, PAYLOAD_KEPT_BYTES_MAX)
        : message.payload
    const payload = Buffer.from(whole.subarray(0, PAYLOAD_KEPT_BYTES_MAX))
    /** @type {unknown[]} */
    const params = [day, shard, id, topic, clientId, payload, reason, firstReceivedMs]
    // A spool record has a byte for the format, of a later version perhaps; this column is signed.
    params.push((format << 24) >> 24)
    // A null that is written is a tombstone: what few letters have is left out in the others.
    const few = Object.entries({ rights: message.rights.text, retention: message.retention })
    const more = few.filter(([, text]) => text !== null && text !== undefined)
    params.push(...more.map(([, text]) => text), timestampOf(receivedMs))
    const query = this.#deadLetterInsert(more.map(([column]) => column))
    const bytes = topic.length + clientId.length + payload.length + reason.length
    return new Row(query, params, `d${day}/${shard}`, bytes, message)
  }

  /**
   * Marks a dead letter that was stored after all.
   *
   * @param {cassandra.types.TimeUuid} letterId
   * @param {number} nowMs  When it was stored after all, milliseconds since the Unix epoch.
   */
  replayed(letterId, nowMs) {
    const { day, shard, id } = letterPlace(letterId)
    const params = [day, shard, id, nowMs, timestampOf(nowMs)]
    return new Row(this.#deadLetterMark, params, `d${day}/${shard}`, 0, undefined)
  }

  /** @param {Sensor} sensor */
  #keysOf(sensor) {
    let keys = this.#keys.get(sensor)
    if (!keys) {
      keys = new SensorKeys(sensor.id)
      this.#keys.set(sensor, keys)
    }
    return keys
  }
}

/**
 * The partition of a dead letter, which its id tells.
 *
 * @param {cassandra.types.TimeUuid} id
 */
export function letterPlace(id) {
  const day = deadLetterDay(id.getDate().getTime())
  return { day, shard: /** @type {any} */ (id).buffer[3] % DEAD_LETTER_SHARDS, id }
}

/**
 * How long a row may live, in seconds: undefined is as long as its class says. What came out of the
 * spool, or was a dead letter, has lived for a while already.
 *
 * But of how long it waited our clock tells, which may have been wrong when it came or may be wrong
 * now: years ahead, or of 1970 until it is set. What was acknowledged must not vanish by that. So
 * what seems to be over before it is written, which a real wait hardly brings about, lives its
 * whole time, and anything else at least a day, in which somebody can look.
 *
 * @param {number} ttlS  Of its class; 0 is for ever.
 * @param {number} keptS  Since it was received.
 */
function lateTtlS(ttlS, keptS) {
  if (keptS <= LATE_S || keptS >= ttlS) return undefined
  return Math.max(LEFT_S_MIN, ttlS - keptS)
}

/** A sensor's keys in the form in which they are bound, made once. */
class SensorKeys {
  #id
  #className = ''
  #bucketS
  #bucket

  /** @param {string} id */
  constructor(id) {
    this.uuid = Uuid.fromString(id)
    this.latestPartition = `l${id}`
    this.sensorPartition = `n${id}`
    this.layoutPartition = `y${id}`
    this.seriesPartition = `e${id}`
    this.shard = shardOf(id)
    this.#id = id
    this.#bucketS = -1
    this.#bucket = { long: Long.ZERO, partition: '' }
  }

  /** The bucket that was asked for last is most often asked for next. */
  /** @param {string} className  @param {number} bucketS */
  bucketOf(className, bucketS) {
    if (this.#bucketS !== bucketS || this.#className !== className) {
      this.#className = className
      this.#bucketS = bucketS
      const partition = `${className}/${this.#id}/${bucketS}`
      this.#bucket = { long: Long.fromNumber(bucketS), partition }
    }
    return this.#bucket
  }
}

/** @param {unknown[]} params  @param {number} kind  @param {Value} value */
function bindValue(params, kind, value) {
  if (kind === KIND.location) {
    const { lat, lon } = /** @type {import('@sandglass/common/measurement').Location} */ (value)
    params.push(lat, lon)
  } else if (kind === KIND.integer) {
    params.push(Long.fromString(String(value)))
  } else {
    params.push(value)
  }
}

/** @param {string} metric  @param {Value} value */
function textBytes(metric, value) {
  return metric.length + (typeof value === 'string' ? 2 * value.length : 16)
}
