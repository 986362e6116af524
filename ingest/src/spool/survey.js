/**
 * Joins what HEAD says with what the segments hold: which messages are there, and how many are
 * missing where. All positions from the start to the end must be there; those that are not were
 * lost. The argument is in docs/format/spool.md. Pure.
 */

/** @typedef {import('./scan.js').Scan} Scan */

/**
 * @typedef {object} Found  A segment, and what is missing in it or after it.
 * @property {Scan} scan
 * @property {number} startPosition  Of its first message.
 * @property {number} lost  Messages.
 * @property {boolean} isDamaged
 */

/**
 * @typedef {object} Survey
 * @property {Found[]} segments  By number.
 * @property {number} startPosition
 * @property {number} endPosition
 * @property {number} messages  That can be read.
 * @property {number} lost
 */

/**
 * @param {Pick<import('./head.js').HeadState, 'startPosition' | 'endPosition' | 'lastSegment' |
 *   'lastPosition'> | undefined} head  Nothing if it is lost.
 * @param {Scan[]} scans  By number.
 * @returns {Survey}
 */
export function survey(head, scans) {
  dropUnpromised(scans, head)
  const walk = new Walk(head?.startPosition ?? startOf(scans))
  for (const scan of scans) walk.enter(scan)
  return walk.finish(head?.endPosition ?? 0)
}

/**
 * Blocks whose sync failed may be there, whole. Their messages were not acknowledged, and the
 * segment after theirs begins at the position they had.
 *
 * @param {Scan[]} scans
 * @param {{ lastSegment: number, lastPosition: number }} [last]
 */
function dropUnpromised(scans, last = { lastSegment: -1, lastPosition: 0 }) {
  let limit = Number.POSITIVE_INFINITY
  for (const scan of scans.toReversed()) {
    // The segment after it may be gone; HEAD says where it began.
    if (scan.number < last.lastSegment) limit = Math.min(limit, last.lastPosition)
    const { offsets, counts, positions } = scan
    while (positions.length > 0 && positions[positions.length - 1] >= limit) {
      scan.blocksEnd = offsets[offsets.length - 1]
      scan.hasFailed = true
      for (const list of [offsets, counts, positions]) list.pop()
    }
    if (scan.tailEnd !== undefined && scan.tailEnd > limit) scan.tailEnd = undefined
    limit = Math.min(limit, scan.segmentPosition ?? limit)
  }
}

/** Where the first segment begins, if HEAD does not say it. @param {Scan[]} scans */
function startOf(scans) {
  const first = scans.find(({ segmentPosition }) => segmentPosition !== undefined)
  const before = scans.filter(({ version }) => version === 1)
  const messages = before.flatMap(({ counts }) => counts).reduce((sum, count) => sum + count, 0)
  return Math.max(0, (first?.segmentPosition ?? messages) - messages)
}

class Walk {
  /** Everything before it is there, or counted as lost. */
  #position
  #startPosition
  #messages = 0
  #lost = 0
  /** @type {Found[]} */
  #segments = []
  /** The last one of which a position is known. @type {Found | undefined} */
  #known
  /** Those after it of which none is. @type {Found[]} */
  #unknown = []

  /** @param {number} startPosition */
  constructor(startPosition) {
    this.#position = startPosition
    this.#startPosition = startPosition
  }

  /** @param {Scan} scan */
  enter(scan) {
    if (scan.version === 1) this.#place(scan)
    const found = { scan, startPosition: this.#position, lost: 0, isDamaged: false }
    this.#segments.push(found)
    // The end of the others is judged when it is known that none comes after them.
    found.isDamaged = scan.isDamaged && (scan.version === 1 || scan.segmentPosition === undefined)
    if (scan.segmentPosition === undefined) {
      this.#unknown.push(found)
      return
    }
    this.#missBefore(scan.segmentPosition)
    found.startPosition = this.#position
    this.#known = found
    this.#unknown = []
    for (const [index, position] of scan.positions.entries()) {
      this.#miss(found, position, [found])
      this.#position = Math.max(this.#position, position + scan.counts[index])
      this.#messages += scan.counts[index]
    }
  }

  /** @param {number} headEnd @returns {Survey} */
  finish(headEnd) {
    const last = this.#known
    if (last?.scan.isDamaged) last.isDamaged = true
    this.#missBefore(Math.max(headEnd, last?.scan.tailEnd ?? 0))
    // What is missing before the first segment is counted with it.
    const [first] = this.#segments
    if (first) {
      first.startPosition = this.#startPosition
      first.lost += this.#lost - this.#segments.reduce((sum, { lost }) => sum + lost, 0)
    }
    return {
      segments: this.#segments,
      startPosition: this.#startPosition,
      endPosition: this.#position,
      messages: this.#messages,
      lost: this.#lost,
    }
  }

  /** Blocks of version 1 have the positions that are next. @param {Scan} scan */
  #place(scan) {
    let position = this.#position
    if (scan.counts.length > 0) scan.segmentPosition = position
    scan.positions = scan.counts.map((count) => {
      position += count
      return position - count
    })
  }

  /** The end of the segments until now is missing, or files are. @param {number} position */
  #missBefore(position) {
    const unreadable = this.#unknown.filter(({ scan }) => scan.bytes > 0)
    const cut = this.#known ? [this.#known, ...this.#unknown] : this.#unknown
    this.#miss(this.#known, position, unreadable.length > 0 ? unreadable : cut)
  }

  /**
   * Counts what is missing before a position.
   *
   * @param {Found | undefined} owner  With which it is counted.
   * @param {number} position
   * @param {Found[]} damaged
   */
  #miss(owner, position, damaged) {
    const missing = position - this.#position
    if (missing <= 0) return
    this.#lost += missing
    this.#position = position
    if (owner) owner.lost += missing
    for (const found of damaged) found.isDamaged = true
  }
}
