/** The tables of alert rules. `docs/data-model.md` gives the reasons, ADR 0075 the whole. */

import { ALERT_TTL_S } from './alert.js'

/** How long a mark is kept, in seconds: longer than all processes are away. */
export const RULE_MARK_TTL_S = 3 * 86_400

/** The time of one partition of marks, in milliseconds. */
export const RULE_SLOT_MS = 10_000

/** How long it is known until when a series that is ok again was evaluated, in seconds. */
export const STATE_OK_TTL_S = RULE_MARK_TTL_S + 86_400

/**
 * @param {string} keyspace
 * @param {(unit: 'HOURS' | 'DAYS', size: number) => string} timeWindow  Of compaction.
 * @param {number} gcGraceS
 */
export function ruleTables(keyspace, timeWindow, gcGraceS) {
  return [
    `CREATE TABLE IF NOT EXISTS ${keyspace}.rule (
      rule_id uuid PRIMARY KEY, body text, changed timestamp, silenced timestamp, deleted boolean)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.receiver (
      receiver_id uuid PRIMARY KEY, body text, told timestamp, failed timestamp, error text)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.rule_mark (
      slot timestamp, id timeuuid, sensor_id uuid, metric text, ts timestamp,
      PRIMARY KEY (slot, id)
    ) WITH ${timeWindow('HOURS', 3)}
      AND default_time_to_live = ${RULE_MARK_TTL_S} AND gc_grace_seconds = ${gcGraceS}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.rule_state (
      shard smallint, sensor_id uuid, metric text, rule_id uuid, phase text, state text,
      PRIMARY KEY (shard, sensor_id, metric, rule_id))`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.rule_progress (
      shard smallint PRIMARY KEY, done timestamp, version bigint, state text)`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.rule_silence (
      rule_id uuid, sensor_id uuid, metric text, until timestamp,
      PRIMARY KEY (rule_id, sensor_id, metric))`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.alert (
      day int, at timestamp, id uuid, rule_id uuid, sensor_id uuid, metric text, about text,
      resolved timestamp, resolved_value double, resolved_why text,
      acknowledged timestamp, acknowledged_by text, note text, told map<text, text>,
      PRIMARY KEY (day, at, id)
    ) WITH CLUSTERING ORDER BY (at DESC, id DESC) AND ${timeWindow('DAYS', 14)}
      AND default_time_to_live = ${ALERT_TTL_S} AND gc_grace_seconds = ${gcGraceS}`,
    `CREATE TABLE IF NOT EXISTS ${keyspace}.notification (
      shard smallint, id uuid, created timestamp, receiver_id uuid, alert_id uuid, change text,
      body text, PRIMARY KEY (shard, id)) WITH gc_grace_seconds = ${gcGraceS}`,
  ]
}
