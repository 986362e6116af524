/**
 * Memory of request bodies: room for a body is taken before it is read, and given back when its
 * request is over. Without room the answer is 503 at once, however many come together.
 */

import { MemoryShare } from '@sandglass/common/memory-share'
import { Problem } from '@sandglass/common/problem'
import { grantOf } from './auth.js'

/** What a byte of a body costs: as it comes, joined, understood, and handed on. */
const FACTOR = 4

/** Bodies that there is room for at least, whatever `--body-bytes-max` is. */
const BODIES_MIN = 8

/** Room for all bodies together where they are small, in bytes. */
const BYTES_MIN = 64 * 2 ** 20

/** What of the room one key may take: whoever sends slowly with it leaves the rest to others. */
const KEY_PART_MAX = 1 / 2

/** Routes that never hold more of a body than a record. */
const STREAMED = new Set(['/v1/import'])

/** @param {number} bodyBytesMax  @returns {MemoryShare}  For all bodies together. */
export function bodyShare(bodyBytesMax) {
  return new MemoryShare(Math.max(BYTES_MIN, FACTOR * BODIES_MIN * bodyBytesMax))
}

/**
 * @typedef {object} Lease  What a request has taken.
 * @property {number} bytes
 * @property {string | undefined} keyId  With which it was asked.
 * @property {boolean} isHeld  A handler works with the body.
 * @property {boolean} isOver  The answer has left, or the client has.
 */

/**
 * To be called after the hooks that ask for a key: who has none gets no room.
 *
 * @param {import('fastify').FastifyInstance} app
 * @param {MemoryShare} share
 * @param {number} bodyBytesMax  Of routes that say nothing else.
 */
export function limitBodyMemory(app, share, bodyBytesMax) {
  /** By request. @type {WeakMap<object, Lease>} */
  const leases = new WeakMap()
  const keys = new KeyParts(KEY_PART_MAX * share.bytesMax)

  app.addHook('preParsing', async (request, reply) => {
    const { url, bodyLimit = bodyBytesMax } = request.routeOptions
    const bytes = STREAMED.has(url ?? '') ? 0 : FACTOR * bodyBytes(request.headers, bodyLimit)
    if (bytes === 0) return
    const keyId = grantOf(request)?.keyId
    take(bytes, keyId)
    const lease = { bytes, keyId, isHeld: false, isOver: false }
    leases.set(request, lease)
    reply.raw.once('close', () => {
      lease.isOver = true
      giveBack(lease)
    })
  })
  app.addHook('preHandler', async (request) => {
    const lease = leases.get(request)
    if (lease) lease.isHeld = true
  })
  app.addHook('onSend', async (request) => {
    const lease = leases.get(request)
    if (!lease) return
    lease.isHeld = false
    giveBack(lease)
  })

  /** @param {number} bytes  @param {string | undefined} keyId  @throws {Problem} */
  function take(bytes, keyId) {
    if (!keys.hasRoom(keyId, bytes)) {
      share.refused += 1
      throw new Problem(
        'too-many-bodies',
        'too many bodies arrive at once with this key: send fewer together, or try again in a moment',
      )
    }
    if (!share.take(bytes)) {
      throw new Problem('too-many-bodies', 'too many bodies arrive at once: try again in a moment')
    }
    keys.add(keyId, bytes)
  }

  /**
   * Not while a handler still works with the body of a client that has left, else one that leaves
   * and comes again would have it held over and over.
   *
   * @param {Lease} lease
   */
  function giveBack(lease) {
    if (lease.isHeld || !lease.isOver) return
    share.give(lease.bytes)
    keys.add(lease.keyId, -lease.bytes)
    lease.bytes = 0
  }
}

/**
 * What each key has taken. Where none is asked for all clients are alike, and what is open to those
 * without one takes next to nothing: neither is counted.
 */
class KeyParts {
  #bytesMax
  /** By key, without those that have nothing. @type {Map<string, number>} */
  #bytes = new Map()

  /** @param {number} bytesMax  Of one key. */
  constructor(bytesMax) {
    this.#bytesMax = bytesMax
  }

  /** @param {string | undefined} keyId  @param {number} bytes */
  hasRoom(keyId, bytes) {
    return keyId === undefined || (this.#bytes.get(keyId) ?? 0) + bytes <= this.#bytesMax
  }

  /** @param {string | undefined} keyId  @param {number} bytes  Negative: they are given back. */
  add(keyId, bytes) {
    if (keyId === undefined) return
    const held = (this.#bytes.get(keyId) ?? 0) + bytes
    if (held > 0) this.#bytes.set(keyId, held)
    else this.#bytes.delete(keyId)
  }
}

/**
 * How large a body may be: what its client says, or what is taken at most.
 *
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @param {number} bytesMax
 */
function bodyBytes(headers, bytesMax) {
  const said = headers['content-length']
  if (said === undefined) return headers['transfer-encoding'] === undefined ? 0 : bytesMax
  return Math.min(Number(said), bytesMax)
}
