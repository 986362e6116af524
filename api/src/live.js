/**
 * Live values: each watched series is read again and again, once for all who watch it.
 *
 * Every {@link POLL_MS} the last moments of a series are read, by event time, and what was not seen
 * before is told. A device whose clock is far off, or that sends an old file, is noticed by
 * `latest`, read every {@link LATEST_MS}: what lies between its last value and the new one is told
 * too. This needs nothing but reads, so it works on any cluster and with any number of processes.
 */

import { spans } from '@sandglass/common/spans'
import { CLOCK_AHEAD_MS } from './ranges.js'

/** @typedef {import('./merge.js').Row} Row */
/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('./store.js').Store} Store */

/** How often a series is read, in milliseconds. */
export const POLL_MS = 250

/** How often new metrics, and values of clocks that are off, are looked for, in milliseconds. */
export const LATEST_MS = 500

/** How late a value may come and still be told at once, in milliseconds. */
export const LATE_MS = 10_000

/** Most values of one series that are told at once; of more, the newest. */
const ROWS_MAX = 500

/** Most partitions that are read to find what a clock that is off has sent. */
const SPANS_MAX = 8

/** @typedef {(rows: Row[]) => void} Listener  Rows of one series, oldest first. */

/** One series: which of its rows have been told. */
class WatchedSeries {
  /** Keys and times of rows told that could be read again. @type {Map<string, number>} */
  #told = new Map()
  #readFromMs
  #quietBeforeMs
  /** The event time in `latest` that has been told. @type {number | undefined} */
  latestMs

  /**
   * @param {string} metric
   * @param {number} startMs
   * @param {number} quietBeforeMs  What is older and there already is not told.
   */
  constructor(metric, startMs, quietBeforeMs) {
    this.metric = metric
    this.#readFromMs = startMs - LATE_MS
    this.#quietBeforeMs = quietBeforeMs
    /** @type {Set<Listener>} */
    this.listeners = new Set()
  }

