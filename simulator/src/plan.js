/**
 * What a run of a fleet publishes. Nothing is drawn while it runs: every message follows from the
 * seed, the start and the number of its turn. So the same seed gives the same messages, and what
 * was published can be said again afterwards without having been kept.
 */

import { fateOf, LAGS_MS } from './fate.js'
import { isSilent } from './faults.js'
import { buildFleet } from './fleet.js'
import { buildMessage, buildRubbish, carriesTime } from './message.js'
import { divide } from './schedule.js'

/** @typedef {import('./fate.js').Fate} Fate */
/** @typedef {import('./schedule.js').Schedule} Schedule */
/** @typedef {import('./schedule.js').Due} Due */

/**
 * A message of the fleet.
 *
 * @typedef {import('./message.js').Message & { sensor: number, turn: number, isCopy: boolean }}
 *   Planned
 * The sensor is an index in the fleet, the turn that in which it was measured.
 */

export class Plan {
  #options

  /**
   * @param {import('./options.js').Options} options
   * @param {object} range
   * @param {number} range.startMs  Of the fleet's own time, in milliseconds since the Unix epoch.
   * @param {number} range.endMs
   * @param {number} range.backlogMs  Readings overdue by more than this are skipped.
   */
  constructor(options, range) {
    const { sensors, connections, rate, latePercent, duplicatePercent } = options
    this.#options = options
    this.fleet = buildFleet(options)
    /** One a connection. */
    this.schedules = divide({
      ...range,
      sensors,
      connections,
      ratePerS: rate,
      lagsMs: latePercent > 0 || duplicatePercent > 0 ? LAGS_MS : [],
    })
  }

  /** How many readings were too old when their turn came. */
  get skipped() {
    return this.schedules.reduce((sum, { skipped }) => sum + skipped, 0)
  }

  /**
   * The messages that go out when a turn comes: its own reading unless that is late, and what lags
   * behind from turns before.
   *
   * @param {Schedule} schedule
   * @param {Due} due
   * @returns {Planned[]}
   */
  messagesAt(schedule, due) {
    /** @type {Planned[]} */
    const messages = []
    if (due.turn < schedule.end) {
      const fate = this.#fateOf(due)
      if (fate && fate.late < 0) messages.push(this.#message(due, fate, false))
    }
    for (const [kind, lag] of schedule.lags.entries()) {
      const turn = due.turn - lag
      if (turn < 0 || turn >= schedule.end) continue
      const before = schedule.at(turn)
      const fate = this.#fateOf(before)
      if (fate && (fate.late === kind || fate.copy === kind)) {
        messages.push(this.#message(before, fate, fate.copy === kind))
      }
    }
    return messages
  }

  /**
   * What was published of a sensor up to now, in the order in which it was measured, each message
   * once. Not for a run that skipped readings.
   *
   * @param {number} sensor  Its index in the fleet.
   * @returns {Generator<Planned>}
   */
  *published(sensor) {
    const schedule = this.scheduleOf(sensor)
    for (const turn of schedule.turnsOf(sensor)) {
      const due = schedule.at(turn)
      const fate = this.#fateOf(due)
      if (!fate) continue
      const sent = fate.late < 0 ? turn : turn + schedule.lags[fate.late]
      if (schedule.wasTaken(sent)) yield this.#message(due, fate, false)
    }
  }

  /** @param {number} sensor  Its index in the fleet. */
  scheduleOf(sensor) {
    return this.schedules[sensor % this.schedules.length]
  }

  /** Whether the messages of a sensor say when they were measured. @param {number} sensor */
  carriesTime(sensor) {
    return carriesTime(this.fleet[sensor], this.#options.shape)
  }

  /** @param {Due} due  @returns {Fate | undefined}  Nothing if the sensor says nothing. */
  #fateOf({ sensor, round, timeMs }) {
    const { seed } = this.fleet[sensor]
    if (isSilent(seed, timeMs, this.#options.outagePercent)) return undefined
    return fateOf(seed, round, this.carriesTime(sensor), this.#options)
  }

  /** @param {Due} due  @param {Fate} fate  @param {boolean} isCopy  @returns {Planned} */
  #message({ sensor, round, timeMs, turn }, { isMalformed }, isCopy) {
    const described = this.fleet[sensor]
    const message = isMalformed
      ? buildRubbish(described, round)
      : buildMessage(described, round, timeMs, this.#options)
    return { ...message, sensor, turn, isCopy }
  }
}
