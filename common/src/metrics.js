/**
 * What a service tells about itself over HTTP: `/metrics` for Prometheus, `/health` for
 * supervisors, and any further JSON documents.
 */

import { once } from 'node:events'
import { createServer } from 'node:http'
import { collectDefaultMetrics, Registry } from 'prom-client'

/** @typedef {import('./options.js').Address} Address */

/**
 * A registry that already has the process's own metrics.
 *
 * @param {string} prefix  e.g. `sandglass_ingest_`.
 */
export function createRegistry(prefix) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, prefix })
  return registry
}

/**
 * Serves `/metrics`, `/health` and the documents given.
 *
 * @param {object} parts
 * @param {Address} parts.listen
 * @param {Registry} parts.registry
 * @param {() => { ok: boolean, [detail: string]: unknown }} parts.health  200 if `ok`, else 503.
 * @param {Record<string, () => unknown>} [parts.documents]  By path, e.g. `/stats`.
 * @returns {Promise<{ port: number, stop: () => Promise<void> }>}
 */
export async function serveMetrics({ listen, registry, health, documents = {} }) {
  const server = createServer(
    { requestTimeout: 5_000, headersTimeout: 5_000 },
    (request, response) => {
      void answer(request.url ?? '/')
        .then(({ status, type, body }) => {
          response
            .writeHead(status, { 'content-type': type, 'cache-control': 'no-store' })
            .end(body)
        })
        .catch((error) => response.writeHead(500).end(`${error}\n`))
    },
  )
  server.maxConnections = 64

  /** @param {string} url */
  async function answer(url) {
    const path = url.split('?')[0]
    if (path === '/metrics') {
      return { status: 200, type: registry.contentType, body: await registry.metrics() }
    }
    if (path === '/health') {
      const state = health()
      return json(state.ok ? 200 : 503, state)
    }
    const document = Object.hasOwn(documents, path) ? documents[path] : undefined
    return document ? json(200, document()) : json(404, { error: `no such path: ${path}` })
  }

  server.listen(listen.port, listen.host)
  await once(server, 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  return {
    port,
    stop: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** @param {number} status  @param {unknown} value */
function json(status, value) {
  return { status, type: 'application/json', body: `${JSON.stringify(value)}\n` }
}
