/**
 * The watermark of a live stream: what its client was told, as the text of an event's id. It holds
 * nothing of a process, so any api on any cluster can go on from it.
 *
 * ```text
 * watermark := "p" since series*      since: rows of earlier times are not read again
 * series    := ("~" | "!") hash floor? ("." mark)*
 * floor     := key                    rows up to this one, inclusive, are not told again
 * mark      := key | key "*" count    so many rows were told after the mark before, up to this one
 * key       := time | time "-" seq    each time counts from the one before it in the text
 * ```
 *
 * Numbers are written to the base of 36. A hash has six characters. "!" is a series whose clock is
 * behind: its rows lie before `since`.
 *
 * Late rows only add to those that were told. So the number of rows up to a mark says whether any
 * became visible since, and only then, and only the rows up to that mark, are ambiguous. A mark for
 * each row leaves no ambiguity; where the text would be too long, one mark stands for more rows.
 */

import { createHash } from 'node:crypto'
import { invalid } from '@sandglass/common/problem'
import { TIME_MS_MAX } from './time.js'

/**
 * Longest text, in characters: it comes back as a header, for which proxies have 8 KiB and Node
 * has 16 KiB.
 */
export const WATERMARK_LENGTH_MAX = 6_000

/** Rows of one series that are remembered; earlier ones count as told. */
export const ROWS_REMEMBERED_MAX = 1_000

/** Room for the prefix and the first time, in characters. */
const HEAD_LENGTH_MAX = 13

const HASH_LENGTH = 6

/** @typedef {{ t: number, seq: number }} Key  Of a row: event time in milliseconds, and `seq`. */
/** @typedef {Key & { count: number }} Mark */
/** @typedef {{ sinceMs: number, series: Map<string, Told> }} Watermark  By {@link seriesHash}. */

/** @param {Key} a  @param {Key} b */
export function compareKeys(a, b) {
  return a.t - b.t || a.seq - b.seq
}

/** @param {Key} key  @returns {Key} */
const keyOf = ({ t, seq }) => ({ t, seq })

/** The rows of one series that were told. */
export class Told {
  /** In order. @type {Mark[]} */
  #marks
  /** Rows up to this one, inclusive, count as told. @type {Key | undefined} */
  floor
  /** Whether the clock of the device is behind, by what it sent last. */
  isBehind

  /** @param {{ floor?: Key, marks?: Mark[], isBehind?: boolean }} [told] */
  constructor({ floor, marks = [], isBehind = false } = {}) {
    this.floor = floor
    this.#marks = marks
    this.isBehind = isBehind
  }

  /** @type {readonly Mark[]} */
  get marks() {
    return this.#marks
  }

