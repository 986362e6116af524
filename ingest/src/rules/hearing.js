/**
 * By what silence can be told: a device is silent only if all that was received is stored, by
 * whatever process, and only for as long as something could be received. Each process tells the
 * others, by a row that lives as long as it does.
 */

/** How often a process tells, and hears what the others say, in milliseconds. */
const BEAT_MS = 5_000

/** How long after a failure it takes until all have told again, in milliseconds. */
const SETTLE_MS = BEAT_MS + 2_000

/** How long devices have to come back, in milliseconds. */
export const RETURN_MS = 10_000

/** For less nobody need have been unable to send, in milliseconds. */
const DEAF_MS_MIN = 5_000

/** Devices wait with what they send while a message is not durable for so long, in milliseconds. */
const STUCK_MS_MIN = 5_000

/** Nobody looked for longer than the database takes to fail: the machine slept, in milliseconds. */
const ASLEEP_MS_MIN = 30_000

/** @typedef {import('./absence.js').Absence} Absence */

/**
 * @typedef {object} Heard  What a process tells. All are milliseconds since the Unix epoch.
 * @property {number} storedMs  All that it received before is stored.
 * @property {number | undefined} deafMs  Since when it can receive nothing, or has not for a while.
 * @property {Absence | undefined} absence  When that was so the last time.
 */

/** @typedef {Pick<import('./store.js').RuleStore, 'heard' | 'tellHeard'>} HeardStore */

/**
 * @typedef {object} Held  Messages that are not stored yet.
 * @property {Pick<import('../message/in-flight.js').InFlight, 'oldestMs'>} inFlight
 * @property {readonly Pick<import('../spool/spool.js').Spool, 'oldestMs'>[]} spools
 */

export class Hearing {
  #store
  #id
  #clock
  #held
  #brokerMs
  /** @type {Heard[]} */
  #others = []
  /** @type {number | undefined} */
  #deafMs
  /** @type {Absence | undefined} */
  #absence
  /** When it was looked last. */
  #lookedMs
  /** When something could be received last, for all that is known. */
  #couldMs
  #beatMs = Number.NEGATIVE_INFINITY
  /** Until then others may not have told again. */
  #settledMs = Number.NEGATIVE_INFINITY
  #isLost = true
  /** What was last told to those who ask, while nothing newer is certain. */
  #storedMs = Number.NEGATIVE_INFINITY

  /**
   * @param {object} parts
   * @param {HeardStore} parts.store
   * @param {string} parts.id  Of this process.
   * @param {import('../rollup/slot-clock.js').SlotClock} parts.clock
   * @param {Held} parts.held
   * @param {() => number | undefined} [parts.brokerMs]  When the broker sent something last, by
   *   the clock that only goes forward; undefined while it is away. Without it, it is always there.
   */
  constructor({ store, id, clock, held, brokerMs }) {
    this.#store = store
    this.#id = id
    this.#clock = clock
    this.#held = held
    this.#brokerMs = brokerMs ?? (() => clock.steadyNow())
    this.#lookedMs = clock.wallNow()
    this.#couldMs = this.#lookedMs
  }

  /** Looks whether something can be received; to be called every second or so. */
  look() {
    const nowMs = this.#clock.wallNow()
    const wasAsleep = nowMs - this.#lookedMs > ASLEEP_MS_MIN
    const brokerMs = this.#brokerMs()
    const waitMs = this.#waitMs
    const isStuck = waitMs > STUCK_MS_MIN
    const isDeaf = brokerMs === undefined || isStuck
    if (wasAsleep || isDeaf) {
      this.#deafMs ??= Math.min(this.#couldMs, isStuck ? nowMs - waitMs : nowMs)
    }
    if (!isDeaf && this.#deafMs !== undefined) {
      const fromMs = this.#deafMs
      if (nowMs - fromMs >= DEAF_MS_MIN) this.#absence = { fromMs, toMs: nowMs + RETURN_MS }
      this.#deafMs = undefined
    }
    this.#lookedMs = nowMs
    // A broker that vanishes without a word is noticed later.
    const brokerAgeMs = this.#clock.steadyNow() - (brokerMs ?? Number.NEGATIVE_INFINITY)
    this.#couldMs = Math.max(Math.min(this.#couldMs, nowMs), nowMs - brokerAgeMs)
  }

  /** Tells the others, now and then, and hears what they say. */
  async meet() {
    const nowMs = this.#clock.steadyNow()
    if (nowMs - this.#beatMs < BEAT_MS) return
    try {
      await this.#store.tellHeard(this.#id, this.#own)
      const all = await this.#store.heard()
      const others = [...all].filter(([id]) => id !== this.#id).map(([, heard]) => heard)
      if (this.#isLost && this.#others.length > 0) this.#settledMs = nowMs + SETTLE_MS
      this.#others = others
      this.#beatMs = nowMs
      this.#isLost = false
    } catch (error) {
      this.#isLost = true
      throw error
    }
  }

  /** For how long the oldest message waits that came to this run. */
  get #waitMs() {
    const { oldestMs } = this.#held.inFlight
    return oldestMs === undefined ? 0 : this.#clock.steadyNow() - oldestMs
  }

  /** @returns {Heard} */
  get #own() {
    const nowMs = this.#clock.wallNow()
    const spooled = this.#held.spools.map(({ oldestMs }) => oldestMs ?? nowMs)
    const storedMs = Math.min(nowMs, nowMs - this.#waitMs, ...spooled)
    const isQuiet = nowMs - this.#couldMs > DEAF_MS_MIN
    const deafMs = this.#deafMs ?? (isQuiet ? this.#couldMs : undefined)
    return { storedMs, deafMs, absence: this.#absence }
  }

  get #all() {
    return [this.#own, ...this.#others]
  }

  /** All that was received before, by whatever process, is stored. */
  get storedMs() {
    if (!this.#isLost && this.#clock.steadyNow() >= this.#settledMs) {
      this.#storedMs = Math.min(...this.#all.map(({ storedMs }) => storedMs))
    }
    return this.#storedMs
  }

  /** What a device sent before would be known: until then it can have been silent. */
  get heardMs() {
    return Math.min(this.storedMs, ...this.#all.map(({ deafMs }) => deafMs ?? Infinity))
  }

  /** When a process could receive nothing, the last time of each. @returns {Absence[]} */
  get absences() {
    const all = this.#all.flatMap(({ absence }) => absence ?? [])
    return all.filter((one) => isPossible(one, this.#clock.wallNow()))
  }
}

/**
 * Whether it may have been so: what ends later than devices need was told by a clock that was
 * ahead.
 *
 * @param {Absence} absence
 * @param {number} nowMs
 */
export function isPossible({ toMs }, nowMs) {
  return toMs <= nowMs + RETURN_MS
}
