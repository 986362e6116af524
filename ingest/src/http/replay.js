/**
 * Dead letters once more: after what was wrong is mended, each is taken as if it came now, with the
 * time at which it was received then and with the rights of its client. One that is refused again,
 * or of which fields are, stays the same dead letter.
 */

import { formatOfLetter } from '@sandglass/common/bodies'
import { Message } from '../message/message.js'
import { rightsFrom } from '../message/rights.js'
import { PAYLOAD_KEPT_BYTES_MAX } from '../write/rows.js'

/** @typedef {import('../write/row.js').Row} Row */

/**
 * @typedef {object} Letter  As it is stored.
 * @property {import('cassandra-driver').types.TimeUuid} id
 * @property {string} topic
 * @property {string} client
 * @property {Buffer} payload
 * @property {number} receivedMs  Milliseconds since the Unix epoch.
 * @property {number | null | undefined} format  Of `FORMAT`; none in letters of earlier versions.
 * @property {string | null | undefined} rights  Of its client, as `Rights` are stored.
 * @property {string | null | undefined} retention  Of a sensor that it registers.
 */

/**
 * @typedef {object} Replayed
 * @property {number} replayed  So many are stored now, and marked.
 * @property {{ id: string, reason: string }[]} refused
 * @property {string[]} unknown  There are none of these ids.
 */

/**
 * @param {string[]} ids
 * @param {object} parts
 * @param {{ deadLetter: (id: string) => Promise<Letter | undefined> }} parts.reader
 * @param {(message: Message) => void} parts.accept
 * @param {import('../write/rows.js').Rows} parts.rows
 * @param {(row: Row) => void} parts.write
 * @param {string} [parts.retention]  Class of sensors that register themselves by them, now.
 * @returns {Promise<Replayed>}
 */
export async function replay(ids, { reader, accept, rows, write, retention }) {
  /** @type {Replayed} */
  const outcome = { replayed: 0, refused: [], unknown: [] }
  for (const id of new Set(ids)) {
    const letter = await reader.deadLetter(id)
    if (letter && retention !== undefined) letter.retention = retention
    if (!letter) {
      outcome.unknown.push(id)
      continue
    }
    const reason = await once(letter, accept)
    if (reason !== undefined) {
      outcome.refused.push({ id, reason })
      continue
    }
    await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      const mark = rows.replayed(letter.id, Date.now())
      mark.onDone = resolve
      write(mark)
    })
    outcome.replayed++
  }
  return outcome
}

/**
 * @param {Letter} letter
 * @param {(message: Message) => void} accept
 * @returns {Promise<string | undefined>}  Why it is refused.
 */
function once(letter, accept) {
  const { id, topic, client, payload, receivedMs, rights, retention } = letter
  if (payload.length >= PAYLOAD_KEPT_BYTES_MAX) {
    return Promise.resolve('its payload was cut when it was kept')
  }
  return new Promise((resolve) => {
    const settled = (/** @type {Message} */ { refusal, partial }) =>
      resolve((refusal ?? partial)?.reason)
    accept(
      new Message({
        origin: { settled },
        arrival: 'replay',
        clientId: client,
        topic,
        payload,
        format: formatOfLetter(letter),
        rights: rightsFrom(rights),
        retention: retention ?? undefined,
        receivedMs,
        // What was deleted since it was received hides nothing that somebody stores now.
        writtenMs: Date.now(),
        arrivedMs: performance.now(),
        deadLetterId: id,
      }),
    )
  })
}
