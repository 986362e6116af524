/**
 * Dead letters of all days, newest first: the messages that could not be stored, and why.
 *
 * A day has several shards. Within one, rows lie by id, a version 1 UUID, newest first; the page is
 * merged from the shards by the same order. Days follow each other, and days that have expired are
 * not asked for.
 *
 * What a letter is chosen by is read first, without its payload; the payloads of those that fit
 * come after that. A page ends when it has read for long enough or holds enough bytes, also with
 * fewer letters than were asked for, and the next one goes on where it stopped looking.
 */

import { isUtf8 } from 'node:buffer'
import { EXPRESSION_FORMAT, readEnvelope } from '@sandglass/common/expressions/envelope'
import { deadLetterDay } from '@sandglass/common/measurement'
import { PayloadError } from '@sandglass/common/payload'
import { DEAD_LETTER_SHARDS, DEAD_LETTER_TTL_S } from '@sandglass/common/schema'
import cassandra from 'cassandra-driver'

/** @typedef {import('./store.js').DeadLetter} DeadLetter */
/** @typedef {import('./store.js').LetterHead} LetterHead */
/**
 * A letter without its payload, and where it lies; its time as text that sorts.
 *
 * @typedef {LetterHead & { day: number, shard: number, time: string }} Placed
 */

/**
 * Where a page ended. `before` is the id of the last letter that was looked at; without it none of
 * the day was.
 *
 * @typedef {{ day: number, before: string | undefined }} Position
 */

/**
 * Which letters are wanted; each part that is given must fit. Texts are parts of those of a letter,
 * in any case.
 *
 * @typedef {object} LetterFilter
 * @property {string} [reason]
 * @property {string} [topic]
 * @property {string} [client]
 * @property {number} [format]
 * @property {boolean} [replayed]
 * @property {number} [fromMs]  When they came, by their ids.
 * @property {number} [toMs]
 */

/**
 * @typedef {object} Page
 * @property {LetterFilter} [filter]
 * @property {Position} [after]
 * @property {number} limit
 * @property {number} nowMs  Milliseconds since the Unix epoch.
 * @property {AbortSignal} [signal]
 * @property {() => number} [clock]  Milliseconds of a clock that only goes forward.
 */

/** How long one request looks for letters and reads payloads, in milliseconds. */
export const PAGE_MS_MAX = 700

/** Letters of one page as they are sent, in bytes, beside its first one. */
export const PAGE_BYTES_MAX = 4 * 2 ** 20

/** Rows of a shard that are read at a time: what is read first, and the most. */
const ROWS_FIRST = 32
const ROWS_MAX = 512

/** Rows of a shard are read in portions of about so many bytes: a topic alone may have 64 KiB. */
const PORTION_BYTES = 256 * 1024

/** Payloads that are read at the same time. */
const PAYLOADS_AT_ONCE = 32

const SHARDS = Array.from({ length: DEAD_LETTER_SHARDS }, (_, shard) => shard)
const DAYS_MAX = DEAD_LETTER_TTL_S / 86_400 + 1

/**
 * @param {Pick<import('./store.js').Store, 'deadLetters' | 'deadLetterPayload'>} store
 * @param {Page} page
 * @returns {Promise<{ letters: DeadLetter[], next: Position | undefined }>}
 */
export async function readDeadLetters(store, page) {
  const { limit, signal, clock = () => performance.now() } = page
  const endMs = clock() + PAGE_MS_MAX
  const isOver = () => {
    signal?.throwIfAborted()
    return clock() >= endMs
  }
  const { heads, next } = await find(store, page, isOver)
  /** @type {DeadLetter[]} */
  const letters = []
  let bytes = 0
  for (let at = 0; at < heads.length; at += PAYLOADS_AT_ONCE) {
    if (at > 0 && isOver()) return { letters, next: positionOf(heads[at - 1]) }
    const some = heads.slice(at, at + PAYLOADS_AT_ONCE)
    const payloads = await Promise.all(
      some.map(({ day, shard, id }) => store.deadLetterPayload(day, shard, id)),
    )
    for (const [index, payload] of payloads.entries()) {
      // It was deleted in between.
      if (payload === undefined) continue
      bytes += sentBytes(some[index], payload)
      if (bytes > PAGE_BYTES_MAX && letters.length > 0) {
        return { letters, next: positionOf(heads[at + index - 1]) }
      }
      letters.push({ ...some[index], payload })
    }
  }
  return { letters: letters.slice(0, limit), next }
}

