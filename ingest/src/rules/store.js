/** What the work on alert rules asks of the database, as functions with plain results. */

import { randomInt } from 'node:crypto'
import { DELETION_COLUMNS, deletionOfRow } from '@sandglass/common/deletion'
import { rowValue } from '@sandglass/common/measurement'
import { METADATA_FIELDS, metadataOf } from '@sandglass/common/metadata'
import { effective } from '@sandglass/common/precedence'
import { shardOf } from '@sandglass/common/rollup'
import { alertDay } from '@sandglass/common/rules/alert'
import { numberOf } from '@sandglass/common/rules/check'
import { stateOfText, stateText } from '@sandglass/common/rules/machine'
import { RULE_COLUMNS, ruleOfRow } from '@sandglass/common/rules/rule'
import { RULE_SLOT_MS, STATE_OK_TTL_S } from '@sandglass/common/rules/tables'
import { LAYOUT_COLUMNS, layoutOfRow } from '@sandglass/common/schema'
import { symbolOf } from '@sandglass/common/symbols'
import cassandra from 'cassandra-driver'
import { StoredValues } from './values.js'

const { Long } = cassandra.types

/** Slots of one question for marks. */
export const SLOTS_AT_ONCE = 60

/** Versions of states are random numbers below. */
const VERSION_MAX = 2 ** 48 - 1

/** The role under which processes tell what they received. */
const HEARING = 'hearing'

/** Rows of a page of notifications, with bodies of about half a kilobyte each. */
const NOTIFICATIONS_AT_ONCE = 500

/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */
/** @typedef {import('@sandglass/common/rules/machine').State} State */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {{ ruleId: string, sensorId: string, metric: string }} Subject */
/** @typedef {Subject & { state: State }} StoredState */
/** @typedef {{ id: string, slotMs: number, sensorId: string, metric: string, timeMs: number }
 *   } Mark */

/**
 * @typedef {object} Progress  Of a part of the sensors.
 * @property {number} doneMs  Marks of slots before are worked off.
 * @property {Record<string, number>} scanned  `changedMs` of rules whose newest values were looked
 *   at, by rule.
 * @property {import('./absence.js').Absence[]} absences  When nobody worked.
 * @property {import('./owed.js').OwedSeries[]} owed  Still to be evaluated, whatever `doneMs` says.
 */

/**
 * @typedef {object} KnownSensor
 * @property {string} name
 * @property {boolean} isHidden
 * @property {number} createdMs
 * @property {import('@sandglass/common/rules/rule').SensorWords} words
 * @property {Layout[]} layouts
 * @property {Map<string, number>} lastMs  Newest event time of each metric, and a little later.
 * @property {(metric: string) => import('@sandglass/common/rules/check').Expected} expected
 * @property {(metric: string) => string} symbol  Of the unit; empty if there is none.
 */

/**
 * @typedef {object} Notification  One thing that one receiver is to be told.
 * @property {string} id
 * @property {number} createdMs
 * @property {string} receiverId
 * @property {string} alertId
 * @property {string} change
 * @property {string} body  JSON.
 */

/** @typedef {Notification & { writtenUs: number }} StoredNotification  With its timestamp. */

/** @typedef {{ query: string, params: unknown[] }} Statement */

