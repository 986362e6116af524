/**
 * Live values: each watched series is read again and again, once for all who watch it.
 *
 * Every {@link POLL_MS} a series is read on from what is known of it, and the last moments before
 * that once more, by event time: rows become visible a little out of order. A device whose clock is
 * far off, or that sends an old file, is noticed by `latest`, read every {@link LATEST_MS}: what
 * lies between its last value and the new one is told too. This needs nothing but reads, so it
 * works on any cluster and with any number of processes.
 */

import { spans } from '@sandglass/common/spans'
import { rowBytes } from './merge.js'
import { CLOCK_AHEAD_MS } from './ranges.js'
import { SeriesReader } from './series-reader.js'
import { Told } from './watermark.js'

/** @typedef {import('./merge.js').Row} Row */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/spans').Range} Range */
/** @typedef {import('./store.js').Store} Store */

/** How often a series is read, in milliseconds. */
export const POLL_MS = 250

/** How often new metrics, and values of clocks that are off, are looked for, in milliseconds. */
export const LATEST_MS = 500

/** How late a value may become visible and still be told, in milliseconds. */
export const LATE_MS = 10_000

/** Rows of one series that one query reads, and that one turn reads. */
const ROWS_AT_ONCE = 500
const ROWS_MAX = 5_000

/** About how many bytes of one sensor one turn reads. */
const BYTES_MAX = 8 * 1024 * 1024

/** Most partitions that are read to find what a clock that is off has sent. */
const SPANS_MAX = 8

/**
 * Hears of rows when they become visible, of each once, and of some that were there before.
 *
 * @callback Listener
 * @param {Row[]} rows  Oldest first; perhaps none.
 * @param {number} sinceMs  What is older is not looked at any more.
 */

/** @typedef {{ metrics: ReadonlySet<string> | undefined, tell: Listener }} Watcher */

/** @typedef {import('./series-reader.js').ReadSpan} Read  Throws {@link Spent}. */

/** This turn has read as much as it may: the next one reads on. */
class Spent extends Error {}

/** One series: which of its rows have been told. */
class WatchedSeries {
  #told = new Told()
  /** The event time in `latest` that has been told. @type {number | undefined} */
  #latestMs
  /** Event time of the newest row that was read in order. @type {number | undefined} */
  #readMs

  /** @param {string} metric */
  constructor(metric) {
    this.metric = metric
  }

  /**
   * @param {Layout[]} layouts
   * @param {Read} read
   * @param {Range} near
   * @param {number | undefined} latestMs  As `latest` says it, if that was read.
   */
  async poll(layouts, read, near, latestMs) {
    const jump = this.#jump(near, latestMs)
    const [rows, newest] = await Promise.all([
      this.#readOn(layouts, read, near),
      jump ? this.#readNewest(layouts, read, jump) : [],
    ])
    const fresh = [...rows, ...(newest ?? [])].filter((row) => this.#told.add(row))
    this.#told.advance(near.fromMs)
    this.#readMs = rows.at(-1)?.t ?? this.#readMs
    if (newest) this.#latestMs = latestMs ?? this.#latestMs
    return fresh
  }

  /** What was read is not read again, though rows before it may still become visible. */
  settle() {
    if (this.#readMs !== undefined) this.#told.advance(this.#readMs + 1)
  }

  /**
   * Where else `latest` says there is something new.
   *
   * @param {Range} near
   * @param {number | undefined} latestMs
   * @returns {Range | undefined}
   */
  #jump(near, latestMs) {
    const from = this.#latestMs
    if (latestMs === undefined || from === undefined || latestMs <= from) return undefined
    const isNear = latestMs >= near.fromMs && latestMs < near.toMs
    return isNear ? undefined : { fromMs: from + 1, toMs: latestMs + 1 }
  }

  /** @param {Layout[]} layouts  @param {Read} read  @param {Range} near */
  async #readOn(layouts, read, { fromMs, toMs }) {
    const { floor } = this.#told
    const range = { fromMs: Math.max(fromMs, floor?.t ?? fromMs), toMs }
    const source = new SeriesReader({
      metric: this.metric,
      spans: spans(layouts, [range], 'asc'),
      order: 'asc',
      read,
      after: floor,
      rowsAtOnce: ROWS_AT_ONCE,
      rowsAtOnceMax: ROWS_AT_ONCE,
    })
    /** @type {Row[]} */
    const rows = []
    while (rows.length < ROWS_MAX && source.examined < Infinity) {
      if (!(await unlessSpent(source.fill().then(() => true)))) break
      for (; source.head; source.advance()) rows.push(source.head)
    }
    return rows
  }

  /**
   * @param {Layout[]} layouts
   * @param {Read} read
   * @param {Range} jump
   * @returns {Promise<Row[] | undefined>}  Undefined if it is to be read in another turn.
   */
  async #readNewest(layouts, read, jump) {
    /** @type {Row[]} */
    const rows = []
    let spansRead = 0
    for (const span of spans(layouts, [jump], 'desc')) {
      const rowsMax = ROWS_AT_ONCE - rows.length
      if (rowsMax === 0 || spansRead === SPANS_MAX) break
      spansRead += 1
      const answer = await unlessSpent(read(this.metric, span, 'desc', rowsMax))
      if (!answer) return undefined
      rows.push(...answer.rows)
      if (!answer.isAll) break
    }
    return rows
  }
}

