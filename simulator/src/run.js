/** A run: messages from a schedule or a file go out over links until they are all acknowledged. */

import { setImmediate } from 'node:timers/promises'
import { buildFleet } from './fleet.js'
import { buildMessage } from './message.js'
import { divide } from './schedule.js'

/** Shortest sleep between two looks at the schedule, in milliseconds: readings go in bunches. */
const TICK_MS = 5

/** Most messages in a row before the sockets are served. */
const BURST_MAX = 256

/**
 * @typedef {object} Clock
 * @property {() => number} now  Milliseconds since the Unix epoch.
 * @property {(ms: number, signal: AbortSignal) => Promise<void>} sleep
 */

/** @type {Clock} */
export const realClock = {
  now: Date.now,
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, Math.min(ms, 2 ** 31 - 1))
      signal.addEventListener('abort', done)
      if (signal.aborted) done()
    }),
}

/**
 * Ends at the signal even while it waits.
 *
 * @param {Promise<void>} wait
 * @param {AbortSignal} signal
 */
async function unlessStopped(wait, signal) {
  /** @type {() => void} */
  let stop = () => {}
  const stopped = new Promise((resolve) => {
    stop = () => resolve(undefined)
  })
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  await Promise.race([wait, stopped])
  signal.removeEventListener('abort', stop)
}

/**
 * Publishes what a fleet measures until the signal says stop.
 *
 * @param {import('./options.js').Options} options
 * @param {import('./link.js').Link[]} links
 * @param {Clock} clock
 * @param {AbortSignal} signal
 * @returns {{ done: Promise<unknown>, skipped: () => number }}
 */
export function runFleet(options, links, clock, signal) {
  const fleet = buildFleet(options)
  const schedules = divide({
    sensors: options.sensors,
    connections: links.length,
    ratePerS: options.rate,
    startMs: clock.now(),
    backlogMs: options.backlog * 1000,
  })
  /** @param {import('./schedule.js').Schedule} schedule  @param {import('./link.js').Link} link */
  async function drive(schedule, link) {
    for (let sent = 0; !signal.aborted; sent++) {
      if (sent % BURST_MAX === 0) await setImmediate()
      if (link.isFull) await unlessStopped(link.ready(), signal)
      if (signal.aborted) return
      const due = schedule.take(clock.now())
      if (due) link.publish(buildMessage(fleet[due.sensor], due.round, due.timeMs, options))
      else await clock.sleep(Math.max(TICK_MS, schedule.nextMs - clock.now()), signal)
    }
  }
  return {
    done: Promise.all(schedules.map((schedule, index) => drive(schedule, links[index]))),
    skipped: () => schedules.reduce((sum, schedule) => sum + schedule.skipped, 0),
  }
}

/**
 * Publishes rows in their order, at their own pace times `speed`, or as fast as acknowledged.
 *
 * @param {AsyncIterable<import('./table.js').Row>} rows
 * @param {{ speed: number }} options
 * @param {import('./link.js').Link} link
 * @param {Clock} clock
 * @param {AbortSignal} signal
 * @param {() => void} onRow  Called after each row.
 */
export async function runReplay(rows, { speed }, link, clock, signal, onRow) {
  const startMs = clock.now()
  /** @type {number | undefined} */
  let firstMs
  for await (const { sensor, timeMs, values } of rows) {
    firstMs ??= timeMs
    if (speed > 0) {
      const waitMs = startMs + (timeMs - firstMs) / speed - clock.now()
      if (waitMs > 0) await clock.sleep(waitMs, signal)
    }
    await unlessStopped(link.ready(), signal)
    if (signal.aborted) return
    if (Object.keys(values).length > 0) {
      const payload = JSON.stringify({ t: timeMs, ...values })
      link.publish({ topic: `sensors/${sensor}`, payload })
    }
    onRow()
  }
}
