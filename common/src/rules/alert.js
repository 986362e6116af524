/**
 * An alert: the time from which a rule fires for a series until it does not. Its id follows from
 * rule, series and time, so whoever finds the same alert again writes the same row; and it begins
 * with the time, so it tells where that row lies.
 */

import { createHash } from 'node:crypto'
import { v5 as uuidv5 } from 'uuid'

const DAY_MS = 86_400_000

/** How long alerts are kept, in seconds. */
export const ALERT_TTL_S = 400 * 86_400

/** The namespace of ids of notifications. Stored rows depend on it. */
const NOTIFICATIONS = '5a3f3e43-51f1-5a1e-9a0a-93a2f6d0c7b4'

/** @typedef {{ ruleId: string, sensorId: string, metric: string }} Subject */

/**
 * A version 8 UUID (RFC 9562): 48 bits of milliseconds, then a hash.
 *
 * @param {Subject} subject
 * @param {number} firedMs
 */
export function alertId({ ruleId, sensorId, metric }, firedMs) {
  const text = JSON.stringify([ruleId, sensorId, metric, firedMs])
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16)
  bytes.writeUIntBE(firedMs, 0, 6)
  bytes[6] = (bytes[6] & 0x0f) | 0x80
  bytes[8] = (bytes[8] & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join('-')
}

/** When an alert began to fire. @param {string} id  @returns {number} */
export function firedMsOf(id) {
  return Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)
}

/** The partition of an alert. @param {number} firedMs */
export function alertDay(firedMs) {
  return Math.floor(firedMs / DAY_MS)
}

/**
 * The id that a receiver sees on each attempt to tell it of one change.
 *
 * @param {string} alert  Its id.
 * @param {string} change
 * @param {string} receiverId
 */
export function notificationId(alert, change, receiverId) {
  return uuidv5(`${alert} ${change} ${receiverId}`, NOTIFICATIONS)
}

/** What is stored of an alert. */
export const ALERT_COLUMNS =
  'at, id, rule_id, sensor_id, metric, about, resolved, resolved_value, resolved_why, ' +
  'acknowledged, acknowledged_by, note, told'

/**
 * @typedef {object} About  What an alert was about when it began to fire.
 * @property {string} rule  Its name.
 * @property {string} kind
 * @property {string} severity
 * @property {string} sensor  Its name.
 * @property {number | null} value
 * @property {string} text  All of that in a sentence.
 */

/**
 * @typedef {object} Alert
 * @property {string} id
 * @property {string} ruleId
 * @property {string} sensorId
 * @property {string} metric  Empty: of the sensor as a whole.
 * @property {number} firedMs
 * @property {About} about
 * @property {number | null} resolvedMs
 * @property {number | null} resolvedValue
 * @property {string | null} resolvedWhy
 * @property {number | null} acknowledgedMs
 * @property {string | null} acknowledgedBy
 * @property {string | null} note
 * @property {Record<string, { at: number, state: string, attempts: number, error?: string }>} told
 */

/** @param {any} row  With {@link ALERT_COLUMNS}.  @returns {Alert} */
export function alertOfRow(row) {
  return {
    id: row.id.toString(),
    ruleId: row.rule_id?.toString() ?? '',
    sensorId: row.sensor_id?.toString() ?? '',
    metric: row.metric ?? '',
    firedMs: row.at.getTime(),
    about: JSON.parse(row.about ?? '{}'),
    resolvedMs: row.resolved?.getTime() ?? null,
    resolvedValue: row.resolved_value ?? null,
    resolvedWhy: row.resolved_why ?? null,
    acknowledgedMs: row.acknowledged?.getTime() ?? null,
    acknowledgedBy: row.acknowledged_by ?? null,
    note: row.note ?? null,
    told: Object.fromEntries(
      Object.entries(row.told ?? {}).map(([to, text]) => [to, JSON.parse(String(text))]),
    ),
  }
}
