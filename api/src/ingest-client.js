/** Asks ingest how it is, and hands it what is to be stored: it alone writes measurements. */

import { CLIENT_HEADER, KEPT_HEADER } from '@sandglass/common/bodies'
import { Problem } from '@sandglass/common/problem'

/** How long ingest may take to answer, in milliseconds: for its counts, and for what it stores. */
const STATS_MS_MAX = 1_000
const STORE_MS_MAX = 30_000

/** Headers of a request that ingest needs to understand its body. */
const HEADERS = ['content-type', 'content-encoding']

/** Ingest never sends anybody elsewhere: who does is not ingest, and is not followed. */
const redirect = 'error'

/**
 * @typedef {object} Answer
 * @property {number} status
 * @property {string | undefined} type
 * @property {string | undefined} retryAfter
 * @property {string} [kept]  How many sensors keep their class, where the body cannot say it.
 * @property {string} body
 */

/**
 * @typedef {object} IngestClient
 * @property {() => Promise<Record<string, unknown>>} stats  Ingest's `/stats`.
 * @property {(url: string, headers: import('node:http').IncomingHttpHeaders,
 *   body: Buffer | undefined, client: string) => Promise<Answer>} post  To the same path there, in
 *   the name of a client; its answer.
 */

/**
 * @param {string} ingestUrl  Where ingest serves HTTP.
 * @returns {IngestClient}
 */
export function createIngestClient(ingestUrl) {
  return {
    async stats() {
      return away(async () => {
        const signal = AbortSignal.timeout(STATS_MS_MAX)
        const response = await fetch(new URL('/stats', ingestUrl), { signal, redirect })
        if (!response.ok) throw new Error(`status ${response.status}`)
        return /** @type {Record<string, unknown>} */ (await response.json())
      })
    },

    async post(url, headers, body, client) {
      return away(async () => {
        const response = await fetch(new URL(url, ingestUrl), {
          method: 'POST',
          redirect,
          signal: AbortSignal.timeout(STORE_MS_MAX),
          headers: Object.fromEntries([
            [CLIENT_HEADER, client],
            ...HEADERS.flatMap((name) => (headers[name] ? [[name, `${headers[name]}`]] : [])),
          ]),
          body: body ? new Uint8Array(body) : null,
        })
        return {
          status: response.status,
          type: response.headers.get('content-type') ?? undefined,
          retryAfter: response.headers.get('retry-after') ?? undefined,
          kept: response.headers.get(KEPT_HEADER) ?? undefined,
          body: await response.text(),
        }
      })
    },
  }
}

/**
 * @template T
 * @param {() => Promise<T>} ask
 * @returns {Promise<T>}
 * @throws {Problem}  `ingest-away`
 */
async function away(ask) {
  try {
    return await ask()
  } catch (error) {
    const problem = new Problem('ingest-away', 'ingest does not answer now: is it running?')
    problem.cause = error
    throw problem
  }
}