/** @param {string} keyspace */
function statements(keyspace) {
  const state = 'sensor_id, metric, rule_id, phase, state'
  return {
    rules: `SELECT ${RULE_COLUMNS} FROM ${keyspace}.rule`,
    receivers: `SELECT receiver_id, body FROM ${keyspace}.receiver`,
    receiverTold: `UPDATE ${keyspace}.receiver SET told = ? WHERE receiver_id = ?`,
    receiverFailed: `UPDATE ${keyspace}.receiver SET failed = ?, error = ? WHERE receiver_id = ?`,
    typeMetrics: `SELECT type, metric, ${METADATA_FIELDS.join(', ')} FROM ${keyspace}.type_metric`,
    versions: `SELECT shard, version FROM ${keyspace}.rule_progress`,
    states: `SELECT ${state} FROM ${keyspace}.rule_state WHERE shard = ?`,
    statesOf: `SELECT ${state} FROM ${keyspace}.rule_state WHERE shard = ? AND sensor_id = ?`,
    marks: `SELECT slot, id, sensor_id, metric, ts FROM ${keyspace}.rule_mark WHERE slot IN ?`,
    progress: `SELECT done, state FROM ${keyspace}.rule_progress WHERE shard = ?`,
    setProgress: `INSERT INTO ${keyspace}.rule_progress (shard, done, state) VALUES (?, ?, ?)`,
    setVersion: `INSERT INTO ${keyspace}.rule_progress (shard, version) VALUES (?, ?)`,
    sensor: `SELECT name, type, unit, tags, hidden, created_at FROM ${keyspace}.sensor
             WHERE sensor_id = ?`,
    sensors: `SELECT sensor_id, type, tags, hidden FROM ${keyspace}.sensor`,
    layouts: `SELECT from_ts, ${LAYOUT_COLUMNS} FROM ${keyspace}.layout WHERE sensor_id = ?`,
    series: `SELECT metric, last_ts, told_unit, ${METADATA_FIELDS.join(', ')}
             FROM ${keyspace}.series WHERE sensor_id = ?`,
    ofType: `SELECT metric, ${METADATA_FIELDS.join(', ')} FROM ${keyspace}.type_metric
             WHERE type = ?`,
    latest: `SELECT metric, ts, received FROM ${keyspace}.latest WHERE sensor_id = ?`,
    newest: `SELECT sensor_id, metric, ts, kind, v, i, b FROM ${keyspace}.latest`,
    deletions: `SELECT ${DELETION_COLUMNS} FROM ${keyspace}.deletion WHERE sensor_id = ?`,
    silence: `SELECT until FROM ${keyspace}.rule_silence
              WHERE rule_id = ? AND sensor_id = ? AND metric = ?`,
    setState: `INSERT INTO ${keyspace}.rule_state (shard, sensor_id, metric, rule_id, phase, state)
               VALUES (?, ?, ?, ?, ?, ?)`,
    alert: `INSERT INTO ${keyspace}.alert (day, at, id, rule_id, sensor_id, metric, about)
            VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?`,
    resolve: `UPDATE ${keyspace}.alert USING TIMESTAMP ?
              SET resolved = ?, resolved_value = ?, resolved_why = ?
              WHERE day = ? AND at = ? AND id = ?`,
    told: `UPDATE ${keyspace}.alert SET told[?] = ? WHERE day = ? AND at = ? AND id = ?`,
    notify: `INSERT INTO ${keyspace}.notification
             (shard, id, created, receiver_id, alert_id, change, body)
             VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?`,
    heard: `SELECT id, since, deaf_from, deaf_to FROM ${keyspace}.worker WHERE role = ?`,
    tellHeard: `INSERT INTO ${keyspace}.worker (role, id, since, deaf_from, deaf_to)
                VALUES (?, ?, ?, ?, ?)`,
    notifications: `SELECT id, created, receiver_id, alert_id, change, body
                    FROM ${keyspace}.notification WHERE shard = ?`,
    notification: `SELECT id, created, receiver_id, alert_id, change, body,
                     writetime(body) AS written
                   FROM ${keyspace}.notification WHERE shard = ? AND id = ?`,
    forget: `DELETE FROM ${keyspace}.notification USING TIMESTAMP ? WHERE shard = ? AND id = ?`,
  }
}

/** Microseconds. @param {number} ms */
const stampOf = (ms) => Long.fromNumber(Math.floor(ms) * 1000)

export class RuleStore {
  #storage
  #cql

  /** @param {import('../write/storage.js').Storage} storage  @param {string} keyspace */
  constructor(storage, keyspace) {
    this.values = new StoredValues(storage)
    this.#storage = storage
    this.#cql = statements(keyspace)
  }