/** @param {Placed} head  @returns {Position} */
const positionOf = ({ day, id }) => ({ day, before: id })

/**
 * @param {Pick<import('./store.js').Store, 'deadLetters'>} store
 * @param {Page} page
 * @param {() => boolean} isOver
 * @returns {Promise<{ heads: Placed[], next: Position | undefined }>}
 */
async function find(store, { filter = {}, after, limit, nowMs }, isOver) {
  const fits = matcher(filter)
  const { fromMs, toMs } = filter
  // Ids and days are of the clock of the service that wrote them, which may be ahead of ours.
  const today = deadLetterDay(nowMs) + 1
  const lastDay = Math.max(today - DAYS_MAX, fromMs === undefined ? 0 : deadLetterDay(fromMs))
  /** @type {Placed[]} */
  const heads = []
  let reads = 0
  let position = after && after.day <= today ? after : beginning(toMs, today)
  while (position.day >= lastDay) {
    const { day, before } = position
    // What goes on has to look at something, however slow the database is.
    if (reads > 0 && isOver()) return { heads, next: position }
    reads++
    const shards = SHARDS.map((shard) => new ShardReader(store, { day, shard, before }))
    await Promise.all(shards.map((shard) => shard.read()))
    for (;;) {
      const empty = shards.filter(({ isDrained }) => isDrained)
      if (empty.length > 0) {
        if (isOver()) return { heads, next: position }
        await Promise.all(empty.map((shard) => shard.read()))
      }
      const head = takeNewest(shards)
      if (!head || isBefore(head, fromMs)) break
      if (fits(head)) {
        if (heads.length === limit) return { heads, next: positionOf(heads[limit - 1]) }
        heads.push(head)
      }
      position = positionOf(head)
    }
    position = { day: day - 1, before: undefined }
  }
  return { heads, next: undefined }
}

/** @param {number | undefined} toMs  @param {number} today  @returns {Position} */
function beginning(toMs, today) {
  const day = toMs === undefined ? today : deadLetterDay(toMs)
  if (toMs === undefined || day > today) return { day: today, before: undefined }
  return { day, before: firstIdOf(toMs) }
}

/** The first id of a millisecond. @param {number} timeMs */
const firstIdOf = (timeMs) => cassandra.types.TimeUuid.min(new Date(timeMs), 0).toString()

/** @param {Placed} head  @param {number | undefined} timeMs */
function isBefore({ id }, timeMs) {
  return timeMs !== undefined && compareTimeUuids(id, firstIdOf(timeMs)) < 0
}

/** @param {LetterFilter} filter  @returns {(head: LetterHead) => boolean} */
function matcher({ reason, topic, client, format, replayed }) {
  const parts = /** @type {const} */ ([
    ['reason', reason?.toLowerCase()],
    ['topic', topic?.toLowerCase()],
    ['client', client?.toLowerCase()],
  ])
  return (head) =>
    parts.every(([name, part]) => part === undefined || head[name].toLowerCase().includes(part)) &&
    (format === undefined || (head.format !== undefined && (head.format & 0xff) === format)) &&
    (replayed === undefined || (head.replayedMs !== undefined) === replayed)
}

/** The letters of one shard of a day, newest first, read a portion at a time. */
class ShardReader {
  #store
  #day
  #shard
  #before
  #rowsMax = ROWS_FIRST
  #isEnd = false
  /** Oldest first. @type {Placed[]} */
  #heads = []

