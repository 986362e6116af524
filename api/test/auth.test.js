import { request } from 'node:http'
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  jest,
  test,
} from '@jest/globals'
import { KeyStore, KeysAway, TooManyUnknownKeys } from '@sandglass/common/key-store'
import { createKey, SCOPES } from '@sandglass/common/keys'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { keyIn, scopeOf } from '../src/auth.js'
import { createFakeStore } from './support/fake-store.js'

/** @param {string[]} scopes  @param {string} [sensorId] */
const grant = (scopes, sensorId) => ({
  keyId: scopes.join(),
  name: `a key to ${scopes}`,
  scopes: new Set(scopes),
  sensorId,
  expiresMs: undefined,
})

/** @type {Record<string, ReturnType<typeof grant>>} */
const KEYS = {
  ...Object.fromEntries(SCOPES.map((scope) => [scope, grant([scope])])),
  all: grant([...SCOPES]),
  device: grant(['read', 'write'], '00000000-0000-0000-0000-000000000000'),
}

/** @type {any} */
const keys = {
  unasked: 0,
  /** @param {string} text */
  async find(text) {
    if (text === 'away') throw new KeysAway('away')
    if (text === 'flood') throw new TooManyUnknownKeys('flood')
    return KEYS[text]
  },
  list: async () => Object.values(KEYS).map((one) => ({ ...one, grant: () => one })),
  create: async () => ({ keyId: 'id', text: 'sg_id_secret' }),
  revoke: async (/** @type {string} */ id) => id === 'id',
}

/** In whose name ingest was sent something. @type {string[]} */
const clients = []
const LIMITS = { requestsPerS: 0, bodyBytesMax: 1e6, importBytesMax: 1e6, streamsMax: 1 }

/** @returns {import('../src/app.js').Parts} */
const parts = () => ({
  store: createFakeStore({ rows: [{ metric: 'm', t: Date.now(), seq: 0, value: 1 }] }),
  isDatabaseUp: () => true,
  ingest: {
    stats: async () => ({}),
    post: async (_url, _headers, _body, client) => {
      clients.push(client)
      return { status: 200, type: 'application/json', retryAfter: undefined, body: '{}' }
    },
  },
  registry: new Registry(),
  limits: LIMITS,
  isLoopback: true,
  keys,
  claims: /** @type {any} */ ({ counts: {} }),
  requireKeys: true,
})

