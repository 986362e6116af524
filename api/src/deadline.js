/** Work that is given up when it takes too long, or when nobody waits for it any more. */

import { databaseAway } from './store.js'

/**
 * How long a request that asks the database may take, in milliseconds. A client hears within two
 * seconds that the database is lost; this is less by the time that an answer travels.
 */
export const DEADLINE_MS = 1_800

/**
 * @template T
 * @param {import('fastify').FastifyReply} reply
 * @param {(signal: AbortSignal) => Promise<T>} work  The signal is aborted when the work is no
 *   longer of use.
 * @param {number} [deadlineMs]
 * @returns {Promise<T>}
 * @throws {import('@sandglass/common/problem').Problem}  `database-away` when it takes too long.
 */
export async function withinDeadline(reply, work, deadlineMs = DEADLINE_MS) {
  const controller = new AbortController()
  const gone = () => controller.abort()
  reply.raw.once('close', gone)
  /** @type {NodeJS.Timeout | undefined} */
  let timer
  const tooLate = new Promise((_, reject) => {
    timer = setTimeout(() => {
      controller.abort()
      reject(databaseAway())
    }, deadlineMs)
  })
  try {
    return await /** @type {Promise<T>} */ (Promise.race([work(controller.signal), tooLate]))
  } finally {
    clearTimeout(timer)
    reply.raw.off('close', gone)
  }
}
