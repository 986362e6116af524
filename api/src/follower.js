/**
 * One client of a live stream: it is told first what it missed, read page by page as fast as it
 * takes it, and then what the hub tells. What the hub told meanwhile waits, up to a limit.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { Problem } from '@sandglass/common/problem'
import { LATE_MS } from './live.js'
import { encodePosition } from './position.js'
import { Told } from './told.js'

/** Rows that are told at once, in one event. */
const ROWS_AT_ONCE = 1_000

/** Most rows that wait for a client; of more it is told by reading, when it has come back. */
const ROWS_WAITING_MAX = 20_000

/** How long rows of several sensors are gathered for one event, in milliseconds. */
const GATHER_MS = 50

/** How long a read of what was missed may take, and the pause before another, in milliseconds. */
const READ_MS_MAX = 10_000
const RETRY_MS = 500

/** More than any `seq`. */
const SEQ_LAST = Number.MAX_SAFE_INTEGER

/** @typedef {import('./merge.js').Row} Row */
/** @typedef {{ id: string, name: string }} Named */
/** @typedef {import('./position.js').Position} Position */

/**
 * @typedef {object} Client
 * @property {(rows: { sensor: string, row: Row }[], position: string | undefined) => void} tell
 * @property {() => Promise<void>} drained  Resolves when it has taken enough to be told more.
 * @property {() => boolean} isBehind  Whether it should be told no more for now.
 * @property {() => void} cut  It cannot keep up.
 */

export class Follower {
  /** @type {Position} */
  #position
  /** What the hub told, until it is told on. @type {{ name: string, rows: Row[] }[]} */
  #waiting = []
  #rowsWaiting = 0
  /** From when on the hub looks, by sensor. @type {Map<string, number>} */
  #sinceMs = new Map()
  #isCaughtUp = false
  /** What the hub told was thrown away, and has to be read. */
  #isOverrun = false
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  /** What was there before this time is not news. */
  #quietBeforeMs
  #parts