describe('with keys', () => {
  /** @type {Awaited<ReturnType<typeof buildApp>>} */
  let app
  beforeAll(async () => {
    app = await buildApp(parts())
  })
  afterAll(() => app.close())

  /** @param {string} method  @param {string} url  @param {string} [key] */
  const ask = (method, url, key) =>
    app.inject({
      method: /** @type {'GET'} */ (method),
      url,
      headers: { host: 'localhost', ...(key && { authorization: `Bearer ${key}` }) },
      ...(method === 'POST' && { payload: {} }),
    })

  test('every route that is described needs a key, or tells of no measurement', async () => {
    const { paths } = (await ask('GET', '/openapi.json')).json()
    const open = []
    for (const [path, methods] of Object.entries(paths)) {
      for (const method of Object.keys(methods)) {
        const url = path.replaceAll(/\{\w+\}/g, 's')
        const { statusCode } = await ask(method.toUpperCase(), url)
        if (statusCode !== 401) open.push(`${method} ${path}`)
      }
    }
    expect(open).toEqual(['get /health', 'get /ready'])
    for (const url of ['/metrics', '/v1/latest?x=']) {
      expect((await ask('GET', url)).statusCode).toBe(401)
    }
    for (const url of ['/write', '/api/v2/write']) {
      expect((await ask('POST', url)).statusCode).toBe(401)
    }
    for (const url of ['/', '/page.js', '/docs', '/openapi.json', '/ping']) {
      expect((await ask('GET', url)).statusCode).toBeLessThan(400)
    }
  })

  test.each([
    ['GET', '/v1/sensors', 'read'],
    ['GET', '/v1/sensors/s/latest', 'read'],
    ['GET', '/metrics', 'read'],
    ['POST', '/v1/query', 'read'],
    ['POST', '/v1/decode', 'read'],
    ['POST', '/v1/measurements', 'write'],
    ['POST', '/api/v2/write', 'write'],
    ['POST', '/v1/sensors', 'manage'],
    ['PATCH', '/v1/sensors/s', 'manage'],
    ['DELETE', '/v1/sensors/s', 'manage'],
    ['POST', '/v1/dead-letters/replay', 'manage'],
    ['GET', '/v1/keys', 'admin'],
    ['POST', '/v1/claims', 'admin'],
    ['GET', '/v1/claims', 'admin'],
    ['POST', '/v1/claims/id/reset', 'admin'],
    ['POST', '/v1/keys', 'admin'],
    ['DELETE', '/v1/keys/id', 'admin'],
    ['GET', '/v1/receivers', 'admin'],
    ['POST', '/v1/receivers', 'admin'],
    ['POST', '/v1/receivers/id/test', 'admin'],
    ['GET', '/v1/rules', 'read'],
    ['GET', '/v1/decoders', 'read'],
    ['PUT', '/v1/decoders/plant', 'admin'],
    ['DELETE', '/v1/decoders/plant', 'admin'],
    ['POST', '/v1/decode/expression', 'admin'],
    ['POST', '/v1/rules', 'manage'],
    ['POST', '/v1/alerts/id/acknowledge', 'manage'],
  ])('%s %s needs the scope %s, and no other one will do', async (method, url, scope) => {
    expect(scopeOf(method, url)).toBe(scope)
    for (const key of SCOPES) {
      const { statusCode } = await ask(method, url, key)
      if (key === scope) expect([401, 403]).not.toContain(statusCode)
      else expect(statusCode).toBe(403)
    }
    const refused = await ask(method, url, 'device')
    expect(refused.statusCode).toBe(403)
    expect(refused.json().detail).toMatch('over MQTT')
  })

  test('a claim key opens one door, which needs no other key', async () => {
    expect(scopeOf('POST', '/v1/claim')).toBeUndefined()
    expect(scopeOf('POST', '/v1/claims')).toBe('admin')
    expect((await ask('POST', '/v1/claim')).json().detail).toContain('sgc_')
  })

  test('a refusal says what to send; a database that is away is not a wrong key', async () => {
    const missing = await ask('GET', '/v1/sensors')
    expect(missing.headers['www-authenticate']).toMatch('Bearer')
    expect(missing.json()).toMatchObject({ status: 401, detail: expect.stringContaining('Bearer') })
    expect((await ask('GET', '/v1/sensors', 'stranger')).statusCode).toBe(401)
    expect((await ask('GET', '/v1/sensors', 'away')).statusCode).toBe(503)
    const flood = await ask('GET', '/v1/sensors', 'flood')
    expect([flood.statusCode, flood.headers['retry-after']]).toEqual([429, '1'])
    expect(flood.json().detail).toContain('npm run keys')
  })

  test('ingest hears in whose name something is sent', async () => {
    await ask('POST', '/v1/measurements', 'write')
    expect(clients.at(-1)).toBe('key write')
  })

  test('whoever has a key of whatever scope hears what it may do, and nobody else does', async () => {
    expect(scopeOf('GET', '/v1/access')).toBe('any')
    expect((await ask('GET', '/v1/access')).statusCode).toBe(401)
    expect((await ask('GET', '/v1/access', 'device')).statusCode).toBe(403)
    for (const scope of SCOPES) {
      const { keys_required: areRequired, key } = (await ask('GET', '/v1/access', scope)).json()
      expect([areRequired, key.name, key.scopes]).toEqual([true, `a key to ${scope}`, [scope]])
    }
    const open = await buildApp({ ...parts(), requireKeys: false })
    const response = await open.inject({ url: '/v1/access', headers: { host: 'localhost' } })
    expect(response.json()).toEqual({ keys_required: false, key: null })
    await open.close()
  })

  test('keys are made and told once, listed without secrets, and taken back', async () => {
    const make = (/** @type {object} */ payload) =>
      app.inject({
        method: 'POST',
        url: '/v1/keys',
        payload,
        headers: { host: 'localhost', authorization: 'Bearer admin' },
      })
    const made = await make({ name: 'n', scopes: ['read'], expires: '2100-01-01' })
    expect([made.statusCode, made.json()]).toEqual([201, { id: 'id', key: 'sg_id_secret' }])
    expect((await make({ name: 'n', scopes: ['root'] })).statusCode).toBe(400)
    expect(
      (await make({ name: 'n', scopes: ['read'], expires: '2000-01-01' })).json(),
    ).toMatchObject({ parameter: 'expires' })
    expect((await make({ name: 'n', scopes: ['write'], sensor: '..' })).json()).toMatchObject({
      parameter: 'sensor',
    })
    const { items } = (await ask('GET', '/v1/keys', 'admin')).json()
    expect(items).toHaveLength(Object.keys(KEYS).length)
    expect(JSON.stringify(items)).not.toContain('hash')
    expect((await ask('DELETE', '/v1/keys/id', 'admin')).statusCode).toBe(204)
    expect((await ask('DELETE', '/v1/keys/other', 'admin')).statusCode).toBe(404)
  })
})

