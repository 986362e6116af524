/** What the page asks of the REST interface it was served from. */

/** An answer that is a problem document, or no answer at all. */
export class RestError extends Error {
  /**
   * @param {number} status  0 if there was no answer.
   * @param {string} code
   * @param {string} detail
   * @param {string} [parameter]
   */
  constructor(status, code, detail, parameter) {
    super(detail)
    this.status = status
    /** What is at fault, where it is one thing. */
    this.parameter = parameter
    /** The last part of the problem's type, e.g. `database-away`. */
    this.code = code
  }
}

/** Longest that the page waits for an answer, in milliseconds: a bit more than the api itself. */
const ANSWER_MS_MAX = 12_000

/** An integer that a double would round. */
const LONG_INTEGER = /[:[,]-?\d{16,}[,}\]]/

export class Rest {
  #keyring

  /** @param {import('./keyring.js').Keyring} keyring */
  constructor(keyring) {
    this.#keyring = keyring
  }

  /** Whether requests carry a key, which a plain link cannot. */
  get hasKey() {
    return this.#keyring.key !== undefined
  }

  /**
   * @param {string} path  Relative to the page, with its query.
   * @param {AbortSignal} signal
   * @returns {Promise<any>}
   * @throws {RestError}
   */
  async get(path, signal) {
    return this.#json(path, { signal })
  }

  /**
   * @param {'POST' | 'PATCH' | 'PUT'} method
   * @param {string} path
   * @param {unknown} body  Sent as JSON.
   * @param {AbortSignal} signal
   * @returns {Promise<any>}
   * @throws {RestError}
   */
  async send(method, path, body, signal) {
    const headers = { 'content-type': 'application/json' }
    return this.#json(path, { method, headers, body: JSON.stringify(body), signal })
  }

  /** @param {string} path  @param {AbortSignal} signal  @throws {RestError} */
  async remove(path, signal) {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS_MAX)])
    await this.open(path, { method: 'DELETE', signal: limited })
  }

  /**
   * A whole answer as a file, however long it takes.
   *
   * @param {string} path
   * @param {AbortSignal} signal
   * @throws {RestError}
   */
  async file(path, signal) {
    const response = await this.open(path, { signal })
    try {
      return await response.blob()
    } catch {
      throw away()
    }
  }

  /**
   * What a request that is not made here has to carry; asks for a key where one is needed.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<Record<string, string>>}
   * @throws {RestError}
   */
  async authorization(signal) {
    await this.get('v1/access', signal)
    const { key } = this.#keyring
    return key === undefined ? {} : { authorization: `Bearer ${key}` }
  }

  /** @param {string} path  @param {RequestInit & { signal: AbortSignal }} options */
  async #json(path, { signal, ...options }) {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS_MAX)])
    const response = await this.open(path, { ...options, signal: limited })
    try {
      return parseJson(await response.text())
    } catch {
      throw away()
    }
  }

  /**
   * An answer that is good, its body still to be read; asks for a key where one is needed.
   *
   * @param {string} path
   * @param {RequestInit} options
   * @throws {RestError}
   */
  async open(path, options) {
    for (;;) {
      const { key } = this.#keyring
      const response = await this.#fetch(path, options, key)
      if (response.ok) return response
      const problem = await response.json().catch(() => ({}))
      const code = String(problem.type ?? '')
        .split(':')
        .at(-1)
      const detail = problem.detail ?? `The api answers with status ${response.status}.`
      if (response.status !== 401) {
        throw new RestError(response.status, String(code), detail, problem.parameter)
      }
      const other = await this.#keyring.ask(key, detail)
      if (other === undefined) throw new RestError(401, String(code), 'A key is needed.')
    }
  }

  /** @param {string} path  @param {RequestInit} options  @param {string | undefined} key */
  async #fetch(path, options, key) {
    const headers = new Headers(options.headers)
    if (key !== undefined) headers.set('authorization', `Bearer ${key}`)
    try {
      return await fetch(path, { ...options, headers })
    } catch {
      throw away()
    }
  }
}

function away() {
  return new RestError(0, 'api-away', 'The api does not answer.')
}

/** JSON in which an integer of 64 bits keeps all its digits. @param {string} text */
export function parseJson(text) {
  if (!LONG_INTEGER.test(text)) return JSON.parse(text)
  /** @param {string} _key  @param {unknown} value  @param {{ source?: string }} [context] */
  const exact = (_key, value, context) =>
    typeof value === 'number' && /^-?\d{16,}$/.test(context?.source ?? '')
      ? BigInt(/** @type {string} */ (context?.source))
      : value
  return JSON.parse(text, /** @type {any} */ (exact))
}

/** @param {string} sensor  Name or id. */
export function sensorPath(sensor) {
  return `v1/sensors/${encodeURIComponent(sensor)}`
}