  /**
   * @param {object} parts
   * @param {Named[]} parts.sensors
   * @param {string[] | undefined} parts.metrics
   * @param {Position | undefined} parts.after  Undefined: from now on.
   * @param {import('./store.js').Store} parts.store
   * @param {import('./measurements.js').MeasurementReader} parts.reader
   * @param {import('./live.js').LiveHub} parts.hub
   * @param {Client} parts.client
   * @param {AbortSignal} parts.signal
   */
  constructor(parts) {
    this.#parts = parts
    const nowMs = parts.hub.now()
    this.#quietBeforeMs = parts.after ? -Infinity : nowMs
    // What the hub may tell of the time before must be known not to be news.
    const { sinceMs = nowMs - 2 * LATE_MS, sensors = undefined } = parts.after ?? {}
    this.#position = {
      sinceMs,
      sensors: new Map(parts.sensors.map(({ name }) => [name, sensors?.get(name) ?? new Map()])),
    }
  }

  /** Where the client is; undefined while that would name what is no news to it. */
  get position() {
    return this.#quietBeforeMs > -Infinity ? undefined : encodePosition(this.#position)
  }

  /** Resolves when it hears what is live. @throws  What a read threw, or the signal's reason. */
  async follow() {
    const { sensors, metrics, hub, signal } = this.#parts
    const stops = sensors.map(({ id, name }) =>
      hub.watch(id, metrics, (rows, sinceMs) => this.#hear(name, rows, sinceMs)),
    )
    signal.addEventListener('abort', () => {
      for (const stop of stops) stop()
      clearTimeout(this.#timer)
    })
    signal.throwIfAborted()
    do {
      this.#isOverrun = false
      for (const sensor of sensors) await this.#catchUp(sensor)
    } while (this.#isOverrun)
    // What was there is known now: whatever else comes is news.
    this.#quietBeforeMs = -Infinity
    this.#isCaughtUp = true
    await this.#flush()
  }

  /** @param {Named} sensor */
  async #catchUp({ id, name }) {
    const { store, metrics, signal } = this.#parts
    if (this.#quietBeforeMs > -Infinity) {
      const latest = await this.#patiently(() => store.latest(id))
      for (const { metric, t } of latest) {
        if (t < this.#position.sinceMs) this.#told(name, metric).floor = { t, seq: SEQ_LAST }
      }
    }
    const series = metrics ?? (await this.#patiently(() => store.series(id))).map((s) => s.metric)
    for (const metric of series) {
      signal.throwIfAborted()
      await this.#catchUpSeries({ id, name }, metric)
    }
  }

  /** @param {Named} sensor  @param {string} metric */
  async #catchUpSeries({ id, name }, metric) {
    const { reader, signal, client } = this.#parts
    const fromMs = this.#told(name, metric).floor?.t ?? this.#position.sinceMs
    const question = { sensorId: id, metrics: [metric], fromMs, toMs: undefined }
    /** @type {import('./measurements.js').Position | undefined} */
    let after
    do {
      const page = await this.#patiently(() =>
        reader.read(
          { ...question, order: 'asc' },
          {
            ...{ after, limit: ROWS_AT_ONCE },
            signal: AbortSignal.any([signal, AbortSignal.timeout(READ_MS_MAX)]),
          },
        ),
      )
      this.#tell([{ name, rows: page.rows }])
      if (client.isBehind()) await client.drained()
      after = page.next
    } while (after)
  }

  /**
   * A database that is away is waited for as long as the client waits.
   *
   * @template T
   * @param {() => Promise<T>} read
   * @returns {Promise<T>}
   */
  async #patiently(read) {
    const { signal } = this.#parts
    for (;;) {
      try {
        return await read()
      } catch (error) {
        signal.throwIfAborted()
        const { name } = /** @type {Error} */ (error)
        const isAway = error instanceof Problem && error.code === 'database-away'
        if (!isAway && name !== 'TimeoutError') throw error
        await delay(RETRY_MS, undefined, { signal })
      }
    }
  }

  /** @param {string} name  @param {Row[]} rows  @param {number} sinceMs */
  #hear(name, rows, sinceMs) {
    this.#sinceMs.set(name, sinceMs)
    if (rows.length > 0) this.#waiting.push({ name, rows })
    this.#rowsWaiting += rows.length
    if (this.#rowsWaiting > ROWS_WAITING_MAX) this.#overrun()
    else if (this.#isCaughtUp) this.#timer ??= setTimeout(() => void this.#flush(), GATHER_MS)
  }

  #overrun() {
    this.#waiting = []
    this.#rowsWaiting = 0
    this.#isOverrun = true
    if (this.#isCaughtUp) this.#parts.client.cut()
  }

  async #flush() {
    const { client, signal } = this.#parts
    while (this.#waiting.length > 0 && !signal.aborted) {
      if (client.isBehind()) await client.drained()
      const waiting = this.#waiting
      this.#waiting = []
      this.#rowsWaiting = 0
      this.#tell(waiting)
    }
    this.#timer = undefined
    this.#advance()
  }

  /** Tells what was not told. @param {{ name: string, rows: Row[] }[]} batches */
  #tell(batches) {
    /** @type {{ sensor: string, row: Row }[]} */
    let event = []
    for (const { name, rows } of batches) {
      for (const row of rows) {
        if (!this.#told(name, row.metric).add(row) || row.t < this.#quietBeforeMs) continue
        event.push({ sensor: name, row })
        if (event.length < ROWS_AT_ONCE) continue
        this.#parts.client.tell(event, this.position)
        event = []
      }
    }
    if (event.length > 0) this.#parts.client.tell(event, this.position)
  }

  /** What the hub does not look at any more need not be remembered. */
  #advance() {
    const { sensors } = this.#position
    if (this.#sinceMs.size < sensors.size) return
    this.#position.sinceMs = Math.max(this.#position.sinceMs, Math.min(...this.#sinceMs.values()))
    for (const metrics of sensors.values()) {
      for (const told of metrics.values()) told.advance(this.#position.sinceMs)
    }
  }

  /** @param {string} name  @param {string} metric */
  #told(name, metric) {
    const metrics = /** @type {Map<string, Told>} */ (this.#position.sensors.get(name))
    const told = metrics.get(metric) ?? new Told()
    metrics.set(metric, told)
    return told
  }
}
