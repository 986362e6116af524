/**
 * Memory of request bodies: room for a body is taken before it is read, and given back when its
 * request is over. Without room the answer is 503 at once, however many come together.
 */

import { MemoryShare } from '@sandglass/common/memory-share'
import { Problem } from '@sandglass/common/problem'

/** What a byte of a body costs: as it comes, joined, understood, and handed on. */
const FACTOR = 4

/** Bodies that there is room for at least, whatever `--body-bytes-max` is. */
const BODIES_MIN = 8

/** Room for all bodies together where they are small, in bytes. */
const BYTES_MIN = 64 * 2 ** 20

/** Routes that never hold more of a body than a record. */
const STREAMED = new Set(['/v1/import'])

/** @param {number} bodyBytesMax  @returns {MemoryShare}  For all bodies together. */
export function bodyShare(bodyBytesMax) {
  return new MemoryShare(Math.max(BYTES_MIN, FACTOR * BODIES_MIN * bodyBytesMax))
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {MemoryShare} share
 * @param {number} bodyBytesMax
 */
export function limitBodyMemory(app, share, bodyBytesMax) {
  /** What requests have taken, in bytes. @type {WeakMap<object, number>} */
  const taken = new WeakMap()

  app.addHook('onRequest', async (request) => {
    if (STREAMED.has(request.routeOptions.url ?? '')) return
    const bytes = FACTOR * bodyBytes(request.headers, bodyBytesMax)
    if (!share.take(bytes)) {
      throw new Problem('too-many-bodies', 'too many bodies arrive at once: try again in a moment')
    }
    taken.set(request, bytes)
  })

  /** @param {object} request */
  const giveBack = async (request) => {
    share.give(taken.get(request) ?? 0)
    taken.delete(request)
  }
  app.addHook('onResponse', giveBack)
  app.addHook('onRequestAbort', giveBack)
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
