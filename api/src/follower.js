/**
 * One client of a live stream: it is told first what it missed, read page by page as fast as it
 * takes it, and then what the hub tells. What the hub told meanwhile waits, up to a limit.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { Problem } from '@sandglass/common/problem'
import { LATE_MS } from './live.js'
import { rowBytes } from './merge.js'
import { encodeWatermark, seriesHash, Told } from './watermark.js'

/** Most rows of one event, and about how many bytes of them: one long row is an event, too. */
const EVENT_ROWS_MAX = 1_000
const EVENT_BYTES_MAX = 256 * 1024

/** Rows that are read first; the next reads are as long as an event, by what these took. */
const ROWS_AT_FIRST = 64

/**
 * About how many bytes of rows wait for a client that is slow: 20,000 numbers. It is let go beyond
 * that, and reads what it missed when it is back.
 */
const WAITING_BYTES_MAX = 4 * 1024 * 1024

/** How long rows of several sensors are gathered for one event, in milliseconds. */
const GATHER_MS = 50

/** How long a read of what was missed may take, and the pause before another, in milliseconds. */
const READ_MS_MAX = 10_000
const RETRY_MS = 500

/** More than any `seq`. */
const SEQ_LAST = Number.MAX_SAFE_INTEGER

/** @typedef {import('./merge.js').Row} Row */
/** @typedef {{ id: string, name: string }} Named */
/** @typedef {import('./watermark.js').Watermark} Watermark */

/**
 * @typedef {object} Client
 * @property {(rows: { sensor: string, row: Row }[], id: string | undefined) => void} tell
 * @property {() => Promise<void>} drained  Resolves when it has taken enough to be told more.
 * @property {() => boolean} isBehind  Whether it should be told no more for now.
 * @property {() => void} cut  It cannot keep up.
 */

