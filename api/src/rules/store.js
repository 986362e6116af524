/** What the api asks the database of alert rules, receivers and alerts. */

import { shardOf } from '@sandglass/common/rollup'
import { ALERT_COLUMNS, alertDay, alertOfRow, firedMsOf } from '@sandglass/common/rules/alert'
import { DELETED_RULE_TTL_S, RULE_COLUMNS, ruleOfRow } from '@sandglass/common/rules/rule'
import cassandra from 'cassandra-driver'

const { Long } = cassandra.types

/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */
/** @typedef {import('@sandglass/common/rules/rule').RuleBody} RuleBody */
/** @typedef {import('@sandglass/common/rules/receiver').ReceiverBody} ReceiverBody */
/** @typedef {import('@sandglass/common/rules/alert').Alert} Alert */

/**
 * @typedef {object} KnownReceiver
 * @property {string} id
 * @property {ReceiverBody} body
 * @property {number | null} toldMs  When it last took something.
 * @property {number | null} failedMs  When it last did not.
 * @property {string | null} error
 */

/** @typedef {{ firedMs: number, id: string }} AlertPosition */
/** @typedef {{ alerts: Alert[], last: AlertPosition | undefined }} AlertPage  More may follow
 *   `last`, if there is one. */

/** @param {string} keyspace */
function statements(keyspace) {
  const alerts = `SELECT ${ALERT_COLUMNS} FROM ${keyspace}.alert WHERE day = ?`
  const receiver = `SELECT receiver_id, body, told, failed, error FROM ${keyspace}.receiver`
  const rules = `SELECT ${RULE_COLUMNS} FROM ${keyspace}.rule`
  return {
    rules,
    rule: `${rules} WHERE rule_id = ?`,
    putRule: `INSERT INTO ${keyspace}.rule (rule_id, body, changed, deleted) VALUES (?, ?, ?, ?)`,
    deleteRule: `INSERT INTO ${keyspace}.rule (rule_id, body, changed, silenced, deleted)
                 VALUES (?, ?, ?, ?, ?) USING TTL ${DELETED_RULE_TTL_S}`,
    silenceRule: `UPDATE ${keyspace}.rule SET silenced = ? WHERE rule_id = ?`,
    silenceSeries: `INSERT INTO ${keyspace}.rule_silence (rule_id, sensor_id, metric, until)
                    VALUES (?, ?, ?, ?) USING TTL ?`,
    silence: `SELECT until FROM ${keyspace}.rule_silence
              WHERE rule_id = ? AND sensor_id = ? AND metric = ?`,
    receivers: receiver,
    receiver: `${receiver} WHERE receiver_id = ?`,
    putReceiver: `INSERT INTO ${keyspace}.receiver (receiver_id, body) VALUES (?, ?)`,
    dropReceiver: `DELETE FROM ${keyspace}.receiver WHERE receiver_id = ?`,
    alerts: `${alerts} LIMIT ?`,
    alertsBefore: `${alerts} AND (at, id) < (?, ?) LIMIT ?`,
    alert: `${alerts} AND at = ? AND id = ?`,
    acknowledge: `UPDATE ${keyspace}.alert SET acknowledged = ?, acknowledged_by = ?, note = ?
                  WHERE day = ? AND at = ? AND id = ?`,
    notify: `INSERT INTO ${keyspace}.notification
             (shard, id, created, receiver_id, alert_id, change, body) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    setVersion: `INSERT INTO ${keyspace}.rule_progress (shard, version) VALUES (?, ?)`,
  }
}

/**
 * @param {string} keyspace
 * @param {(query: string, parameters: unknown[], fetchSize?: number) =>
 *   Promise<cassandra.types.Row[]>} ask
 */
export function ruleQuestions(keyspace, ask) {
  const cql = statements(keyspace)
  return { ...rulesIn(cql, ask), ...receiversIn(cql, ask), ...alertsIn(cql, ask) }
}

/** @typedef {ReturnType<typeof statements>} Cql */
/** @typedef {(query: string, parameters: unknown[], fetchSize?: number) =>
 *   Promise<cassandra.types.Row[]>} Ask */

/** @param {Cql} cql  @param {Ask} ask */
function rulesIn(cql, ask) {
  return {
    /** Those that were not deleted. @returns {Promise<Rule[]>} */
    async rules() {
      const all = (await ask(cql.rules, [])).filter((row) => row.body).map(ruleOfRow)
      return all.filter(({ isDeleted }) => !isDeleted)
    },

    /** @param {string} id  @returns {Promise<Rule | undefined>} */
    async rule(id) {
      const [row] = await ask(cql.rule, [id])
      return row?.body && row.deleted !== true ? ruleOfRow(row) : undefined
    },

    /** @param {string} id  @param {RuleBody} body  @param {number} changedMs */
    async putRule(id, body, changedMs) {
      await ask(cql.putRule, [id, JSON.stringify(body), changedMs, false])
    },

    /** Ingest ends its alerts. @param {Rule} rule  @param {number} changedMs */
    async deleteRule(rule, changedMs) {
      const { id, changedMs: _, silencedMs, isDeleted: __, ids: ___, ...body } = rule
      const silenced = silencedMs > 0 ? silencedMs : null
      await ask(cql.deleteRule, [id, JSON.stringify(body), changedMs, silenced, true])
    },

    /** Nobody is told of it. @param {string} id  @param {number | null} untilMs */
    async silenceRule(id, untilMs) {
      await ask(cql.silenceRule, [untilMs, id])
    },

    /** Nobody is told of it for one series. @param {Alert} alert  @param {number} untilMs */
    async silenceSeries({ ruleId, sensorId, metric }, untilMs) {
      const ttlS = Math.max(1, Math.ceil((untilMs - Date.now()) / 1000) + 3_600)
      await ask(cql.silenceSeries, [ruleId, sensorId, metric, untilMs, ttlS])
    },

    /** Until when, in ms; 0: it never was silenced. @param {Alert} alert */
    async silencedMs({ ruleId, sensorId, metric }) {
      const [row] = await ask(cql.silence, [ruleId, sensorId, metric])
      return Number(row?.until ?? 0)
    },

    /**
     * Has a receiver told of a test.
     *
     * @param {{ id: string, alertId: string, receiverId: string, createdMs: number,
     *   body: string }} what
     */
    async notifyTest({ id, alertId, receiverId, createdMs, body }) {
      const shard = shardOf(alertId)
      await ask(cql.notify, [shard, id, createdMs, receiverId, alertId, 'test', body])
      await ask(cql.setVersion, [shard, Long.fromNumber(createdMs)])
    },
  }
}

/** @param {Cql} cql  @param {Ask} ask */
function receiversIn(cql, ask) {
  return {
    /** @returns {Promise<KnownReceiver[]>} */
    async receivers() {
      return (await ask(cql.receivers, [])).filter((row) => row.body).map(receiverOfRow)
    },

    /** @param {string} id  @returns {Promise<KnownReceiver | undefined>} */
    async receiver(id) {
      const [row] = await ask(cql.receiver, [id])
      return row?.body ? receiverOfRow(row) : undefined
    },

    /** @param {string} id  @param {ReceiverBody} body */
    async putReceiver(id, body) {
      await ask(cql.putReceiver, [id, JSON.stringify(body)])
    },

    /** @param {string} id */
    async dropReceiver(id) {
      await ask(cql.dropReceiver, [id])
    },
  }
}

/** @param {Cql} cql  @param {Ask} ask */
function alertsIn(cql, ask) {
  return {
    /**
     * Alerts that began on a day, newest first.
     *
     * @param {number} day  Since the Unix epoch.
     * @param {AlertPosition | undefined} before
     * @param {number} rowsMax
     * @returns {Promise<AlertPage>}
     */
    async alerts(day, before, rowsMax) {
      const rows = before
        ? await ask(cql.alertsBefore, [day, before.firedMs, before.id, rowsMax], rowsMax)
        : await ask(cql.alerts, [day, rowsMax], rowsMax)
      const last = rows.length < rowsMax ? undefined : rows[rowsMax - 1]
      return {
        // What is told of one that was deleted meanwhile leaves a row without the rest.
        alerts: rows.filter((row) => row.about).map(alertOfRow),
        last: last && { firedMs: last.at.getTime(), id: last.id.toString() },
      }
    },

    /** @param {string} id  @returns {Promise<Alert | undefined>} */
    async alert(id) {
      const firedMs = firedMsOf(id)
      const [row] = await ask(cql.alert, [alertDay(firedMs), firedMs, id])
      return row?.about ? alertOfRow(row) : undefined
    },

    /** @param {string} id  @param {{ atMs: number, by: string | null, note: string | null }} how */
    async acknowledge(id, { atMs, by, note }) {
      const firedMs = firedMsOf(id)
      await ask(cql.acknowledge, [atMs, by, note, alertDay(firedMs), firedMs, id])
    },
  }
}

/** @param {cassandra.types.Row} row  @returns {KnownReceiver} */
function receiverOfRow(row) {
  return {
    id: row.receiver_id.toString(),
    body: JSON.parse(row.body),
    toldMs: row.told?.getTime() ?? null,
    failedMs: row.failed?.getTime() ?? null,
    error: row.error ?? null,
  }
}
