/**
 * Errors as RFC 9457 problem documents: what a client reads when a request cannot be answered.
 *
 * There are as many codes as there are different things for a client to do. The `type` is a stable
 * URN that ends in the code; `parameter` names what to mend, where one thing is at fault.
 */

/** The media type of every error body. */
export const PROBLEM_TYPE = 'application/problem+json; charset=utf-8'

/** What every `type` begins with; its code follows. */
export const PROBLEM_TYPES = 'urn:sandglass:problem:'

/** Seconds after which a client that was refused for want of something should come back. */
export const RETRY_AFTER_S = 1

/**
 * @typedef {object} ProblemCode
 * @property {number} status
 * @property {string} title  The same for every occurrence.
 */

/** All there are. @satisfies {Record<string, ProblemCode>} */
export const CODES = {
  'invalid-parameter': { status: 400, title: 'A parameter is not valid' },
  'invalid-body': { status: 400, title: 'The body is not valid' },
  'refused-items': { status: 400, title: 'Some items are no measurements' },
  'invalid-request': { status: 400, title: 'The request is not valid' },
  'no-key': { status: 401, title: 'A key is needed' },
  forbidden: { status: 403, title: 'The key does not allow this' },
  'foreign-origin': { status: 403, title: 'A page of another origin may not change anything' },
  'unknown-key': { status: 404, title: 'There is no such key' },
  'unknown-claim': { status: 404, title: 'There is no such claim key' },
  'too-many-rows': { status: 400, title: 'The answer needs too many rows' },
  'unknown-sensor': { status: 404, title: 'There is no such sensor' },
  'unknown-metric': { status: 404, title: 'Nothing is known of the metric' },
  'unknown-rule': { status: 404, title: 'There is no such alert rule' },
  'unknown-receiver': { status: 404, title: 'There is no such receiver' },
  'unknown-decoder': { status: 404, title: 'There is no such decoder' },
  'unknown-alert': { status: 404, title: 'There is no such alert' },
  'unknown-dashboard': { status: 404, title: 'There is no such dashboard' },
  'unknown-path': { status: 404, title: 'There is nothing at this path' },
  'wrong-method': { status: 405, title: 'The path has no such method' },
  'request-too-slow': { status: 408, title: 'The request came too slowly' },
  'sensor-exists': { status: 409, title: 'The sensor exists already' },
  'already-claimed': { status: 409, title: 'The claim key was used' },
  'dashboard-changed': { status: 409, title: 'The dashboard was changed meanwhile' },
  'receiver-in-use': { status: 409, title: 'Alert rules name the receiver' },
  'too-many-changes': { status: 409, title: 'Too many changes do not hold yet' },
  'body-too-large': { status: 413, title: 'The body is too large' },
  'unsupported-media-type': {
    status: 415,
    title: 'The media type is not one of those that are taken',
  },
  'wrong-host': { status: 421, title: 'The Host header names another server' },
  'too-many-requests': { status: 429, title: 'Too many requests' },
  'headers-too-large': { status: 431, title: 'The headers are too large' },
  internal: { status: 500, title: 'The service has a fault' },
  'database-away': { status: 503, title: 'The database does not answer' },
  'ingest-away': { status: 503, title: 'Ingest does not answer' },
  'too-much-held': { status: 503, title: 'Too much waits for the database' },
  'too-many-exports': { status: 503, title: 'Too many exports run' },
  'too-many-bodies': { status: 503, title: 'Too many bodies arrive at once' },
  'too-many-imports': { status: 503, title: 'Too many imports run' },
  'too-many-streams': { status: 503, title: 'All live streams are taken' },
}

/** @typedef {keyof typeof CODES} Code */

/** An answer that is not the one hoped for. Thrown anywhere in a request; sent by the app. */
export class Problem extends Error {
  /**
   * @param {Code} code
   * @param {string} detail  What is wrong with this very request, and what would be right.
   * @param {{ parameter?: string, retryAfterS?: number, members?: Record<string, unknown> }} [more]
   *   `members` are told besides, after the standard ones.
   */
  constructor(code, detail, { parameter, retryAfterS, members } = {}) {
    super(detail)
    this.name = 'Problem'
    this.code = code
    this.parameter = parameter
    this.members = members
    /** HTTP status. */
    this.status = CODES[code].status
    this.retryAfterS = retryAfterS ?? (this.status === 503 ? RETRY_AFTER_S : undefined)
  }

  /** The document, in the order in which it is read. */
  toJSON() {
    const { code, status, message, parameter, members } = this
    return {
      type: `${PROBLEM_TYPES}${code}`,
      title: CODES[code].title,
      status,
      detail: message,
      ...(parameter === undefined ? {} : { parameter }),
      ...members,
    }
  }
}

/**
 * A parameter of the query, the path or the body that is refused.
 *
 * @param {string} parameter  Its name, e.g. `limit`.
 * @param {string} detail  What it must be.
 */
export function invalid(parameter, detail) {
  return new Problem('invalid-parameter', `${parameter} ${detail}`, { parameter })
}
