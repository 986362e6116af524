/**
 * Alerts of all days, newest first. Within a day they lie by the time at which they began; a page
 * ends with the position of its last alert in the cursor.
 */

import { ALERT_TTL_S, alertDay } from '@sandglass/common/rules/alert'

const DAYS_MAX = ALERT_TTL_S / 86_400 + 1

/** Days that are read at the same time: most have few alerts, or none. */
const DAYS_AT_ONCE = 16

/** An id before those of all alerts. */
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/** Alerts of one question where a filter leaves some out. */
const ROWS_MIN = 256

/** @typedef {import('@sandglass/common/rules/alert').Alert} Alert */
/** @typedef {import('./store.js').AlertPosition} AlertPosition */
/** @typedef {Pick<ReturnType<typeof import('./store.js').ruleQuestions>, 'alerts'>} AlertReader */

/**
 * @param {AlertReader} store
 * @param {object} page
 * @param {AlertPosition} [page.after]
 * @param {number} [page.fromMs]  Of alerts that began before, none is read.
 * @param {number} [page.toMs]  Nor of those that began then or later.
 * @param {number} page.limit
 * @param {number} page.nowMs
 * @param {(alert: Alert) => boolean} page.isWanted
 * @param {AbortSignal} page.signal
 * @returns {Promise<{ alerts: Alert[], next: AlertPosition | undefined }>}
 */
export async function readAlerts(store, page) {
  const { limit, nowMs, fromMs = 0, toMs, isWanted, signal } = page
  // An alert may have begun by a clock that is ahead of ours.
  const today = alertDay(nowMs) + 1
  const isBefore = toMs !== undefined && alertDay(toMs) <= today
  const after = page.after ?? (isBefore ? { firedMs: toMs, id: FIRST_ID } : undefined)
  // A cursor may say any time: days to come have none.
  const firstDay = Math.min(today, after ? alertDay(after.firedMs) : today)
  const lastDay = Math.max(today - DAYS_MAX, alertDay(fromMs))
  /** @type {Alert[]} */
  const found = []
  const rowsMax = Math.max(limit + 1, ROWS_MIN)
  for (let day = firstDay; day >= lastDay; day -= DAYS_AT_ONCE) {
    const days = Array.from(
      { length: Math.min(DAYS_AT_ONCE, day - lastDay + 1) },
      (_, n) => day - n,
    )
    const first = await Promise.all(
      days.map((one) => store.alerts(one, after && one === firstDay ? after : undefined, rowsMax)),
    )
    for (const [at, one] of days.entries()) {
      let { alerts, last } = first[at]
      for (;;) {
        signal.throwIfAborted()
        for (const alert of alerts) {
          if (alert.firedMs >= fromMs && isWanted(alert)) found.push(alert)
        }
        if (found.length > limit || !last) break
        ;({ alerts, last } = await store.alerts(one, last, rowsMax))
      }
      if (found.length > limit) break
    }
    if (found.length > limit) break
  }
  const last = found[limit - 1]
  const next = found.length > limit ? { firedMs: last.firedMs, id: last.id } : undefined
  return { alerts: found.slice(0, limit), next }
}
