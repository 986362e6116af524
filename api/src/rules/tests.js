/** A notification that tells of nothing, by which somebody sees whether a receiver is reached. */

import { randomUUID } from 'node:crypto'
import { notificationBody } from '@sandglass/common/rules/text'

/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */

/**
 * @param {Pick<Rule, 'id' | 'name' | 'kind' | 'severity'>} rule
 * @param {string} receiverId
 * @param {string} text
 */
export function newTest(rule, receiverId, text) {
  const [id, createdMs] = [randomUUID(), Date.now()]
  const what = notificationBody({
    change: 'test',
    timeMs: createdMs,
    alertId: id,
    firedMs: createdMs,
    rule,
    sensor: { id: '', name: '' },
    metric: '',
    value: null,
    text,
  })
  return { id, alertId: id, receiverId, createdMs, body: JSON.stringify(what) }
}
