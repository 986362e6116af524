// What holds for every route: methods, encodings, and the types of what is sent.
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { createFakeStore, NO_KEYS } from './support/fake-store.js'

const HOST = { host: 'localhost' }
const LIMITS = { requestsPerS: 0, bodyBytesMax: 1_048_576, importBytesMax: 1e6, streamsMax: 2 }

const rows = Array.from({ length: 25 }, (_, index) => ({
  metric: index % 2 ? 'b' : 'a',
  t: 1_767_225_600_000 + index,
  seq: 0,
  value: index / 2,
}))

/** @param {import('light-my-request').Response} response @param {number} status */
function expectProblem(response, status) {
  expect([response.statusCode, response.headers['content-type']]).toEqual([
    status,
    expect.stringContaining('application/problem+json'),
  ])
  return response.json()
}

describe('every route', () => {
  /** @type {Awaited<ReturnType<typeof buildApp>>} */
  let app
  beforeAll(async () => {
    app = await buildApp({
      store: createFakeStore({ rows }),
      isDatabaseUp: () => true,
      ingest: /** @type {any} */ ({}),
      registry: new Registry(),
      limits: LIMITS,
      isLoopback: true,
      ...NO_KEYS,
    })
  })
  afterAll(() => app.close())

  /** @param {string} url @param {object} [more] */
  const ask = (url, more) => app.inject({ url, headers: HOST, ...more })

  test.each([
    ['PUT', '/v1/sensors/s', 'DELETE, GET, HEAD, PATCH'],
    ['DELETE', '/v1/sensors?limit=5', 'GET, HEAD, POST'],
    ['GET', '/v1/import', 'POST'],
    ['PUT', '/v1/sensors/a%2Fb/metrics', 'GET, HEAD'],
    ['QUERY', '/health', 'GET, HEAD'],
  ])('tells %s %s which methods there are', async (method, url, allowed) => {
    const response = await ask(url, { method })
    const problem = expectProblem(response, 405)
    expect(response.headers.allow).toBe(allowed)
    expect(problem.detail).toContain(allowed)
  })

  test('compresses long answers for those who ask for it, and no others', async () => {
    const url = '/v1/sensors/s/measurements'
    const plain = await ask(url)
    expect(plain.headers['content-encoding']).toBeUndefined()
    const headers = { ...HOST, 'accept-encoding': 'br, gzip' }
    const packed = await ask(url, { headers })
    expect(packed.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'accept-encoding' })
    expect(gunzipSync(packed.rawPayload).toString()).toBe(plain.body)
    const short = await ask('/health', { headers })
    expect([short.headers['content-encoding'], short.json().ok]).toEqual([undefined, true])
    const refused = await ask(url, { headers: { ...HOST, 'accept-encoding': 'gzip;q=0' } })
    expect(refused.headers['content-encoding']).toBeUndefined()
  })

  test('takes times of a body as numbers and as texts', async () => {
    const [first] = rows
    for (const from of [first.t, String(first.t), new Date(first.t).toISOString()]) {
      const body = { metrics: ['a'], from, to: first.t + 60_000 }
      const answer = (await ask('/v1/query', { method: 'POST', body })).json()
      expect([from, answer.from]).toEqual([from, first.t])
    }
  })

  test.each([
    ['POST', '/v1/sensors', { name: 'x', unit: false }, 'unit'],
    ['POST', '/v1/query', { metrics: ['a'], points: '10' }, 'points'],
    ['PUT', '/v1/sensors/s/metrics/a', { expected_min: true }, 'expected_min'],
  ])('takes %s %s with members of the right type only: %j', async (method, url, body, name) => {
    const problem = expectProblem(await ask(url, { method, body }), 400)
    expect([problem.type, problem.parameter]).toEqual(['urn:sandglass:problem:invalid-body', name])
  })
})
