/**
 * Whose page asks. A browser lets any page send simple requests to any server, and says in `Origin`
 * and `Sec-Fetch-Site` where the page is from. Programs send neither. Pure.
 */

import { isLoopbackHost } from './options.js'
import { Problem } from './problem.js'

/** @typedef {import('node:http').IncomingHttpHeaders} Headers */

/** Methods that change nothing: a foreign page cannot read their answers. */
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Why a request is refused for where it comes from; undefined where it is let in.
 *
 * @param {{ method: string, headers: Headers }} request
 * @param {boolean} isLocal  Only this machine can connect. Then `Host` must name it: else a foreign
 *   page could have a name of its own lead here.
 * @returns {Problem | undefined}
 */
export function foreignRequest({ method, headers }, isLocal) {
  if (isLocal && !isLoopbackHost(headers.host)) {
    return new Problem('wrong-host', 'the Host header must be localhost or a loopback address')
  }
  if (SAFE_METHODS.has(method)) return undefined
  if (headers['sec-fetch-site'] !== 'cross-site' && isOwnOrigin(headers)) return undefined
  return new Problem(
    'foreign-origin',
    `a page of ${headers.origin ?? 'another site'} may not change anything at ` +
      `${headers.host ?? 'this server'}: use this server's own page, or a program, which sends no ` +
      'Origin; a proxy in between must pass the header Host on as it came',
  )
}

/**
 * Whether `Origin`, where there is one, is the server that is asked: the same host by any scheme,
 * for what is in front of it may speak TLS. All names of loopback are one host.
 *
 * @param {Headers} headers
 * @param {boolean} [anyPort]  Pages come from another port of the same host.
 */
export function isOwnOrigin({ host, origin }, anyPort = false) {
  if (origin === undefined) return true
  // `null` is a page that hides where it is from.
  if (host === undefined || !URL.canParse(origin)) return false
  const page = new URL(origin)
  const own = `${page.protocol}//${host}`
  if (page.host === '' || !URL.canParse(own)) return false
  const server = new URL(own)
  const isSameName =
    page.hostname === server.hostname || (isLoopbackHost(page.host) && isLoopbackHost(host))
  return isSameName && (anyPort || page.port === server.port)
}
