/**
 * Bodies of requests: received and unpacked, each step counted in the memory that all bodies share.
 * What is counted is given back when the answer has left, or when the client is gone and nothing is
 * under way any more.
 */

import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { PayloadError } from '@sandglass/common/payload'
import { Problem } from '@sandglass/common/problem'

/** Largest body once it is unpacked, in bytes. */
export const UNPACKED_BYTES_MAX = 16 * 2 ** 20

/** What a byte of a body costs until it is taken apart: as it came, and as text. */
const TEXT_FACTOR = 3

/** What an item costs, before it is a message, besides its text: in bytes. */
const ITEM_BYTES = 250

/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */

/** The memory of one request's body. */
export class BodyLease {
  #share
  #bytes = 0
  #isEnded = false
  #users = 0

  /** @param {MemoryShare} share */
  constructor(share) {
    this.#share = share
  }

  /** @param {number} bytes  @throws {Problem}  If there is no room: try again later. */
  take(bytes) {
    if (this.#isEnded) throw new Problem('invalid-request', 'the client is gone')
    if (!this.#share.take(bytes)) {
      throw new Problem('too-many-bodies', 'too many bodies arrive at once: try again in a moment')
    }
    this.#bytes += bytes
  }

  /** @param {number} count  Of what the body was taken apart into. */
  takeItems(count) {
    this.take(count * ITEM_BYTES)
  }

  /**
   * What is made of the body is counted until all is done with it, though the client may be gone.
   *
   * @template T
   * @param {() => Promise<T>} work
   */
  async during(work) {
    this.#users++
    try {
      return await work()
    } finally {
      this.#users--
      if (this.#isEnded) this.end()
    }
  }

  /** The answer has left, or the client is gone. */
  end() {
    this.#isEnded = true
    if (this.#users > 0) return
    this.#share.give(this.#bytes)
    this.#bytes = 0
  }
}

/**
 * Reads a body to its end.
 *
 * @param {AsyncIterable<Buffer>} arriving
 * @param {string | undefined} encoding  The header `Content-Encoding`.
 * @param {BodyLease} lease
 * @param {number} bytesMax  Largest body as it arrives.
 * @returns {Promise<Buffer>}
 * @throws {Problem | PayloadError}
 */
export async function readBody(arriving, encoding, lease, bytesMax) {
  if (encoding !== undefined && encoding !== 'identity' && encoding !== 'gzip') {
    throw new PayloadError('json', 'Content-Encoding must be gzip, or none')
  }
  const limited = limit(arriving, bytesMax, () => {
    const detail = `a body has at most ${bytesMax} bytes (--body-bytes-max)`
    return new Problem('body-too-large', detail)
  })
  return encoding === 'gzip' ? unpack(limited, lease) : collect(limited, lease)
}

/**
 * @param {AsyncIterable<Buffer>} chunks
 * @param {number} bytesMax
 * @param {() => Error} tooLarge
 */
async function* limit(chunks, bytesMax, tooLarge) {
  let bytes = 0
  for await (const chunk of chunks) {
    bytes += chunk.length
    if (bytes > bytesMax) throw tooLarge()
    yield chunk
  }
}

/** @param {AsyncIterable<Buffer>} chunks  @param {BodyLease} lease */
async function collect(chunks, lease) {
  /** @type {Buffer[]} */
  const all = []
  for await (const chunk of chunks) {
    lease.take(TEXT_FACTOR * chunk.length)
    all.push(chunk)
  }
  return Buffer.concat(all)
}

/** @param {AsyncIterable<Buffer>} packed  @param {BodyLease} lease */
async function unpack(packed, lease) {
  const tooLarge = () => new PayloadError('json', `it has more than ${UNPACKED_BYTES_MAX} bytes`)
  /** @type {Buffer} */
  let bytes = Buffer.alloc(0)
  try {
    await pipeline(packed, createGunzip(), async (chunks) => {
      bytes = await collect(limit(chunks, UNPACKED_BYTES_MAX, tooLarge), lease)
    })
  } catch (error) {
    if (error instanceof Problem) throw error
    const { message } = /** @type {Error} */ (error)
    throw new PayloadError('json', `the body cannot be unpacked: ${message}`)
  }
  return bytes
}