  /** @param {string} query  @param {unknown[]} [params] */
  #read(query, params = []) {
    return this.#storage.read(query, params)
  }

  /**
   * @param {(id: string, changedMs: number) => Rule | undefined} known  Those that are parsed.
   * @returns {Promise<Rule[]>}
   */
  async rules(known) {
    return (await this.#read(this.#cql.rules))
      .filter((row) => row.body)
      .map((row) => {
        const before = known(row.rule_id.toString(), row.changed.getTime())
        if (!before) return ruleOfRow(row)
        return { ...before, silencedMs: row.silenced?.getTime() ?? 0 }
      })
  }

  /** @returns {Promise<Map<string, import('@sandglass/common/rules/receiver').Receiver>>} */
  async receivers() {
    const rows = await this.#read(this.#cql.receivers)
    return new Map(
      rows
        .filter((row) => row.body)
        .map((row) => [
          `${row.receiver_id}`,
          { ...JSON.parse(row.body), id: `${row.receiver_id}` },
        ]),
    )
  }

  /** How often states of each part have changed. @returns {Promise<Map<number, number>>} */
  async versions() {
    const rows = await this.#read(this.#cql.versions)
    return new Map(rows.map(({ shard, version }) => [shard, Number(version ?? 0)]))
  }

  /** States that are not ok. @param {number} shard  @returns {Promise<StoredState[]>} */
  async active(shard) {
    const rows = await this.#read(this.#cql.states, [shard])
    return rows.filter(({ phase }) => phase !== 'ok').map(stateOfRow)
  }

  /** All of a sensor. @param {string} sensorId  @returns {Promise<StoredState[]>} */
  async states(sensorId) {
    return (await this.#read(this.#cql.statesOf, [shardOf(sensorId), sensorId])).map(stateOfRow)
  }

  /** @param {number[]} slots  @returns {Promise<Mark[]>} */
  async marks(slots) {
    return (await this.#read(this.#cql.marks, [slots])).map((row) => ({
      id: row.id.toString(),
      slotMs: row.slot.getTime(),
      sensorId: row.sensor_id.toString(),
      metric: row.metric,
      timeMs: row.ts.getTime(),
    }))
  }

  /** @param {number} shard  @returns {Promise<Progress | undefined>} */
  async progress(shard) {
    const [row] = await this.#read(this.#cql.progress, [shard])
    if (!row?.done) return undefined
    const { scanned = {}, away, absences, owed = [] } = JSON.parse(row.state ?? '{}')
    // Versions of before stored the last absence alone.
    const all = absences ?? (away ? [away] : [])
    return { doneMs: row.done.getTime(), scanned, absences: all, owed }
  }

  /** @param {number} shard  @param {Progress} progress */
  async setProgress(shard, { doneMs, scanned, absences, owed }) {
    const state = JSON.stringify({ scanned, absences, owed })
    await this.#read(this.#cql.setProgress, [shard, doneMs, state])
  }

  /** @param {string} sensorId  @returns {Promise<KnownSensor | undefined>} */
  async sensor(sensorId) {
    const [[row], layouts, series] = await Promise.all([
      this.#read(this.#cql.sensor, [sensorId]),
      this.#read(this.#cql.layouts, [sensorId]),
      this.#read(this.#cql.series, [sensorId]),
    ])
    if (!row) return undefined
    const ofType = row.type ? await this.#read(this.#cql.ofType, [row.type]) : []
    const byMetric = new Map(series.map((one) => [one.metric, one]))
    const byType = new Map(ofType.map((one) => [one.metric, metadataOf(one)]))
    /** @param {string} metric */
    function saidOf(metric) {
      const said = byMetric.get(metric)
      const device = said?.told_unit ?? undefined
      const parts = { sensor: said && metadataOf(said), type: byType.get(metric), device }
      return effective(parts, row.unit ?? undefined)
    }
    return {
      name: row.name ?? sensorId,
      isHidden: row.hidden === true,
      createdMs: row.created_at?.getTime() ?? 0,
      words: { type: row.type ?? undefined, tags: row.tags ?? {} },
      layouts: layouts.map(layoutOfRow),
      lastMs: new Map(
        series.filter((one) => one.last_ts).map((one) => [one.metric, one.last_ts.getTime()]),
      ),
      expected(metric) {
        const { expected_min: min, expected_max: max } = saidOf(metric)
        return { min, max }
      },
      symbol: (metric) => symbolOf(saidOf(metric).unit ?? ''),
    }
  }

  /** All sensors that are not hidden. */
  async *sensors() {
    for await (const row of this.#storage.pages(this.#cql.sensors)) {
      if (row.hidden === true) continue
      const words = { type: row.type ?? undefined, tags: row.tags ?? {} }
      yield { id: /** @type {string} */ (row.sensor_id.toString()), words }
    }
  }

  /** What is said of metrics of all sensors of a type. */
  async typeMetrics() {
    return (await this.#read(this.#cql.typeMetrics)).map((row) => ({
      type: /** @type {string} */ (row.type),
      metric: /** @type {string} */ (row.metric),
      said: metadataOf(row),
    }))
  }

  /** The newest numbers of all sensors, as `latest` has them. */
  async *newest() {
    for await (const row of this.#storage.pages(this.#cql.newest)) {
      const value = row.ts ? numberOf(rowValue(/** @type {any} */ (row))) : undefined
      if (value === undefined) continue
      const sensorId = /** @type {string} */ (row.sensor_id.toString())
      yield { sensorId, metric: row.metric, timeMs: row.ts.getTime(), value }
    }
  }

  /** When something of each metric was received last. @param {string} sensorId */
  async received(sensorId) {
    const rows = await this.#read(this.#cql.latest, [sensorId])
    return new Map(
      rows
        .filter(({ ts }) => ts)
        .map((row) => [
          /** @type {string} */ (row.metric),
          {
            timeMs: /** @type {number} */ (row.ts.getTime()),
            receivedMs: /** @type {number} */ ((row.received ?? row.ts).getTime()),
          },
        ]),
    )
  }

  /**
   * When measurements were deleted last that may have been the newest ones.
   *
   * @param {string} sensorId
   * @param {string} metric  Empty: of any.
   * @param {ReadonlyMap<string, { timeMs: number }>} received  What there is of each.
   */
  async deletedMs(sensorId, metric, received) {
    const deletions = (await this.#read(this.#cql.deletions, [sensorId])).map(deletionOfRow)
    const times = metric === '' ? [...received.values()] : [received.get(metric)]
    const newestMs = Math.max(...times.map((one) => one?.timeMs ?? Number.NEGATIVE_INFINITY))
    const asked = deletions
      .filter(({ toMs }) => (toMs ?? Infinity) > newestMs)
      .filter(({ metrics }) => metric === '' || (metrics?.includes(metric) ?? true))
    return Math.max(...asked.map(({ askedMs }) => askedMs))
  }

  /** Until when nobody is told of a series. @param {Subject} subject */
  async silencedMs({ ruleId, sensorId, metric }) {
    const [row] = await this.#read(this.#cql.silence, [ruleId, sensorId, metric])
    return /** @type {number} */ (row?.until?.getTime() ?? 0)
  }

  /** Writes all or nothing. @param {Statement[]} all */
  async together(all) {
    await this.#storage.together(all)
  }

  /**
   * @param {Subject} subject
   * @param {State} state
   * @returns {Statement[]}
   */
  stateRows({ ruleId, sensorId, metric }, state) {
    const shard = shardOf(sensorId)
    const params = [shard, sensorId, metric, ruleId, state.phase, stateText(state)]
    const isOver = state.phase === 'ok'
    const query = isOver ? `${this.#cql.setState} USING TTL ${STATE_OK_TTL_S}` : this.#cql.setState
    // Another one than before: two in a millisecond are two.
    const version = {
      query: this.#cql.setVersion,
      params: [shard, Long.fromNumber(randomInt(VERSION_MAX))],
    }
    return [{ query, params }, version]
  }

  /**
   * @param {string} id
   * @param {Subject} subject
   * @param {number} firedMs
   * @param {import('@sandglass/common/rules/alert').About} about
   * @returns {Statement}
   */
  alertRow(id, { ruleId, sensorId, metric }, firedMs, about) {
    const params = [alertDay(firedMs), firedMs, id, ruleId, sensorId, metric]
    return { query: this.#cql.alert, params: [...params, JSON.stringify(about), stampOf(firedMs)] }
  }

  /**
   * @param {string} id
   * @param {number} firedMs
   * @param {{ timeMs: number, value: number | null, why: string }} end
   * @returns {Statement}
   */
  resolvedRow(id, firedMs, { timeMs, value, why }) {
    const params = [stampOf(timeMs), timeMs, value, why, alertDay(firedMs), firedMs, id]
    return { query: this.#cql.resolve, params }
  }

  /**
   * The row stays away once it was deleted, however often it is written: it has the time of what it
   * tells, and its deletion a later one.
   *
   * @param {number} shard
   * @param {Notification} what
   * @param {number} changedMs
   * @returns {Statement}
   */
  notificationRow(shard, { id, createdMs, receiverId, alertId, change, body }, changedMs) {
    const params = [shard, id, createdMs, receiverId, alertId, change, body, stampOf(changedMs)]
    return { query: this.#cql.notify, params }
  }

  /** All of a part, a page after another. @param {number} shard */
  async *notifications(shard) {
    const pages = this.#storage.pages(this.#cql.notifications, [shard], NOTIFICATIONS_AT_ONCE)
    for await (const row of pages) if (row.body) yield notificationOfRow(row)
  }

  /**
   * @param {number} shard
   * @param {string} id
   * @returns {Promise<StoredNotification | undefined>}
   */
  async notification(shard, id) {
    const [row] = await this.#read(this.#cql.notification, [shard, id])
    if (!row?.body) return undefined
    return { ...notificationOfRow(row), writtenUs: Number(String(row.written)) }
  }

  /**
   * Deletes it for good: also a row whose time is ahead of this clock, as that of a rule is that
   * was made by a process with another one.
   *
   * @param {number} shard
   * @param {string} id
   * @param {number} nowMs
   * @param {number} writtenUs
   */
  async forget(shard, id, nowMs, writtenUs) {
    const timestamp = Long.fromNumber(Math.max(Math.floor(nowMs) * 1000, writtenUs + 1))
    await this.#read(this.#cql.forget, [timestamp, shard, id])
  }

  /**
   * Notes on an alert who was told of it.
   *
   * @param {string} alertId
   * @param {number} firedMs
   * @param {string} to
   * @param {object} how
   */
  async noteTold(alertId, firedMs, to, how) {
    const params = [to, JSON.stringify(how), alertDay(firedMs), firedMs, alertId]
    await this.#read(this.#cql.told, params)
  }

  /** What processes tell of what they received, by their ids. */
  /** @returns {Promise<Map<string, import('./hearing.js').Heard>>} */
  async heard() {
    const rows = await this.#read(this.#cql.heard, [HEARING])
    return new Map(
      rows.map((row) => {
        const storedMs = row.since.getTime()
        const fromMs = row.deaf_from?.getTime()
        const toMs = row.deaf_to?.getTime()
        const isOver = toMs !== undefined
        const absence = isOver ? { fromMs, toMs } : undefined
        return [row.id.toString(), { storedMs, deafMs: isOver ? undefined : fromMs, absence }]
      }),
    )
  }

  /** @param {string} id  Of a process.  @param {import('./hearing.js').Heard} heard */
  async tellHeard(id, { storedMs, deafMs, absence }) {
    const [fromMs, toMs] = deafMs === undefined ? [absence?.fromMs, absence?.toMs] : [deafMs]
    await this.#read(this.#cql.tellHeard, [HEARING, id, storedMs, fromMs ?? null, toMs ?? null])
  }

  /** Notes how a receiver did. */
  /** @param {string} receiverId  @param {number} nowMs  @param {string} [error] */
  async noteReceiver(receiverId, nowMs, error) {
    if (error === undefined) await this.#read(this.#cql.receiverTold, [nowMs, receiverId])
    else await this.#read(this.#cql.receiverFailed, [nowMs, error, receiverId])
  }
}

/** The slot of a time. @param {number} timeMs */
export function ruleSlotOf(timeMs) {
  return Math.floor(timeMs / RULE_SLOT_MS) * RULE_SLOT_MS
}

/** @param {any} row  @returns {StoredState} */
function stateOfRow(row) {
  return {
    ruleId: row.rule_id.toString(),
    sensorId: row.sensor_id.toString(),
    metric: row.metric,
    state: stateOfText(row.state),
  }
}

/** @param {any} row  @returns {Notification} */
function notificationOfRow(row) {
  return {
    id: row.id.toString(),
    createdMs: row.created.getTime(),
    receiverId: row.receiver_id.toString(),
    alertId: row.alert_id.toString(),
    change: row.change,
    body: row.body,
  }
}
