/** The application over a store in memory, asked one question without a port. */

import { Registry } from 'prom-client'
import { buildApp } from '../../src/app.js'
import { NO_KEYS } from './fake-store.js'

/** @type {import('../../src/app.js').Limits} */
const LIMITS = { requestsPerS: 0, bodyBytesMax: 1_024, importBytesMax: 1e6, streamsMax: 2 }

/**
 * @param {import('../../src/store.js').Store} store
 * @param {string} url
 */
export async function inject(store, url) {
  const app = await buildApp({
    store,
    isDatabaseUp: () => true,
    ingest: /** @type {any} */ ({}),
    registry: new Registry(),
    limits: LIMITS,
    isLoopback: true,
    ...NO_KEYS,
  })
  try {
    return await app.inject({ url, headers: { host: '127.0.0.1:8080' } })
  } finally {
    await app.close()
  }
}