export class Follower {
  /** @type {Watermark} */
  #watermark
  /** By sensor and metric. @type {Map<string, Told>} */
  #told = new Map()
  /** What the hub told, until it is told on. @type {{ sensor: Named, rows: Row[] }[]} */
  #waiting = []
  #bytesWaiting = 0
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
   * @param {Watermark | undefined} parts.after  Undefined: from now on.
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
    this.#watermark = parts.after ?? { sinceMs: nowMs - 2 * LATE_MS, series: new Map() }
  }

  /** The watermark as text; undefined while that would name what is no news to the client. */
  get id() {
    return this.#quietBeforeMs > -Infinity ? undefined : encodeWatermark(this.#watermark)
  }

  /** Resolves when it hears what is live. @throws  What a read threw, or the signal's reason. */
  async follow() {
    const { sensors, metrics, hub, signal } = this.#parts
    const stops = sensors.map((sensor) =>
      hub.watch(sensor.id, metrics, (rows, sinceMs) => this.#hear(sensor, rows, sinceMs)),
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
    this.#forgetOthers()
    // What was there is known now: whatever else comes is news.
    this.#quietBeforeMs = -Infinity
    this.#isCaughtUp = true
    await this.#flush()
  }

  /** @param {Named} sensor */
  async #catchUp(sensor) {
    const { store, metrics, signal } = this.#parts
    if (this.#quietBeforeMs > -Infinity) {
      const latest = await this.#patiently(() => store.latestTimes(sensor.id))
      for (const { metric, t } of latest) {
        const isBefore = t < this.#watermark.sinceMs
        if (isBefore) this.#toldOf(sensor, metric).floor = { t, seq: SEQ_LAST }
      }
    }
    const series =
      metrics ?? (await this.#patiently(() => store.series(sensor.id))).map((s) => s.metric)
    for (const metric of series) {
      signal.throwIfAborted()
      await this.#catchUpSeries(sensor, metric)
    }
  }

  /** @param {Named} sensor  @param {string} metric */
  async #catchUpSeries(sensor, metric) {
    const { reader, signal } = this.#parts
    const told = this.#toldOf(sensor, metric)
    const resolver = new Resolver(told)
    const fromMs = told.floor?.t ?? this.#watermark.sinceMs
    const question = { sensorId: sensor.id, metrics: [metric], fromMs, toMs: undefined }
    /** @type {import('./measurements.js').Position | undefined} */
    let after
    let limit = ROWS_AT_FIRST
    do {
      const page = await this.#patiently(() =>
        reader.read(
          { ...question, order: 'asc' },
          {
            after,
            limit,
            signal: AbortSignal.any([signal, AbortSignal.timeout(READ_MS_MAX)]),
          },
        ),
      )
      const rows = page.rows.flatMap((row) => resolver.take(row))
      if (!page.next) rows.push(...resolver.end())
      await this.#tell([{ sensor, rows }])
      after = page.next
      limit = rowsToRead(page.rows, limit)
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

  /** @param {Named} sensor  @param {Row[]} rows  @param {number} sinceMs */
  #hear(sensor, rows, sinceMs) {
    this.#sinceMs.set(sensor.id, sinceMs)
    if (rows.length > 0) this.#waiting.push({ sensor, rows })
    for (const row of rows) this.#bytesWaiting += rowBytes(row)
    if (this.#bytesWaiting > WAITING_BYTES_MAX) this.#overrun()
    else if (this.#isCaughtUp) this.#timer ??= setTimeout(() => void this.#flush(), GATHER_MS)
  }

  #overrun() {
    this.#waiting = []
    this.#bytesWaiting = 0
    this.#isOverrun = true
    if (this.#isCaughtUp) this.#parts.client.cut()
  }

  async #flush() {
    const { signal } = this.#parts
    while (this.#waiting.length > 0 && !signal.aborted) {
      const waiting = this.#waiting
      const bytes = this.#bytesWaiting
      this.#waiting = []
      await this.#tell(waiting)
      // They are held until they are told; what is overrun meanwhile is not counted any more.
      this.#bytesWaiting = Math.max(0, this.#bytesWaiting - bytes)
    }
    this.#timer = undefined
    this.#advance()
  }

  /**
   * Tells what was not told, as fast as the client takes it.
   *
   * @param {{ sensor: Named, rows: Row[] }[]} batches
   */
  async #tell(batches) {
    const { client, signal } = this.#parts
    /** @type {{ sensor: string, row: Row }[]} */
    let event = []
    let bytes = 0
    for (const { sensor, rows } of batches) {
      for (const row of rows) {
        if (!this.#isNews(sensor, row)) continue
        event.push({ sensor: sensor.name, row })
        bytes += rowBytes(row)
        if (event.length < EVENT_ROWS_MAX && bytes < EVENT_BYTES_MAX) continue
        client.tell(event, this.id)
        if (client.isBehind()) await client.drained()
        if (signal.aborted) return
        event = []
        bytes = 0
      }
    }
    if (event.length > 0) client.tell(event, this.id)
    if (client.isBehind()) await client.drained()
  }

  /** @param {Named} sensor  @param {Row} row */
  #isNews(sensor, row) {
    const { sinceMs } = this.#watermark
    const told = this.#toldOf(sensor, row.metric)
    if (!told.add(row)) return false
    told.isBehind = row.t < sinceMs
    if (told.isBehind) told.advance(sinceMs)
    return row.t >= this.#quietBeforeMs
  }

  /** What the hub does not look at any more need not be remembered. */
  #advance() {
    const { sensors } = this.#parts
    if (this.#sinceMs.size < sensors.length) return
    const sinceMs = Math.max(this.#watermark.sinceMs, Math.min(...this.#sinceMs.values()))
    this.#watermark.sinceMs = sinceMs
    for (const told of this.#told.values()) told.advance(sinceMs)
  }

  /** An id may come from a stream of other series. */
  #forgetOthers() {
    const known = new Set(this.#told.values())
    const { series } = this.#watermark
    for (const [hash, told] of series) if (!known.has(told)) series.delete(hash)
  }

  /** @param {Named} sensor  @param {string} metric */
  #toldOf(sensor, metric) {
    const name = `${sensor.id} ${metric}`
    let told = this.#told.get(name)
    if (!told) {
      const { series } = this.#watermark
      const hash = seriesHash(sensor.id, metric)
      told = series.get(hash) ?? new Told()
      series.set(hash, told)
      this.#told.set(name, told)
    }
    return told
  }
}

/** Finds what is new among rows of a series, some of which were told before an interruption. */
class Resolver {
  #told
  /** Rows of which it is not known yet whether they were told. @type {Row[]} */
  #rows = []
  #bytes = 0
  /** The mark that they belong to. @type {import('./watermark.js').Mark | undefined} */
  #mark

  /** @param {Told} told */
  constructor(told) {
    this.#told = told
  }

  /**
   * @param {Row} row  The next one by time.
   * @returns {Row[]}  Those that are to be told, unless they are known to have been.
   */
  take(row) {
    const mark = this.#told.ambiguous(row)
    const due = mark === this.#mark ? [] : this.end()
    if (!mark) return [...due, row]
    this.#mark = mark
    this.#rows.push(row)
    this.#bytes += rowBytes(row)
    // With more rows than were told, or too many to hold, all of them are told.
    const isOver = this.#rows.length > mark.count || this.#bytes > EVENT_BYTES_MAX
    return isOver ? [...due, ...this.end()] : due
  }

  /** No more rows of the mark come. @returns {Row[]}  Those that are to be told. */
  end() {
    const rows = this.#rows
    const mark = this.#mark
    this.#rows = []
    this.#bytes = 0
    this.#mark = undefined
    if (!mark) return []
    const isUnchanged = rows.length === mark.count
    // The row of the mark itself was told in any case.
    mark.count = 1
    if (!isUnchanged) return rows
    for (const row of rows) this.#told.add(row)
    return []
  }
}

/**
 * As many rows as an event has bytes for.
 *
 * @param {Row[]} rows  Of the read before.
 * @param {number} limit  Of that.
 */
function rowsToRead(rows, limit) {
  const bytes = rows.reduce((sum, row) => sum + rowBytes(row), 0)
  if (bytes === 0) return limit
  const fitting = Math.floor((EVENT_BYTES_MAX * rows.length) / bytes)
  return Math.max(1, Math.min(fitting, 4 * limit, EVENT_ROWS_MAX))
}