  /**
   * @param {(metric: string, ranges: Range[]) => Promise<Row[]>} read  Gives the newest rows.
   * @param {number} nowMs
   * @param {Range | undefined} jump  Where else `latest` says there is something new.
   */
  async poll(read, nowMs, jump) {
    const near = { fromMs: this.#readFromMs, toMs: nowMs + CLOCK_AHEAD_MS }
    const answers = await Promise.all([
      read(this.metric, [near]),
      jump ? read(this.metric, [jump]) : [],
    ])
    const fresh = answers.flat().filter((row) => !this.#told.has(key(row)))
    fresh.sort((a, b) => a.t - b.t || a.seq - b.seq)
    const fromMs = nowMs - LATE_MS
    for (const row of fresh) if (row.t >= fromMs) this.#told.set(key(row), row.t)
    for (const [told, t] of this.#told) if (t < fromMs) this.#told.delete(told)
    this.#readFromMs = Math.max(this.#readFromMs, fromMs)
    const news = fresh.filter(({ t }) => t >= this.#quietBeforeMs)
    this.#quietBeforeMs = -Infinity
    if (news.length > 0) for (const listener of this.listeners) listener(news)
  }
}

/** @param {Row} row */
function key({ t, seq }) {
  return `${t} ${seq}`
}

/** One sensor: its watched series, and the timer by which they are read. */
class WatchedSensor {
  /** @type {Map<string, WatchedSeries>} */
  #series = new Map()
  /** Those who watch whatever there is. @type {Set<Listener>} */
  #listeners = new Set()
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  #stopped = false
  #latestReadMs = -Infinity
  #startMs
  #id
  #hub

  /** @param {string} id  @param {LiveHub} hub */
  constructor(id, hub) {
    this.#id = id
    this.#hub = hub
    this.#startMs = hub.now()
    this.#timer = setTimeout(() => void this.#turn(), 0)
  }

  /**
   * @param {string[] | undefined} metrics  Undefined for all there are.
   * @param {Listener} listener
   * @returns {() => boolean}  Stops watching; whether nobody watches any more.
   */
  add(metrics, listener) {
    for (const metric of metrics ?? []) {
      this.#watched(metric, this.#hub.now()).listeners.add(listener)
    }
    if (!metrics) {
      this.#listeners.add(listener)
      for (const series of this.#series.values()) series.listeners.add(listener)
    }
    return () => {
      this.#listeners.delete(listener)
      for (const [metric, { listeners }] of this.#series) {
        listeners.delete(listener)
        if (listeners.size === 0) this.#series.delete(metric)
      }
      if (this.#series.size > 0 || this.#listeners.size > 0) return false
      this.#stopped = true
      clearTimeout(this.#timer)
      return true
    }
  }

  /** @param {string} metric  @param {number} quietBeforeMs */
  #watched(metric, quietBeforeMs) {
    let series = this.#series.get(metric)
    if (!series) {
      series = new WatchedSeries(metric, this.#startMs, quietBeforeMs)
      for (const listener of this.#listeners) series.listeners.add(listener)
      this.#series.set(metric, series)
    }
    return series
  }

  async #turn() {
    const beganMs = performance.now()
    try {
      await this.#poll(beganMs)
    } catch (error) {
      this.#hub.onError(/** @type {Error} */ (error))
    }
    if (this.#stopped) return
    const pauseMs = Math.max(POLL_MS / 2, POLL_MS - (performance.now() - beganMs))
    this.#timer = setTimeout(() => void this.#turn(), pauseMs)
  }

  /** @param {number} clockMs */
  async #poll(clockMs) {
    const { store, gate, now } = this.#hub
    const layouts = await gate.run(() => store.layouts(this.#id))
    if (layouts.length === 0) return
    /** @type {Map<string, Range>} */
    const jumps = new Map()
    if (clockMs - this.#latestReadMs >= LATEST_MS) {
      for (const { metric, t } of await gate.run(() => store.latest(this.#id))) {
        const jump = this.#jump(metric, t)
        if (jump) jumps.set(metric, jump)
      }
      this.#latestReadMs = clockMs
    }
    const nowMs = now()
    /** @param {string} metric  @param {Range[]} ranges */
    const read = async (metric, ranges) => {
      /** @type {Row[]} */
      const rows = []
      let spansRead = 0
      for (const span of spans(layouts, ranges, 'desc')) {
        const rowsMax = ROWS_MAX - rows.length
        if (rowsMax === 0 || spansRead === SPANS_MAX) break
        spansRead += 1
        rows.push(...(await gate.run(() => store.rows(this.#id, metric, span, 'desc', rowsMax))))
      }
      return rows
    }
    await Promise.all(
      [...this.#series.values()].map((series) =>
        series.poll(read, nowMs, jumps.get(series.metric)),
      ),
    )
  }

  /**
   * Where a series has something new that is not near the present.
   *
   * @param {string} metric
   * @param {number} t  Of its latest value.
   * @returns {Range | undefined}
   */
  #jump(metric, t) {
    const isNew = !this.#series.has(metric)
    if (isNew && this.#listeners.size === 0) return undefined
    // A metric that appears later has told nothing yet, so all that it has is news.
    const isFirst = this.#latestReadMs === -Infinity
    const series = this.#watched(metric, isFirst ? this.#startMs : -Infinity)
    const from = series.latestMs
    series.latestMs = t
    if (from === undefined || t <= from) return undefined
    const nowMs = this.#hub.now()
    const isNear = t >= nowMs - LATE_MS / 2 && t < nowMs + CLOCK_AHEAD_MS
    return isNear ? undefined : { fromMs: from + 1, toMs: t + 1 }
  }
}

/** All that is watched. */
export class LiveHub {
  /** @type {Map<string, WatchedSensor>} */
  #sensors = new Map()

  /**
   * @param {object} parts
   * @param {Store} parts.store
   * @param {import('@sandglass/common/gate').Gate} parts.gate  For the queries of all.
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   * @param {(error: Error) => void} [parts.onError]  A poll failed; the next one goes on.
   */
  constructor({ store, gate, now = Date.now, onError = () => {} }) {
    this.store = store
    this.gate = gate
    this.now = now
    this.onError = onError
  }

  /**
   * Tells every new row of a sensor from now on.
   *
   * @param {string} sensorId
   * @param {string[] | undefined} metrics  Undefined for all there are, and will be.
   * @param {Listener} listener
   * @returns {() => void}  Stops it.
   */
  watch(sensorId, metrics, listener) {
    let sensor = this.#sensors.get(sensorId)
    if (!sensor) {
      sensor = new WatchedSensor(sensorId, this)
      this.#sensors.set(sensorId, sensor)
    }
    const remove = sensor.add(metrics, listener)
    return () => {
      if (remove()) this.#sensors.delete(sensorId)
    }
  }
}
