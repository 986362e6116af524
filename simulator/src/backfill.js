/**
 * The past of a fleet that begins in the present, so that its charts are not empty. Its readings
 * lie on a grid of time that does not depend on when it is run: once more, also after it was broken
 * off, it publishes the same measurements, which are stored once.
 */

import { Plan } from './plan.js'

/** Between two readings of a sensor at least, in milliseconds. */
const INTERVAL_MS_MIN = 60_000

/** Most readings of the whole fleet; of a large one they are further apart. */
const READINGS_MAX = 100_000

/**
 * @param {{ sensors: number, spanMs: number }} options
 * @returns {number}  Between two readings of a sensor, in milliseconds: whole minutes.
 */
export function backfillIntervalMs({ sensors, spanMs }) {
  const fitting = (spanMs * sensors) / READINGS_MAX
  return Math.max(1, Math.ceil(fitting / INTERVAL_MS_MIN)) * INTERVAL_MS_MIN
}

/**
 * A plan of the past, whose messages all carry their time: sensors without a clock have none.
 *
 * @param {import('./options.js').Options} options
 * @param {number} endMs  Where the present begins, milliseconds since the Unix epoch.
 */
export function backfillPlan(options, endMs) {
  const { sensors, backfill: spanMs } = options
  const intervalMs = backfillIntervalMs({ sensors, spanMs })
  const startMs = Math.ceil((endMs - spanMs) / intervalMs) * intervalMs
  const trouble = { malformedPercent: 0, latePercent: 0, duplicatePercent: 0 }
  const rate = sensors / (intervalMs / 1000)
  const past = { ...options, ...trouble, rate }
  return new TimedPlan(past, { startMs, endMs, backlogMs: Number.POSITIVE_INFINITY })
}

class TimedPlan extends Plan {
  /** @type {Plan['messagesAt']} */
  messagesAt(schedule, due) {
    return super.messagesAt(schedule, due).filter(({ timeMs }) => timeMs !== undefined)
  }

  /** How much of it was taken, in percent. */
  get percent() {
    const { schedules } = this
    const done = schedules.map(({ doneShare }) => doneShare)
    return Math.floor((100 * done.reduce((sum, one) => sum + one, 0)) / schedules.length)
  }
}
