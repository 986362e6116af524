/**
 * Dead letters of all days, newest first: the messages that could not be stored, and why.
 *
 * A day has several shards. Within one, rows lie by id, a version 1 UUID, newest first; the page is
 * merged from the shards by the same order. Days follow each other, so a page ends with the day of
 * its last letter in the cursor, and days that have expired are not asked for.
 */

import { deadLetterDay } from '@sandglass/common/measurement'
import { DEAD_LETTER_SHARDS, DEAD_LETTER_TTL_S } from '@sandglass/common/schema'

/** @typedef {import('./store.js').DeadLetter} DeadLetter */

/** Where a page ended. @typedef {{ day: number, id: string }} Position */

const SHARDS = Array.from({ length: DEAD_LETTER_SHARDS }, (_, shard) => shard)
const DAYS_MAX = DEAD_LETTER_TTL_S / 86_400 + 1

/**
 * @param {import('./store.js').Store} store
 * @param {object} page
 * @param {Position} [page.after]
 * @param {number} page.limit
 * @param {number} page.nowMs
 * @returns {Promise<{ letters: DeadLetter[], next: Position | undefined }>}
 */
export async function readDeadLetters(store, { after, limit, nowMs }) {
  // Ids and days are of the clock of the service that wrote them, which may be ahead of ours.
  const today = deadLetterDay(nowMs) + 1
  /** @type {(DeadLetter & { day: number })[]} */
  const letters = []
  for (let day = after?.day ?? today; day > today - DAYS_MAX - 1; day -= 1) {
    const before = day === after?.day ? after.id : undefined
    const rowsMax = limit + 1 - letters.length
    const shards = await Promise.all(
      SHARDS.map((shard) => store.deadLetters(day, shard, before, rowsMax)),
    )
    const merged = shards.flat().sort((a, b) => compareTimeUuids(b.id, a.id))
    for (const letter of merged.slice(0, rowsMax)) letters.push({ ...letter, day })
    if (letters.length > limit) break
  }
  const last = letters[limit - 1]
  const next = letters.length > limit ? { day: last.day, id: last.id } : undefined
  return { letters: letters.slice(0, limit), next }
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
