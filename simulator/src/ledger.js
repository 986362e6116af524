/**
 * What a run published and the platform acknowledged: of each series the digest of its values. It
 * grows with the number of series and with what is under way, not with the number of messages.
 */

import { Digest } from './digest.js'

/** Most values of a sensor that are counted by themselves; further ones are by their metric. */
const CLOSE_VALUES_MAX = 10_000

/** A millisecond after its acknowledgement a message shares its time of receipt with no other. */
const APART_MS = 1

/** @typedef {import('./plan.js').Planned} Planned */
/** @typedef {import('./signals.js').Value} Value */

/**
 * The same for two values if and only if they are the same to the platform.
 *
 * @param {unknown} value
 */
export function valueKey(value) {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const { lat, lon } = /** @type {import('./signals.js').Location} */ (value)
  return `${lat} ${lon}`
}

/**
 * A value of a series as its digest takes it.
 *
 * @param {number | undefined} timeMs  Undefined where the platform chooses it.
 * @param {unknown} value
 */
export function entryOf(timeMs, value) {
  return timeMs === undefined ? valueKey(value) : `${timeMs} ${valueKey(value)}`
}

/** What is known of the messages of one sensor. */
class Page {
  /** Acknowledged values, by metric. @type {Map<string, Digest>} */
  series = new Map()
  /** Acknowledged messages that are malformed. */
  letters = new Digest()
  /** Turns of messages that are not acknowledged, and whether they carry a time. */
  /** @type {Map<number, boolean>} */
  pending = new Map()
  /** How often a message without a time was sent again, by turn. @type {Map<number, number>} */
  resent = new Map()
  /** How often a value without a time may share its time of receipt with an equal one. */
  /** @type {Map<string, number>} */
  close = new Map()
  /** Such values that are under way, or were a moment ago. */
  /** @type {Map<string, { pending: number, ackedMs: number }>} */
  recent = new Map()
}

export class Ledger {
  #now
  /** @type {Page[]} */
  #pages

  /**
   * @param {number} sensors  How many.
   * @param {() => number} [now]  A clock that only goes forward, in milliseconds.
   */
  constructor(sensors, now = () => performance.now()) {
    this.#now = now
    this.#pages = Array.from({ length: sensors }, () => new Page())
  }

  /**
   * Notes that a message is about to be published. Copies need not be noted.
   *
   * @param {Planned} message
   * @returns {() => void}  To be called when it is acknowledged.
   */
  note(message) {
    const { sensor, turn, topic, payload, timeMs, values } = message
    const page = this.#pages[sensor]
    page.pending.set(turn, timeMs !== undefined)
    if (!values) {
      return () => {
        page.pending.delete(turn)
        page.letters.add(`${topic} ${payload}`)
      }
    }
    const arrived = timeMs === undefined ? this.#watch(page, values) : undefined
    return () => {
      page.pending.delete(turn)
      arrived?.()
      for (const [metric, value] of Object.entries(values)) {
        let digest = page.series.get(metric)
        if (!digest) {
          digest = new Digest()
          page.series.set(metric, digest)
        }
        digest.add(entryOf(timeMs, value))
      }
    }
  }

  /**
   * To be called when a connection was lost and is back: all that was under way on it is sent
   * again. With a time that is the same measurement; without one it may be another.
   *
   * @param {number[]} sensors  Whose messages go over this connection.
   */
  resend(sensors) {
    for (const sensor of sensors) {
      const { pending, resent } = this.#pages[sensor]
      for (const [turn, hasTime] of pending) {
        if (!hasTime) resent.set(turn, (resent.get(turn) ?? 0) + 1)
      }
    }
  }

  /**
   * Two equal values of one series that are received in the same millisecond are one row. That may
   * be so where the first was not acknowledged a moment before the second was sent.
   *
   * @param {Page} page
   * @param {Record<string, Value>} values
   * @returns {() => void}  To be called when they are acknowledged.
   */
  #watch({ recent, close }, values) {
    const nowMs = this.#now()
    for (const [key, { pending, ackedMs }] of recent) {
      if (pending === 0 && nowMs - ackedMs > APART_MS) recent.delete(key)
    }
    const watched = Object.entries(values).map(([metric, value]) => {
      const key = `${metric} ${valueKey(value)}`
      const known = recent.get(key)
      if (known) {
        const counted = close.size < CLOSE_VALUES_MAX || close.has(key) ? key : metric
        close.set(counted, (close.get(counted) ?? 0) + 1)
      }
      const entry = known ?? { pending: 0, ackedMs: Number.NEGATIVE_INFINITY }
      entry.pending++
      recent.set(key, entry)
      return entry
    })
    return () => {
      for (const entry of watched) {
        entry.pending--
        entry.ackedMs = this.#now()
      }
    }
  }

  /** Digests of the acknowledged values of a sensor, by metric. @param {number} sensor */
  seriesOf(sensor) {
    return /** @type {ReadonlyMap<string, Digest>} */ (this.#pages[sensor].series)
  }

  /** Digest of its acknowledged malformed messages. @param {number} sensor */
  lettersOf(sensor) {
    return this.#pages[sensor].letters
  }

  /** Whether a message was published and not acknowledged. */
  /** @param {number} sensor  @param {number} turn */
  isPending(sensor, turn) {
    return this.#pages[sensor].pending.has(turn)
  }

  /** How often a message without a time was sent again. */
  /** @param {number} sensor  @param {number} turn */
  resentOf(sensor, turn) {
    return this.#pages[sensor].resent.get(turn) ?? 0
  }

  /** How many messages of a sensor were not acknowledged. @param {number} sensor */
  pendingOf(sensor) {
    return this.#pages[sensor].pending.size
  }

  /**
   * How many of the times that a value of a series was published may have been in the same
   * millisecond as another.
   *
   * @param {number} sensor
   * @param {string} metric
   * @param {string} key  Of the value: {@link valueKey}.
   */
  closeOf(sensor, metric, key) {
    const { close } = this.#pages[sensor]
    return (close.get(`${metric} ${key}`) ?? 0) + (close.get(metric) ?? 0)
  }
}
