/** The application over a store in memory, without a port. */

import { Registry } from 'prom-client'
import { buildApp } from '../../src/app.js'
import { NO_KEYS } from './fake-store.js'

/** @type {import('../../src/app.js').Limits} */
const LIMITS = { requestsPerS: 0, bodyBytesMax: 1_048_576, importBytesMax: 1e6, streamsMax: 2 }

/**
 * Whoever asks needs no key.
 *
 * @param {import('../../src/store.js').Store} store
 * @param {any} [ingest]  What is asked of it.
 */
export function appOver(store, ingest = {}) {
  return buildApp({
    store,
    isDatabaseUp: () => true,
    ingest,
    registry: new Registry(),
    limits: LIMITS,
    isLoopback: true,
    ...NO_KEYS,
  })
}

/**
 * Asks it one question.
 *
 * @param {import('../../src/store.js').Store} store
 * @param {string} url
 */
export async function inject(store, url) {
  const app = await appOver(store)
  try {
    return await app.inject({ url, headers: { host: '127.0.0.1:8080' } })
  } finally {
    await app.close()
  }
}
