/**
 * A page of several series in one order of time, without reading any of them further than needed.
 *
 * Each series is a source that knows its next row, if it has read one, and how far it has looked.
 * The next row of the page is the first of all heads, once no source without a head could still
 * come up with an earlier one. Only sources that stand in the way of the next row are read on, so a
 * series with a gap of years costs nothing while others fill the page.
 *
 * Order is by *place*: the event time, negated when newest comes first, so that it always grows.
 * Rows of one time follow each other by metric, then by `seq` in the order of reading. That order
 * is total, and so the last row of a page says exactly where the next one begins.
 */

/**
 * A measurement as it is read: one row of a measurement table.
 *
 * @typedef {object} Row
 * @property {string} metric
 * @property {number} t  Event time, milliseconds since the Unix epoch.
 * @property {number} seq  0, or higher for further values of the same millisecond.
 * @property {number} [kind]  Of the value, one of `KIND`; none where there is no value.
 * @property {import('@sandglass/common/measurement').Value | null} value
 */

/** What a row takes besides its text, in bytes. */
const ROW_BYTES = 200

/** About what a row takes of memory, in bytes. @param {Row} row */
export function rowBytes({ value }) {
  return typeof value === 'string' ? ROW_BYTES + 2 * value.length : ROW_BYTES
}

/** How much a page holds. @typedef {{ rowsMax: number, bytesMax: number }} Limits */

/**
 * @typedef {object} Source  One series, ordered by place and then in the order of reading.
 * @property {string} metric
 * @property {Row | undefined} head  The next row; undefined until it is filled, and at the end.
 * @property {number} place  Of the head.
 * @property {number} examined  Every row up to this place, inclusive, has been the head or is
 *   buffered; `Infinity` at the end.
 * @property {() => void} advance  Drops the head.
 * @property {() => Promise<void>} fill  Reads on. `head` or `examined` is further afterwards.
 */

/**
 * @typedef {object} MergedPage
 * @property {Row[]} rows  As many as fit, and at least one if there are any.
 * @property {'full' | 'paused' | 'ended'} state  Whether there are more rows for certain, perhaps,
 *   or none.
 * @property {number} examined  Where `paused`: no row up to this place is missing. A row behind it
 *   may be there already, which is then the better mark.
 */

/**
 * Merges until the page is full, the sources end or the budget is spent.
 *
 * @param {readonly Source[]} sources
 * @param {Limits} limits  At least one row.
 * @param {(rowCount: number, examined: number) => boolean} mayGoOn  Asked before each round of
 *   reading but the first, with what has been achieved.
 * @returns {Promise<MergedPage>}
 */
export async function mergePage(sources, limits, mayGoOn) {
  const page = new Page(limits)
  const { rows } = page
  const heads = new HeadHeap()
  let headless = [...sources]
  for (let round = 0; ; round += 1) {
    const examined = takeUntil(headless, heads, page)
    if (page.isOver) return { rows: rows.slice(0, -1), state: 'full', examined }
    headless = headless.filter((source) => source.examined < Infinity)
    if (heads.first === undefined && headless.length === 0) {
      return { rows, state: 'ended', examined: Infinity }
    }
    if (round > 0 && !mayGoOn(rows.length, examined)) return { rows, state: 'paused', examined }

    const place = heads.first?.place ?? Infinity
    await Promise.all(headless.filter((source) => source.examined < place).map((s) => s.fill()))
    headless = headless.filter((source) => {
      if (source.head) heads.push(source)
      return !source.head
    })
  }
}

/**
 * Takes the rows that are certain to be next. Sources that run dry join the headless.
 *
 * @param {Source[]} headless
 * @param {HeadHeap} heads
 * @param {Page} page
 * @returns {number}  The place up to which every source has looked.
 */
function takeUntil(headless, heads, page) {
  let examined = headless.reduce((least, source) => Math.min(least, source.examined), Infinity)
  while (!page.isOver) {
    const source = heads.first
    if (!source || source.place > examined) break
    page.add(/** @type {Row} */ (source.head))
    source.advance()
    if (source.head) {
      heads.sinkFirst()
    } else {
      heads.popFirst()
      headless.push(source)
      examined = Math.min(examined, source.examined)
    }
  }
  return examined
}

/** Rows until there is one more than fits. */
class Page {
  /** @type {Row[]} */
  rows = []
  isOver = false
  #bytes = 0
  #limits

  /** @param {Limits} limits */
  constructor(limits) {
    this.#limits = limits
  }

  /** @param {Row} row */
  add(row) {
    const { rowsMax, bytesMax } = this.#limits
    const count = this.rows.push(row)
    this.#bytes += rowBytes(row)
    this.isOver = count > 1 && (count > rowsMax || this.#bytes > bytesMax)
  }
}

/** Sources with a head, the one with the first head on top: a binary heap. */
class HeadHeap {
  /** @type {Source[]} */
  #sources = []

  /** @returns {Source | undefined} */
  get first() {
    return this.#sources[0]
  }

  /** @param {Source} source */
  push(source) {
    const sources = this.#sources
    let at = sources.push(source) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(source, sources[parent])) break
      sources[at] = sources[parent]
      at = parent
    }
    sources[at] = source
  }

  popFirst() {
    const last = /** @type {Source} */ (this.#sources.pop())
    if (this.#sources.length === 0) return
    this.#sources[0] = last
    this.sinkFirst()
  }

  /** Puts the first source where its new head belongs. */
  sinkFirst() {
    const sources = this.#sources
    const source = sources[0]
    let at = 0
    for (let child = 1; child < sources.length; child = 2 * at + 1) {
      if (child + 1 < sources.length && isBefore(sources[child + 1], sources[child])) child += 1
      if (!isBefore(sources[child], source)) break
      sources[at] = sources[child]
      at = child
    }
    sources[at] = source
  }
}

/** @param {Source} a  @param {Source} b */
function isBefore(a, b) {
  return a.place < b.place || (a.place === b.place && a.metric < b.metric)
}