  /**
   * @param {Pick<import('./store.js').Store, 'deadLetters'>} store
   * @param {{ day: number, shard: number, before: string | undefined }} from
   */
  constructor(store, { day, shard, before }) {
    this.#store = store
    this.#day = day
    this.#shard = shard
    this.#before = before
  }

  /** Whether it has to be read further before it can be said what comes next. */
  get isDrained() {
    return this.#heads.length === 0 && !this.#isEnd
  }

  /** Its newest letter. */
  get newest() {
    return this.#heads.at(-1)
  }

  take() {
    return this.#heads.pop()
  }

  async read() {
    const [day, shard] = [this.#day, this.#shard]
    const rows = await this.#store.deadLetters(day, shard, this.#before, this.#rowsMax)
    this.#isEnd = rows.length < this.#rowsMax
    this.#before = rows.at(-1)?.id ?? this.#before
    this.#heads = rows.map((row) => ({ ...row, day, shard, time: timeHex(row.id) })).reverse()
    const bytes = rows.reduce((sum, row) => sum + textLength(row), rows.length)
    const fitting = Math.floor((PORTION_BYTES * rows.length) / (bytes || 1))
    this.#rowsMax = Math.max(1, Math.min(ROWS_MAX, 4 * this.#rowsMax, fitting))
  }
}

/** @param {LetterHead} head */
function textLength({ topic, client, reason }) {
  return topic.length + client.length + reason.length
}

/** Takes the newest letter of a day from its shard. @param {ShardReader[]} shards */
function takeNewest(shards) {
  /** @type {ShardReader | undefined} */
  let first
  for (const shard of shards) {
    const { newest } = shard
    if (newest && (!first?.newest || isNewer(newest, first.newest))) first = shard
  }
  return first?.take()
}

/** @param {Placed} a  @param {Placed} b */
function isNewer(a, b) {
  return a.time === b.time ? compareTimeUuids(a.id, b.id) > 0 : a.time > b.time
}

/**
 * What arrived, and whose expression was asked.
 *
 * @param {Buffer} payload  As it is stored.
 * @param {number | undefined} format
 * @returns {{ payload: Buffer, decoder: string | null }}
 */
export function arrivedIn(payload, format) {
  if (format !== EXPRESSION_FORMAT) return { payload, decoder: null }
  try {
    const { decoder, original } = readEnvelope(payload)
    return { payload: original, decoder: decoder || null }
  } catch (error) {
    if (error instanceof PayloadError) return { payload, decoder: null }
    throw error
  }
}

/**
 * About what a letter takes in an answer: JSON has six bytes for one that it escapes.
 *
 * @param {LetterHead} head
 * @param {Buffer} kept
 */
function sentBytes({ topic, client, reason, format }, kept) {
  // The column is signed.
  const { payload } = arrivedIn(kept, format === undefined ? undefined : format & 0xff)
  const text = payload.toString(encodingOf(payload))
  return Buffer.byteLength(JSON.stringify([topic, client, reason, text]))
}

/** In which a payload is sent. @param {Buffer} payload  @returns {'utf8' | 'base64'} */
export function encodingOf(payload) {
  return isUtf8(payload) ? 'utf8' : 'base64'
}

/**
 * The order of the CQL type `timeuuid`: by time, then by the rest as signed bytes.
 *
 * @param {string} a
 * @param {string} b
 */
export function compareTimeUuids(a, b) {
  const [timeA, timeB] = [timeHex(a), timeHex(b)]
  if (timeA !== timeB) return timeA < timeB ? -1 : 1
  const [restA, restB] = [signedBytes(a), signedBytes(b)]
  const at = restA.findIndex((byte, index) => byte !== restB[index])
  return at < 0 ? 0 : restA[at] - restB[at]
}

/** The 60 bits of the time, most significant first. @param {string} uuid */
function timeHex(uuid) {
  return uuid.slice(15, 18) + uuid.slice(9, 13) + uuid.slice(0, 8)
}

/** @param {string} uuid */
function signedBytes(uuid) {
  return [...new Int8Array(Buffer.from(uuid.slice(19).replace('-', ''), 'hex'))]
}
