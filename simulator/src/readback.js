/**
 * What the platform says it has, over REST. Waits for a platform that is away for a moment; what it
 * refuses for good ends the reading.
 */

import { setTimeout as delay } from 'node:timers/promises'

/** Measurements, and dead letters, of a page: as many as the api gives at once. */
const ROWS_AT_ONCE = 10_000
const LETTERS_AT_ONCE = 1_000
/** How long one answer may take, in milliseconds. */
const ANSWER_MS_MAX = 20_000
/** How long a platform that does not answer is asked again, and how often, in milliseconds. */
const PATIENCE_MS = 30_000
const RETRY_MS = 500

const UNKNOWN_SENSOR = 'urn:sandglass:problem:unknown-sensor'

/** @typedef {import('./compare.js').Stored} Stored */
/**
 * @typedef {object} Letter
 * @property {number} received  Milliseconds since the Unix epoch.
 * @property {string} topic
 * @property {string} client
 * @property {string} payload
 */

/** The platform does not answer, or not as it should. */
export class ReadbackError extends Error {}

export class Readback {
  #url
  #fetch
  #patienceMs

  /**
   * @param {object} options
   * @param {string} options.apiUrl
   * @param {typeof fetch} [options.fetch]
   * @param {number} [options.patienceMs]
   */
  constructor({ apiUrl, fetch: ask = fetch, patienceMs = PATIENCE_MS }) {
    this.#url = apiUrl
    this.#fetch = ask
    this.#patienceMs = patienceMs
  }

  /**
   * All measurements of a sensor, oldest first.
   *
   * @param {string} sensor
   * @param {{ fromMs?: number, toMs?: number }} range  First millisecond; first one after.
   * @returns {AsyncGenerator<Stored>}  None of a sensor that the platform does not know.
   */
  async *measurements(sensor, { fromMs, toMs }) {
    const path = `/v1/sensors/${encodeURIComponent(sensor)}/measurements`
    const question = { order: 'asc', limit: ROWS_AT_ONCE, from: fromMs, to: toMs }
    for await (const { metric, t, v } of this.#items(path, question)) {
      yield { metric, timeMs: t, value: v }
    }
  }

  /**
   * The time of the newest measurement of a sensor, in milliseconds since the Unix epoch.
   *
   * @param {string} sensor
   * @returns {Promise<number | undefined>}
   */
  async newestMs(sensor) {
    const path = `/v1/sensors/${encodeURIComponent(sensor)}/measurements`
    for await (const { t } of this.#items(path, { order: 'desc', limit: 1 })) return t
    return undefined
  }

  /** All dead letters there are, newest first. @returns {AsyncGenerator<Letter>} */
  letters() {
    return this.#items('/v1/dead-letters', { limit: LETTERS_AT_ONCE })
  }

  /**
   * The items of all pages; none if there is no such thing.
   *
   * @param {string} path
   * @param {Record<string, string | number | undefined>} question
   * @returns {AsyncGenerator<any>}
   */
  async *#items(path, question) {
    const known = Object.entries(question).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    )
    /** @type {string | null} */
    let cursor = null
    do {
      const query = new URLSearchParams(known)
      if (cursor !== null) query.set('cursor', cursor)
      const page = await this.#get(`${path}?${query}`)
      if (!page) return
      yield* page.items
      cursor = page.next
    } while (cursor !== null)
  }

  /** @param {string} path  @returns {Promise<{ items: any[], next: string | null } | undefined>} */
  async #get(path) {
    const url = new URL(path, this.#url)
    const untilMs = performance.now() + this.#patienceMs
    for (;;) {
      const trouble = await this.#try(url)
      if (!('trouble' in trouble)) return trouble.page
      if (trouble.isFinal || performance.now() > untilMs) {
        throw new ReadbackError(`${url.origin}${url.pathname}: ${trouble.trouble}`)
      }
      await delay(RETRY_MS)
    }
  }

  /**
   * @param {URL} url
   * @returns {Promise<{ page: any } | { trouble: string, isFinal: boolean }>}
   */
  async #try(url) {
    try {
      const response = await this.#fetch(url, { signal: AbortSignal.timeout(ANSWER_MS_MAX) })
      if (response.ok) return { page: await response.json() }
      const { type, detail } = await response.json().catch(() => ({ detail: '' }))
      if (type === UNKNOWN_SENSOR) return { page: undefined }
      const isFinal = response.status < 500 && response.status !== 429
      return { trouble: `${response.status} ${detail}`, isFinal }
    } catch (error) {
      const { message, cause } = /** @type {Error & { cause?: { code?: string } }} */ (error)
      return { trouble: cause?.code ?? message, isFinal: false }
    }
  }
}
