/** Asks ingest how it is. */

import { Problem } from './problem.js'

/** How long ingest may take to answer, in milliseconds. */
const ANSWER_MS_MAX = 1_000

/**
 * @param {string} ingestUrl  Where ingest serves HTTP.
 * @returns {() => Promise<Record<string, unknown>>}  Gives ingest's `/stats`.
 */
export function createIngestClient(ingestUrl) {
  const url = new URL('/stats', ingestUrl)
  return async () => {
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS_MAX) })
      if (!response.ok) throw new Error(`status ${response.status}`)
      return /** @type {Record<string, unknown>} */ (await response.json())
    } catch (error) {
      const problem = new Problem('ingest-away', 'ingest does not answer now: is it running?')
      problem.cause = error
      throw problem
    }
  }
}
