// Clients that leave, whenever that is, leave nothing behind.

import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { createFakeStore, NO_KEYS } from './support/fake-store.js'

const LIMITS = { requestsPerS: 0, bodyBytesMax: 1e6, importBytesMax: 1e6, streamsMax: 4 }

/** @type {Awaited<ReturnType<typeof buildApp>>} */
let app
/** Connections of the server that are open. */
let open = 0
/** @type {import('node:net').Socket[]} */
let sockets = []

/** @param {Partial<import('../src/app.js').Parts>} [parts] */
async function start(parts) {
  const rows = [{ metric: 'a', t: 1_767_225_600_000, seq: 0, value: 1 }]
  app = await buildApp({
    store: createFakeStore({ rows }),
    isDatabaseUp: () => true,
    ingest: {
      stats: async () => ({}),
      post: async () => ({
        status: 200,
        type: 'application/json',
        retryAfter: undefined,
        body: '{"received":1,"stored":1,"refused":[]}',
      }),
    },
    registry: new Registry(),
    limits: LIMITS,
    isLoopback: true,
    ...NO_KEYS,
    ...parts,
  })
  app.server.on('connection', (socket) => {
    open++
    socket.once('close', () => open--)
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
}

beforeEach(() => {
  open = 0
  sockets = []
})
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  await app.close()
})

/** A connection that sends this. @param {string[]} requests */
function send(...requests) {
  const { port } = /** @type {import('node:net').AddressInfo} */ (app.server.address())
  const socket = connect(port, '127.0.0.1', () => {
    const lines = ['HTTP/1.1', 'host: localhost', 'authorization: Bearer k', '', ''].join('\r\n')
    for (const request of requests) socket.write(`${request} ${lines}`)
  })
  socket.on('error', () => {})
  socket.resume()
  sockets.push(socket)
}

/** All connections are reset; until the server knows. */
async function leave() {
  for (const socket of sockets) socket.resetAndDestroy()
  await until(() => open === 0)
}

/** @param {() => boolean | Promise<boolean>} holds */
async function until(holds) {
  const untilMs = performance.now() + 30_000
  while (!(await holds())) {
    if (performance.now() > untilMs) throw new Error(`did not happen: ${holds}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

const HEADERS = { host: 'localhost', authorization: 'Bearer k' }
const exported = async () =>
  (await app.inject({ url: '/v1/export?sensor=s', headers: HEADERS })).statusCode
const imported = async () => {
  const headers = { ...HEADERS, 'content-type': 'text/csv' }
  const payload = 'sensor,t,x\na,1767225600000,1\n'
  const url = '/v1/import?format=csv'
  return (await app.inject({ method: 'POST', url, headers, payload })).statusCode
}

describe('a client that leaves while its key is looked up', () => {
  /** Look-ups that wait. @type {(() => void)[]} */
  let lookups = []
  let asked = 0
  let isSlow = true
  const grant = { keyId: 'k', name: 'k', scopes: new Set(['read', 'write']) }
  const find = () => {
    asked++
    if (!isSlow) return Promise.resolve(grant)
    return new Promise((resolve) => lookups.push(() => resolve(grant)))
  }
  beforeEach(async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'setTimeout', 'queueMicrotask'] })
    asked = 0
    isSlow = true
    lookups = []
    await start({ keys: /** @type {any} */ ({ unasked: 0, find }), requireKeys: true })
  })
  afterEach(() => void jest.useRealTimers())

  test.each([
    'GET /v1/export?sensor=s',
    'POST /v1/import?format=csv&sensor=s',
    'GET /v1/stream?sensor=s',
  ])('by %s has no place, and its key is not looked up any more', async (request) => {
    for (let n = 0; n < 5; n++) send(request)
    await until(() => lookups.length === 5)
    await leave()
    isSlow = false
    for (const say of lookups) say()
    await new Promise((resolve) => setTimeout(resolve))
    expect([await exported(), await imported()]).toEqual([200, 200])
    const before = asked
    jest.advanceTimersByTime(60_000)
    expect(asked).toBe(before)
  })
})

describe('a client that leaves while an answer waits behind another', () => {
  beforeEach(() => start())

  test('has no place among exports any more', async () => {
    const one = 'GET /v1/export?sensor=s'
    send('GET /v1/stream?sensor=s', one, one, one, one)
    await until(async () => (await exported()) === 503)
    await leave()
    await until(async () => (await exported()) === 200)
  })

  test('has no place among streams any more', async () => {
    const one = 'GET /v1/stream?sensor=s'
    const streams = async () => {
      const { body } = await app.inject({ url: '/metrics', headers: HEADERS })
      return Number(/^sandglass_api_streams (\d+)$/m.exec(body)?.[1])
    }
    send(one, one, one)
    await until(async () => (await streams()) === 3)
    await leave()
    await until(async () => (await streams()) === 0)
  })
})
