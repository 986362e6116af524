/** A run: messages from a schedule or a file go out over links until they are all acknowledged. */

import { setImmediate } from 'node:timers/promises'

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

/** The time that a fleet lives in: the present, or a past that goes by faster. */
export class Timeline {
  #clock
  #options
  #beganMs

  /**
   * Begins to go.
   *
   * @param {Clock} clock
   * @param {object} options
   * @param {number} options.startMs  Its first moment, in milliseconds since the Unix epoch.
   * @param {number} options.speed  Times real time; 0: everything is due at once.
   */
  constructor(clock, options) {
    this.#clock = clock
    this.#options = options
    this.#beganMs = clock.now()
  }

  /** Milliseconds since the Unix epoch. */
  now() {
    const { startMs, speed } = this.#options
    if (speed === 0) return Number.POSITIVE_INFINITY
    return startMs + (this.#clock.now() - this.#beganMs) * speed
  }

  /** How long a moment is away in real time, in milliseconds. @param {number} timeMs */
  msUntil(timeMs) {
    return (timeMs - this.now()) / (this.#options.speed || 1)
  }
}

/**
 * Publishes what a fleet measures until its time is over, or the signal says stop.
 *
 * @param {object} parts
 * @param {import('./plan.js').Plan} parts.plan
 * @param {import('./link.js').Link[]} parts.links  One for each of its schedules.
 * @param {Timeline} parts.timeline
 * @param {Clock} parts.clock
 * @param {AbortSignal} parts.signal
 * @param {import('./ledger.js').Ledger} [parts.ledger]  Is told what is published.
 */
export async function runFleet({ plan, links, timeline, clock, signal, ledger }) {
  /** @param {import('./schedule.js').Schedule} schedule  @param {import('./link.js').Link} link */
  async function drive(schedule, link) {
    link.onReconnect = () => ledger?.resend(schedule.sensors)
    for (let sent = 0; !schedule.isOver; sent++) {
      if (sent % BURST_MAX === 0) await setImmediate()
      if (link.isFull) await unlessStopped(link.ready(), signal)
      if (signal.aborted) return
      const due = schedule.take(timeline.now())
      if (!due) {
        await clock.sleep(Math.max(TICK_MS, timeline.msUntil(schedule.nextMs)), signal)
        continue
      }
      // A turn that was taken is published whole, even if the run is stopped meanwhile.
      for (const message of plan.messagesAt(schedule, due)) {
        if (link.isFull) await unlessStopped(link.ready(), signal)
        link.publish(message, message.isCopy ? undefined : ledger?.note(message))
      }
    }
  }
  await Promise.all(plan.schedules.map((schedule, index) => drive(schedule, links[index])))
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
