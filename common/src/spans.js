/**
 * Which parts of which partitions hold a series between two times, in the order of reading.
 *
 * There is no index of partitions. A sensor's layouts say, by event time, in which retention class
 * (a table) and which bucket width its measurements lie; the buckets between two times are
 * therefore computed.
 */

import { bucketOf, generationOffset } from './schema.js'

/** @typedef {import('./schema.js').Layout} Layout */

/** Times `fromMs <= t < toMs`, in milliseconds since the Unix epoch. */
/** @typedef {{ fromMs: number, toMs: number }} Range */

/** A part of one partition. */
/** @typedef {Range & { className: string, bucket: number }} Span  `bucket` as in the table. */

/** @typedef {'asc' | 'desc'} Order  Oldest first, newest first. */

/**
 * The parts of partitions that cover the ranges, one after the other in the order asked for.
 * Computed as they are taken: a long range costs nothing until it is read.
 *
 * @param {readonly Layout[]} layouts  Ordered by `fromMs`, at least one.
 * @param {readonly Range[]} ranges  Oldest first and apart from each other.
 * @param {Order} order
 * @returns {Generator<Span, void, undefined>}
 */
export function* spans(layouts, ranges, order) {
  const newestFirst = order === 'desc'
  for (const range of newestFirst ? [...ranges].reverse() : ranges) {
    for (const piece of newestFirst ? split(layouts, range).reverse() : split(layouts, range)) {
      yield* newestFirst ? backwards(piece) : forwards(piece)
    }
  }
}

/** @typedef {Range & { layout: Layout }} Piece */

/**
 * A range, cut where layouts change. What is older than the first layout belongs to it.
 *
 * @param {readonly Layout[]} layouts
 * @param {Range} range
 * @returns {Piece[]}
 */
function split(layouts, range) {
  return layouts
    .map((layout, index) => ({
      layout,
      fromMs: Math.max(range.fromMs, index === 0 ? -Infinity : layout.fromMs),
      toMs: Math.min(range.toMs, layouts[index + 1]?.fromMs ?? Infinity),
    }))
    .filter(({ fromMs, toMs }) => fromMs < toMs)
}

/** @param {Piece} piece  @returns {Generator<Span, void, undefined>} */
function* forwards({ layout, fromMs, toMs }) {
  const { className, bucketS } = layout
  const offset = generationOffset(layout)
  for (let startMs = fromMs; startMs < toMs; ) {
    const bucket = bucketOf(bucketS, startMs)
    const endMs = Math.min((bucket + bucketS) * 1000, toMs)
    yield { className, bucket: bucket + offset, fromMs: startMs, toMs: endMs }
    startMs = endMs
  }
}

/** @param {Piece} piece  @returns {Generator<Span, void, undefined>} */
function* backwards({ layout, fromMs, toMs }) {
  const { className, bucketS } = layout
  const offset = generationOffset(layout)
  for (let endMs = toMs; endMs > fromMs; ) {
    const bucket = bucketOf(bucketS, endMs - 1)
    const startMs = Math.max(bucket * 1000, fromMs)
    yield { className, bucket: bucket + offset, fromMs: startMs, toMs: endMs }
    endMs = startMs
  }
}
