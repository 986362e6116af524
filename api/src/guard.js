/** What every request passes before its route is asked: where it is from, and whose key it has. */

import { foreignRequest } from '@sandglass/common/origin'
import { Problem } from '@sandglass/common/problem'
import { authorize } from './auth.js'
import { databaseAway } from './store.js'

/** Routes whose answers last as long as a client, or its file. @type {ReadonlySet<string>} */
export const TRANSFERS = new Set(['/v1/stream', '/v1/export', '/v1/import'])

/** How often the key of what lasts is looked at, in milliseconds: mostly from memory. */
const KEY_LOOK_MS = 500

/** What a page of ours may load and do. */
export const CONTENT_POLICY =
  "default-src 'self'; img-src 'self' data:; style-src 'self'; object-src 'none'; " +
  "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const SECURITY_HEADERS = {
  'content-security-policy': CONTENT_POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
}

/** Routes that are of no use without the database. */
const NEEDS_DATABASE = /^\/v1\/(?!ingest|measurements|decode|import)/

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('./app.js').Parts} parts
 */
export function guard(app, { isDatabaseUp, isLoopback, keys, requireKeys }) {
  app.addHook('onRequest', async (request, reply) => {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) reply.header(name, value)
    const foreign = foreignRequest(request, isLoopback)
    if (foreign) throw foreign
  })
  // Later than the limit of requests a second, which is an `onRequest` of each route: to look a key
  // up costs more than to count.
  app.addHook('preParsing', async (request, reply) => {
    const route = request.routeOptions.url
    if (requireKeys) {
      await authorize(keys, request, route ?? request.url)
      // Whoever went while the key was looked up is served nothing: what is given back when an
      // answer closes would never be, as this one has closed already.
      if (reply.raw.destroyed) return reply.hijack()
      if (route !== undefined && TRANSFERS.has(route)) stayAuthorized(keys, request, reply, route)
    }
    if (NEEDS_DATABASE.test(route ?? '') && !isDatabaseUp()) throw databaseAway()
  })
}

/**
 * Breaks an answer off whose key was revoked, or has expired, since it began.
 *
 * @param {import('@sandglass/common/key-store').KeyStore} keys
 * @param {import('fastify').FastifyRequest} request
 * @param {import('fastify').FastifyReply} reply
 * @param {string} route
 */
function stayAuthorized(keys, request, reply, route) {
  const timer = setInterval(() => {
    authorize(keys, request, route).catch((error) => {
      // If the key cannot be looked up now, that says nothing about it.
      const isRefused = error instanceof Problem && (error.status === 401 || error.status === 403)
      if (isRefused) reply.raw.destroy()
    })
  }, KEY_LOOK_MS)
  reply.raw.once('close', () => clearInterval(timer))
}