  /**
   * @param {Key} key
   * @returns {boolean}  Whether it was not told before.
   */
  add({ t, seq }) {
    const key = { t, seq, count: 1 }
    if (this.floor && compareKeys(key, this.floor) <= 0) return false
    const at = this.#find(key)
    if (this.#marks[at] && compareKeys(this.#marks[at], key) === 0) return false
    this.#marks.splice(at, 0, key)
    // Half of them at a time: it moves the rest.
    if (this.#marks.length > 2 * ROWS_REMEMBERED_MAX) this.#forget(ROWS_REMEMBERED_MAX)
    return true
  }

  /**
   * The mark of several rows that a row may be one of.
   *
   * @param {Key} key
   * @returns {Mark | undefined}
   */
  ambiguous(key) {
    if (this.floor && compareKeys(key, this.floor) <= 0) return undefined
    const mark = this.#marks[this.#find(key)]
    return mark && mark.count > 1 ? mark : undefined
  }

  /**
   * Takes rows for granted up to a moment at which nobody looks any more.
   *
   * @param {number} sinceMs
   */
  advance(sinceMs) {
    const at = this.#marks.findIndex(({ t }) => t >= sinceMs)
    this.#forget(at < 0 ? this.#marks.length : at)
  }

  /** @param {number} count  Of the earliest. */
  #forget(count) {
    const last = this.#marks.splice(0, count).at(-1)
    if (last && (!this.floor || compareKeys(last, this.floor) > 0)) {
      this.floor = keyOf(last)
    }
  }

  /** Where a key is, or belongs: mostly at the end. @param {Key} key */
  #find(key) {
    let low = 0
    let high = this.#marks.length
    if (high === 0 || compareKeys(this.#marks[high - 1], key) < 0) return high
    while (low < high) {
      const middle = (low + high) >> 1
      if (compareKeys(this.#marks[middle], key) < 0) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** @param {string} sensorId  @param {string} metric */
export function seriesHash(sensorId, metric) {
  const hash = createHash('sha256').update(`${sensorId}\n${metric}`).digest('base64url')
  return hash.slice(0, HASH_LENGTH)
}

/**
 * Series that do not fit are left out: their rows are told again from `since` on. Those whose clock
 * is behind are the last to be left out, for then `since` has to go back.
 *
 * @param {Watermark} watermark
 */
export function encodeWatermark({ sinceMs, series }) {
  const entries = [...series].filter(([, told]) => told.floor || told.marks.length > 0)
  entries.sort(([, a], [, b]) => rank(a) - rank(b))
  let rowsAMark = 1
  let written = encodeSeries(entries, sinceMs, rowsAMark)
  while (written.count < entries.length && rowsAMark < 2 * ROWS_REMEMBERED_MAX) {
    rowsAMark *= 8
    written = encodeSeries(entries, sinceMs, rowsAMark)
  }
  const fromMs = entries
    .slice(written.count)
    .filter(([, told]) => told.isBehind)
    .reduce((earliest, [, { floor }]) => Math.min(earliest, floor?.t ?? earliest), sinceMs)
  return `p${number(fromMs)}${written.text}`
}

/** @param {Told} told */
function rank({ isBehind, marks }) {
  if (isBehind) return 0
  return marks.length > 0 ? 1 : 2
}

/**
 * As many series as fit.
 *
 * @param {[string, Told][]} entries
 * @param {number} sinceMs
 * @param {number} rowsAMark  At least; the last mark of a series may stand for fewer.
 */
function encodeSeries(entries, sinceMs, rowsAMark) {
  let text = ''
  let count = 0
  let beforeMs = 0
  const key = (/** @type {Key} */ { t, seq }) => {
    const time = number(t - beforeMs)
    beforeMs = t
    return seq === 0 ? time : `${time}-${number(seq)}`
  }
  for (const [hash, { floor, marks, isBehind }] of entries) {
    let entry = `${isBehind ? '!' : '~'}${hash}`
    if (floor && (isBehind || marks.length === 0 || floor.t >= sinceMs)) entry += key(floor)
    let rows = 0
    for (const [at, mark] of marks.entries()) {
      rows += mark.count
      if (rows < rowsAMark && at < marks.length - 1) continue
      entry += `.${key(mark)}${rows > 1 ? `*${number(rows)}` : ''}`
      rows = 0
    }
    if (text.length + entry.length > WATERMARK_LENGTH_MAX - HEAD_LENGTH_MAX) break
    text += entry
    count += 1
  }
  return { text, count }
}

/** @param {number} value */
const number = (value) => value.toString(36)

const NUMBER = /^-?[0-9a-z]{1,11}$/
const MARK = /^(-?[0-9a-z]{1,11})(?:-([0-9a-z]{1,11}))?(?:\*([0-9a-z]{1,4}))?$/

/** Whether a text is meant to be a watermark, and no time. @param {string} text */
export function isWatermark(text) {
  return text.startsWith('p')
}

/**
 * @param {string} parameter  Where it came from, for the message.
 * @param {string} text
 * @returns {Watermark}
 * @throws {import('@sandglass/common/problem').Problem}
 */
export function decodeWatermark(parameter, text) {
  const [since, ...entries] = text.slice(1).split(/(?=[~!])/)
  const isWhole = NUMBER.test(since) && entries.every((entry) => entry.length > HASH_LENGTH)
  let beforeMs = 0
  let isValid = isWhole
  /** @param {string} one  @returns {Mark} */
  const mark = (one) => {
    const [, time = '', seq = '0', count = '1'] = MARK.exec(one) ?? []
    beforeMs += Number.parseInt(time, 36)
    isValid &&= Math.abs(beforeMs) <= TIME_MS_MAX
    return { t: beforeMs, seq: Number.parseInt(seq, 36), count: Number.parseInt(count, 36) }
  }
  /** @type {Map<string, Told>} */
  const series = new Map()
  for (const entry of isWhole ? entries : []) {
    const [floorText, ...markTexts] = entry.slice(1 + HASH_LENGTH).split('.')
    const floor = floorText === '' ? undefined : keyOf(mark(floorText))
    const marks = markTexts.map(mark)
    series.set(
      entry.slice(1, 1 + HASH_LENGTH),
      new Told({ floor, marks, isBehind: entry[0] === '!' }),
    )
  }
  const sinceMs = Number.parseInt(since, 36)
  if (!isValid || !(Math.abs(sinceMs) <= TIME_MS_MAX)) {
    throw invalid(parameter, 'must be the id of an event, as it came, or a time')
  }
  return { sinceMs, series }
}
