/**
 * When each reading is due. Sensors take turns at even distances, so that a thousand sensors at
 * one reading a second make one message a millisecond and not a thousand at once.
 *
 * A sensor goes on measuring while nobody listens: what falls due meanwhile is sent later with
 * the time at which it was measured, as far back as the backlog reaches. Nothing is kept for that;
 * a reading is made from its number.
 */

/**
 * @typedef {object} Due
 * @property {number} sensor  Its index in the fleet.
 * @property {number} round   How many readings it has had before.
 * @property {number} timeMs  When it is measured; for an unpaced schedule the present.
 */

/** The readings of some of the fleet's sensors, in the order in which they fall due. */
export class Schedule {
  /** Readings that were too old when their turn came. */
  skipped = 0
  #number = 0
  #options

  /**
   * @param {object} options
   * @param {number[]} options.sensors  Indexes in the fleet; at least one.
   * @param {number} options.startMs
   * @param {number} options.intervalMs  Between two readings of this schedule; 0: no pacing.
   * @param {number} options.backlogMs  Readings overdue by more than this are skipped.
   */
  constructor(options) {
    this.#options = options
  }

  /** When the next reading falls due, in milliseconds since the Unix epoch. */
  get nextMs() {
    return this.#options.startMs + this.#number * this.#options.intervalMs
  }

  /**
   * The next reading if it is due.
   *
   * @param {number} nowMs
   * @returns {Due | undefined}
   */
  take(nowMs) {
    const { sensors, intervalMs, backlogMs } = this.#options
    const overdueMs = nowMs - this.nextMs
    if (overdueMs < 0) return undefined
    if (intervalMs > 0 && overdueMs > backlogMs) {
      const missed = Math.ceil((overdueMs - backlogMs) / intervalMs)
      this.skipped += missed
      this.#number += missed
    }
    const timeMs = intervalMs > 0 ? Math.round(this.nextMs) : nowMs
    const number = this.#number++
    return {
      sensor: sensors[number % sensors.length],
      round: Math.floor(number / sensors.length),
      timeMs,
    }
  }
}

/**
 * Divides a fleet over connections: a sensor stays on one connection, which keeps its readings in
 * order, and the connections start staggered.
 *
 * @param {object} options
 * @param {number} options.sensors
 * @param {number} options.connections  At most as many as sensors.
 * @param {number} options.ratePerS  Messages a second of the whole fleet; 0: no pacing.
 * @param {number} options.startMs
 * @param {number} options.backlogMs
 */
export function divide({ sensors, connections, ratePerS, startMs, backlogMs }) {
  return Array.from({ length: connections }, (_, connection) => {
    const own = []
    for (let index = connection; index < sensors; index += connections) own.push(index)
    const share = own.length / sensors
    const intervalMs = ratePerS > 0 ? 1000 / (ratePerS * share) : 0
    return new Schedule({
      sensors: own,
      startMs: startMs + (intervalMs * connection) / connections,
      intervalMs,
      backlogMs,
    })
  })
}
