/**
 * When each reading is due. Sensors take turns at even distances, so that a thousand sensors at
 * one reading a second make one message a millisecond and not a thousand at once.
 *
 * A sensor goes on measuring while nobody listens: what falls due meanwhile is sent later with
 * the time at which it was measured, as far back as the backlog reaches. Nothing is kept for that;
 * a reading is made from the number of its turn. What is late, or comes twice, comes some turns
 * after its own; so there are some more turns after the last reading, which are due at once.
 */

/**
 * @typedef {object} Due
 * @property {number} turn    Its number.
 * @property {number} sensor  Its index in the fleet.
 * @property {number} round   How many readings it has had before.
 * @property {number} timeMs  When it is measured; for an unpaced schedule the present.
 */

/** The readings of some of the fleet's sensors, in the order in which they fall due. */
export class Schedule {
  /** Readings that were too old when their turn came. */
  skipped = 0
  /** In how many turns the message of a reading comes that lags behind, by kind of lag. */
  lags
  /** How many turns have readings. */
  end
  #turn = 0
  #last
  #options

  /**
   * @param {object} options
   * @param {number[]} options.sensors  Indexes in the fleet; at least one.
   * @param {number} options.startMs
   * @param {number} [options.endMs]  No reading is due then or later.
   * @param {number} options.intervalMs  Between two readings of this schedule; 0: no pacing.
   * @param {number} options.backlogMs  Readings overdue by more than this are skipped.
   * @param {number[]} [options.lagsMs]  By which messages may lag behind.
   */
  constructor(options) {
    const { startMs, endMs = Number.POSITIVE_INFINITY, intervalMs, lagsMs = [] } = options
    const isPaced = intervalMs > 0
    this.#options = options
    this.lags = isPaced ? lagsMs.map((ms) => Math.max(1, Math.round(ms / intervalMs))) : []
    this.end = isPaced
      ? Math.max(0, Math.ceil((endMs - startMs) / intervalMs))
      : Number.POSITIVE_INFINITY
    this.#last = this.end + Math.max(0, ...this.lags)
  }

  /** Indexes in the fleet. */
  get sensors() {
    return this.#options.sensors
  }

  /** When the next reading falls due, in milliseconds since the Unix epoch. */
  get nextMs() {
    return this.#options.startMs + this.#turn * this.#options.intervalMs
  }

  /** The times of the readings up to now: the first millisecond, and the first one after. */
  get range() {
    const last = Math.min(this.#turn, this.end)
    return { fromMs: this.at(0).timeMs, toMs: this.at(last).timeMs + 1 }
  }

  /** How much of its turns was taken, 0 to 1. */
  get doneShare() {
    return this.#last > 0 ? Math.min(1, this.#turn / this.#last) : 1
  }

  /** Whether the last turn was taken. */
  get isOver() {
    return this.#turn >= this.#last
  }

  /**
   * The next reading if it is due.
   *
   * @param {number} nowMs
   * @returns {Due | undefined}
   */
  take(nowMs) {
    const { intervalMs, backlogMs } = this.#options
    if (this.isOver) return undefined
    if (this.#turn < this.end) {
      const overdueMs = nowMs - this.nextMs
      if (overdueMs < 0) return undefined
      if (intervalMs > 0 && overdueMs > backlogMs) {
        const missed = Math.ceil((overdueMs - backlogMs) / intervalMs)
        const to = Math.min(this.#turn + missed, this.end)
        this.skipped += to - this.#turn
        this.#turn = to
      }
    }
    const due = this.at(this.#turn++)
    return intervalMs > 0 ? due : { ...due, timeMs: nowMs }
  }

  /**
   * The reading of any turn.
   *
   * @param {number} turn
   * @returns {Due}
   */
  at(turn) {
    const { sensors, startMs, intervalMs } = this.#options
    return {
      turn,
      sensor: sensors[turn % sensors.length],
      round: Math.floor(turn / sensors.length),
      timeMs: Math.round(startMs + turn * intervalMs),
    }
  }

  /**
   * The turns of one sensor up to now, in their order.
   *
   * @param {number} sensor  Its index in the fleet.
   */
  *turnsOf(sensor) {
    const { sensors } = this.#options
    const end = Math.min(this.#turn, this.end)
    for (let turn = sensors.indexOf(sensor); turn < end; turn += sensors.length) yield turn
  }

  /** Whether a turn came. @param {number} turn */
  wasTaken(turn) {
    return turn < this.#turn
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
 * @param {number} [options.endMs]
 * @param {number} options.backlogMs
 * @param {number[]} [options.lagsMs]
 */
export function divide({ sensors, connections, ratePerS, ...common }) {
  return Array.from({ length: connections }, (_, connection) => {
    const own = []
    for (let index = connection; index < sensors; index += connections) own.push(index)
    const share = own.length / sensors
    const intervalMs = ratePerS > 0 ? 1000 / (ratePerS * share) : 0
    return new Schedule({
      ...common,
      sensors: own,
      startMs: common.startMs + (intervalMs * connection) / connections,
      intervalMs,
    })
  })
}
