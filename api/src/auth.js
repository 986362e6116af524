/** Who may ask what: keys, in the header `Authorization`. */

import { KeysAway, TooManyUnknownKeys } from '@sandglass/common/key-store'
import { Problem, RETRY_AFTER_S } from '@sandglass/common/problem'
import { databaseAway } from './store.js'

/** @typedef {import('@sandglass/common/keys').Scope} Scope */
/** What a request wants; any: a key of whatever scope. @typedef {Scope | 'any'} Wanted */
/** @typedef {import('@sandglass/common/keys').Grant} Grant */
/** @typedef {import('@sandglass/common/key-store').KeyStore} KeyStore */

/** What the keys of requests may do. @type {WeakMap<object, Grant>} */
const grants = new WeakMap()

/** Paths that tell nothing about anybody's measurements: the page itself, health, descriptions. */
const OPEN = /^\/(?!v1\/|v1$|metrics|write|api\/)/

/** Paths for which another scope counts than their method suggests. @type {[RegExp, Wanted][]} */
const SCOPES = [
  [/^\/v1\/access$/, 'any'],
  [/^\/v1\/(keys|claims|receivers)|^\/v1\/decode\/expression$/, 'admin'],
  [/^\/(v1\/measurements|v1\/import|api\/v2\/write|write)$/, 'write'],
  [/^\/v1\/(query|decode)$/, 'read'],
]

/**
 * The scope that a request needs; undefined where it needs no key.
 *
 * @param {string} method
 * @param {string} path
 * @returns {Wanted | undefined}
 */
export function scopeOf(method, path) {
  // Whoever has a claim key has no other one yet.
  if (OPEN.test(path) || path === '/v1/claim') return undefined
  const [, special] = SCOPES.find(([pattern]) => pattern.test(path)) ?? []
  if (special) return special
  if (method === 'GET' || method === 'HEAD') return 'read'
  // They decide which topics carry measurements, and so what the key of a device may publish.
  return path.startsWith('/v1/decoders') ? 'admin' : 'manage'
}

/**
 * The key in a header: `Bearer KEY`; `Token KEY`, as InfluxDB's clients say it; or `Basic`, where
 * it is the password.
 *
 * @param {string | undefined} header
 */
export function keyIn(header) {
  const [, scheme, value] = /^(Bearer|Token|Basic) +(\S+)$/i.exec(header ?? '') ?? []
  if (scheme === undefined) return undefined
  if (scheme.toLowerCase() !== 'basic') return value
  const text = Buffer.from(value, 'base64').toString()
  return text.slice(text.indexOf(':') + 1)
}

/**
 * Lets a request pass, or says why not.
 *
 * @param {KeyStore} keys
 * @param {Pick<import('fastify').FastifyRequest, 'ip' | 'method' | 'headers'>} request
 * @param {string} path  Of the route, if it has one.
 * @throws {Problem}
 */
export async function authorize(keys, request, path) {
  const scope = scopeOf(request.method, path)
  if (scope === undefined) return
  const text = keyIn(request.headers.authorization)
  if (text === undefined) {
    throw new Problem('no-key', 'send a key: `Authorization: Bearer sg_…` (npm run keys makes one)')
  }
  const grant = await find(keys, text, request.ip)
  if (!grant) throw new Problem('no-key', 'there is no such key, or it has expired or was revoked')
  if (grant.sensorId !== undefined) {
    throw new Problem('forbidden', 'the key is of one device, which is served over MQTT')
  }
  if (scope !== 'any' && !grant.scopes.has(scope)) {
    throw new Problem('forbidden', `the key ${grant.name} may not do this: it needs ${scope}`)
  }
  grants.set(request, grant)
}

/** What the key of a request may do; undefined where none is asked for. @param {object} request */
export function grantOf(request) {
  return grants.get(request)
}

/** Whose request it is: a key's, else an address's. @param {{ ip: string }} request */
export function clientOf(request) {
  const grant = grants.get(request)
  return grant ? `key ${grant.keyId}` : request.ip
}

/** Whether a request may change what is known of sensors. @param {object} request */
export function mayManage(request) {
  return grants.get(request)?.scopes.has('manage') ?? true
}

/** @param {KeyStore} keys  @param {string} text  @param {string} address */
async function find(keys, text, address) {
  try {
    return await keys.find(text, address)
  } catch (error) {
    if (error instanceof KeysAway) throw databaseAway()
    if (error instanceof TooManyUnknownKeys) {
      throw new Problem(
        'too-many-requests',
        'too many keys that do not exist were sent: wait, and send one that `npm run keys` made',
        { retryAfterS: RETRY_AFTER_S },
      )
    }
    throw error
  }
}