test('the limit of requests counts those without a key, before one is looked up', async () => {
  let lookups = 0
  const counting = { ...keys, find: async () => void lookups++ }
  const app = await buildApp({ ...parts(), keys: counting, limits: { ...LIMITS, requestsPerS: 3 } })
  const codes = []
  for (let n = 0; n < 5; n++) {
    const headers = { host: 'localhost', authorization: 'Bearer stranger' }
    codes.push((await app.inject({ url: '/v1/sensors', headers })).statusCode)
  }
  expect([codes, lookups]).toEqual([[401, 401, 401, 429, 429], 3])
  await app.close()
})

test('a stream ends when its key is revoked, and not while keys cannot be looked up', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'setTimeout', 'queueMicrotask'] })
  let says = async () => /** @type {unknown} */ (KEYS.read)
  const app = await buildApp({ ...parts(), keys: { ...keys, find: () => says() } })
  try {
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    const headers = { authorization: 'Bearer read' }
    const response = await fetch(`${url}/v1/stream?sensor=s`, { headers })
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader()
    let hasEnded = false
    const ended = (async () => {
      while (!(await reader.read()).done);
    })().then(
      () => (hasEnded = true),
      () => (hasEnded = true),
    )
    const turn = () => new Promise((resolve) => setImmediate(resolve))
    for (const answer of [says, () => Promise.reject(new KeysAway('away'))]) {
      says = answer
      jest.advanceTimersByTime(10_000)
      for (let n = 0; n < 10; n++) await turn()
      expect(hasEnded).toBe(false)
    }
    says = async () => undefined
    jest.advanceTimersByTime(10_000)
    await ended
  } finally {
    jest.useRealTimers()
    await app.close()
  }
})

describe('what lasts', () => {
  const PATHS = ['/v1/stream?sensor=s', '/v1/export', '/v1/import?format=csv']
  /** Keys by id, as the database has them. @type {Map<string, any>} */
  const rows = new Map()
  const database = {
    keyspace: 'k',
    isUp: true,
    client: {
      /** @param {string} _query  @param {any[]} params */
      execute: async (_query, [id]) => ({ rows: rows.has(id) ? [rows.get(id)] : [] }),
    },
  }
  /** @type {Awaited<ReturnType<typeof buildApp>>} */
  let app
  beforeEach(async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'setTimeout', 'queueMicrotask'] })
    // Nothing of an export is ever there.
    const store = { ...parts().store, layouts: () => new Promise(() => {}) }
    app = await buildApp({ ...parts(), store, keys: new KeyStore({ database }) })
  })
  afterEach(async () => {
    jest.useRealTimers()
    await app.close()
  })

  /** Begins what lasts with a key; until all of it has begun. @param {any} [about] */
  async function begin(about) {
    const { keyId, hash, text } = createKey()
    rows.set(keyId, { key_id: keyId, hash, name: 'n', scopes: ['read', 'write'], ...about })
    const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
    /** @type {Set<string>} */
    const open = new Set()
    let begun = 0
    app.server.on('request', ({ url = '' }, response) => {
      begun++
      open.add(url)
      response.once('close', () => open.delete(url))
    })
    for (const path of PATHS) {
      const method = path.includes('import') ? 'POST' : 'GET'
      const headers = { authorization: `Bearer ${text}`, host: 'localhost' }
      const asked = request({ port, host: '127.0.0.1', path, method, headers })
      asked.on('error', () => {})
      if (method === 'GET') asked.end()
      else asked.write('sensor,t,x\na,1767225600000,1\n')
    }
    await turnUntil(() => begun === PATHS.length)
    for (let n = 0; n < 20; n++) await turn()
    return { keyId, open }
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  /** @param {() => boolean} holds */
  async function turnUntil(holds) {
    while (!holds()) await turn()
  }
  /** @param {number} ms  Of the simulated clock. */
  async function pass(ms) {
    for (let passedMs = 0; passedMs < ms; passedMs += 100) {
      jest.advanceTimersByTime(100)
      for (let n = 0; n < 10; n++) await turn()
    }
  }

  test('ends within ten seconds when its key is revoked', async () => {
    const { keyId, open } = await begin()
    await pass(300)
    expect(open.size).toBe(PATHS.length)
    rows.delete(keyId)
    await pass(10_000)
    expect([...open]).toEqual([])
  })

  test('ends within a second when its key has expired', async () => {
    const { open } = await begin({ expires: new Date(Date.now() + 12_300) })
    await pass(12_200)
    expect(open.size).toBe(PATHS.length)
    await pass(1_000)
    expect([...open]).toEqual([])
  })
})

test.each([
  ['Bearer k', 'k'],
  ['bearer  k', 'k'],
  ['Token k', 'k'],
  [`Basic ${Buffer.from('user:k:1').toString('base64')}`, 'k:1'],
  ['k', undefined],
  ['', undefined],
  [undefined, undefined],
])('%p holds the key %p', (header, key) => expect(keyIn(header)).toBe(key))