/** @template T  @param {Promise<T>} work  @returns {Promise<T | undefined>} */
async function unlessSpent(work) {
  try {
    return await work
  } catch (error) {
    if (error instanceof Spent) return undefined
    throw error
  }
}

/** One sensor: its watched series, and the timer by which they are read. */
class WatchedSensor {
  /** @type {Map<string, WatchedSeries>} */
  #series = new Map()
  /** @type {Set<Watcher>} */
  #watchers = new Set()
  /** Metrics that there are. @type {string[]} */
  #metrics = []
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  #stopped = false
  #latestReadMs = -Infinity
  /** Of the last turn in which everything was read. */
  #readMs
  #id
  #hub

  /** @param {string} id  @param {LiveHub} hub */
  constructor(id, hub) {
    this.#id = id
    this.#hub = hub
    this.#readMs = hub.now()
    this.#timer = setTimeout(() => void this.#turn(), 0)
  }

  /**
   * @param {Watcher} watcher
   * @returns {() => boolean}  Stops watching; whether nobody watches any more.
   */
  add(watcher) {
    this.#watchers.add(watcher)
    return () => {
      this.#watchers.delete(watcher)
      this.#stopped = this.#watchers.size === 0
      if (this.#stopped) clearTimeout(this.#timer)
      return this.#stopped
    }
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
    if (layouts.length === 0) {
      this.#readMs = now()
      this.#tell([], this.#readMs - LATE_MS)
      return
    }
    /** @type {Map<string, number>} */
    const latest = new Map()
    if (clockMs - this.#latestReadMs >= LATEST_MS) {
      for (const { metric, t } of await gate.run(() => store.latestTimes(this.#id))) {
        latest.set(metric, t)
      }
      this.#metrics = [...latest.keys()]
      this.#latestReadMs = clockMs
    }
    this.#chooseSeries()
    const nowMs = now()
    const near = { fromMs: this.#readMs - LATE_MS, toMs: nowMs + CLOCK_AHEAD_MS }
    let bytes = 0
    /** @type {Read} */
    const read = (metric, part, order, rowsMax) =>
      gate.run(async () => {
        if (bytes > BYTES_MAX) throw new Spent()
        const answer = await store.rows(this.#id, metric, part, order, rowsMax)
        bytes += answer.rows.reduce((sum, row) => sum + rowBytes(row), 0)
        return answer
      })
    const polls = [...this.#series.values()].map((series) =>
      series.poll(layouts, read, near, latest.get(series.metric)),
    )
    const answers = await Promise.allSettled(polls)
    // What one series gave is told though another failed: it is not given again.
    const rows = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    this.#tell(rows, near.fromMs)
    const failed = answers.find(({ status }) => status === 'rejected')
    if (failed) throw /** @type {PromiseRejectedResult} */ (failed).reason
    if (bytes <= BYTES_MAX) {
      this.#readMs = nowMs
      return
    }
    // Else the next turn would read the same rows, and never come to those of other series.
    for (const series of this.#series.values()) series.settle()
  }

  /** @param {Row[]} rows  @param {number} sinceMs */
  #tell(rows, sinceMs) {
    rows.sort((a, b) => a.t - b.t || a.seq - b.seq)
    for (const { metrics, tell } of this.#watchers) {
      tell(metrics ? rows.filter(({ metric }) => metrics.has(metric)) : rows, sinceMs)
    }
  }

  /** Watches what somebody wants, and forgets what nobody wants any more. */
  #chooseSeries() {
    /** @type {Set<string>} */
    const wanted = new Set()
    for (const { metrics } of this.#watchers) {
      for (const metric of metrics ?? this.#metrics) wanted.add(metric)
    }
    for (const metric of wanted) {
      if (!this.#series.has(metric)) this.#series.set(metric, new WatchedSeries(metric))
    }
    for (const metric of this.#series.keys()) {
      if (!wanted.has(metric)) this.#series.delete(metric)
    }
  }
}

/** All that is watched. */
export class LiveHub {
  /** @type {Map<string, WatchedSensor>} */
  #sensors = new Map()

  /**
   * @param {object} parts
   * @param {Store} parts.store
   * @param {import('@sandglass/common/semaphore').Semaphore} parts.gate  For the queries of all.
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
   * Tells the rows of a sensor that become visible from now on, and some that did before.
   *
   * @param {string} sensorId
   * @param {string[] | undefined} metrics  Undefined for all there are, and will be.
   * @param {Listener} tell
   * @returns {() => void}  Stops it.
   */
  watch(sensorId, metrics, tell) {
    let sensor = this.#sensors.get(sensorId)
    if (!sensor) {
      sensor = new WatchedSensor(sensorId, this)
      this.#sensors.set(sensorId, sensor)
    }
    const remove = sensor.add({ metrics: metrics && new Set(metrics), tell })
    return () => {
      if (remove()) this.#sensors.delete(sensorId)
    }
  }
}
