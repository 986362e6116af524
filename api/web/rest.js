/** What the page asks of the REST interface it was served from. */

/** An answer that is a problem document, or no answer at all. */
export class RestError extends Error {
  /**
   * @param {number} status  0 if there was no answer.
   * @param {string} code
   * @param {string} detail
   */
  constructor(status, code, detail) {
    super(detail)
    this.status = status
    /** The last part of the problem's type, e.g. `database-away`. */
    this.code = code
  }
}

/** Longest that the page waits for an answer, in milliseconds. */
const ANSWER_MS_MAX = 8_000

/**
 * @param {string} path  Relative to the page, with its query.
 * @returns {Promise<any>}
 * @throws {RestError}
 */
export async function get(path) {
  let response
  try {
    response = await fetch(path, { signal: AbortSignal.timeout(ANSWER_MS_MAX) })
  } catch {
    throw new RestError(0, 'api-away', 'The api does not answer.')
  }
  if (response.ok) return response.json()
  const problem = await response.json().catch(() => ({}))
  const code =
    String(problem.type ?? '')
      .split(':')
      .pop() ?? ''
  throw new RestError(response.status, code, problem.detail ?? `Status ${response.status}.`)
}

/** @param {string} sensor  Name or id. */
export function sensorPath(sensor) {
  return `v1/sensors/${encodeURIComponent(sensor)}`
}

/**
 * All measurements since a time, oldest first; at most what a chart can show.
 *
 * @param {string} sensor
 * @param {number} fromMs
 * @param {number} itemsMax
 * @param {() => boolean} isWanted  Asked between pages.
 */
export async function measurementsSince(sensor, fromMs, itemsMax, isWanted) {
  const items = []
  let cursor = ''
  do {
    const query = cursor ? `cursor=${cursor}` : `from=${fromMs}`
    const page = await get(`${sensorPath(sensor)}/measurements?${query}&limit=10000`)
    for (const item of page.items) items.push(item)
    cursor = page.next
  } while (cursor && items.length < itemsMax && isWanted())
  return items.reverse()
}
