import { KIND } from '@sandglass/common/measurement'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { databaseAway } from '../src/store.js'
import { createFakeStore, NO_KEYS } from './support/fake-store.js'

/** @typedef {Parameters<import('../src/store.js').Store['rows']>} RowsOf */

const HOST = { host: '127.0.0.1:8080' }
const T = 1_767_225_600_000

/** @param {import('../src/store.js').Store} store */
const build = (store) =>
  buildApp({
    store,
    isDatabaseUp: () => true,
    ingest: /** @type {any} */ ({}),
    registry: new Registry(),
    limits: { requestsPerS: 0, bodyBytesMax: 1_024, importBytesMax: 1e6, streamsMax: 2 },
    isLoopback: true,
    ...NO_KEYS,
  })

const many = Array.from({ length: 12_000 }, (_, index) => ({
  metric: 'm',
  t: T + index,
  seq: 0,
  kind: KIND.number,
  value: index / 2,
}))

test('all rows come, oldest first, more than one page of them', async () => {
  const app = await build(createFakeStore({ rows: many }))
  const response = await app.inject({ url: '/v1/export?sensor=s', headers: HOST })
  expect(response.headers['content-type']).toBe('text/csv; charset=utf-8')
  const lines = response.body.trim().split('\n')
  expect(lines[0]).toBe('sensor,metric,t,v,kind')
  // What is known of the sensor comes before its rows.
  expect(lines[1]).toBe('s,,,"{""retention"":""30d""}",about')
  expect(lines.slice(2)).toEqual(many.map(({ t, value }) => `s,m,${t},${value},number`))
  await app.close()
})

test('range, metric and sensors are those that are asked for', async () => {
  const rows = [
    { metric: 'a', t: T, seq: 0, kind: KIND.number, value: 1 },
    { metric: 'b', t: T, seq: 0, kind: KIND.text, value: 'x "y", z' },
    { metric: 'b', t: T + 5, seq: 1, kind: KIND.integer, value: 2n ** 62n },
  ]
  const app = await build(createFakeStore({ rows }))
  const ask = async (/** @type {string} */ query) =>
    (await app.inject({ url: `/v1/export?format=ndjson&${query}`, headers: HOST })).body
  const about = '{"sensor":"s","about":{"retention":"30d"}}\n'
  expect(await ask('')).toBe(
    `${about}{"sensor":"s","metric":"a","t":${T},"v":1}\n` +
      `{"sensor":"s","metric":"b","t":${T},"v":"x \\"y\\", z"}\n` +
      `{"sensor":"s","metric":"b","t":${T + 5},"v":${2n ** 62n},"kind":"integer"}\n`,
  )
  expect(await ask(`metric=b&from=${T + 1}`)).toBe(
    `${about}{"sensor":"s","metric":"b","t":${T + 5},"v":${2n ** 62n},"kind":"integer"}\n`,
  )
  expect(await ask('type=none')).toBe('')
  await app.close()
})

test.each([
  ['sensor=nobody', 404],
  ['format=xml', 400],
  [`from=${T}&to=${T}`, 400],
  ['from=yesterday', 400],
])('%s is refused with %d before anything is sent', async (query, status) => {
  const app = await build(createFakeStore({ rows: many }))
  const response = await app.inject({ url: `/v1/export?${query}`, headers: HOST })
  expect(response.statusCode).toBe(status)
  expect(response.json().detail.length).toBeGreaterThan(10)
  await app.close()
})

test('a database that is away for a moment is waited for', async () => {
  const store = createFakeStore({ rows: many })
  const { rows } = store
  let failures = 2
  store.rows = async (/** @type {RowsOf} */ ...args) => {
    if (failures-- > 0) throw databaseAway()
    return /** @type {any} */ (rows)(...args)
  }
  const app = await build(store)
  const { body } = await app.inject({ url: '/v1/export?sensor=s', headers: HOST })
  expect(body.trim().split('\n')).toHaveLength(many.length + 2)
  await app.close()
})

test('a transfer that cannot go on is broken off, and does not look as if it were whole', async () => {
  const store = createFakeStore({ rows: many })
  const { rows } = store
  let reads = 0
  store.rows = async (/** @type {RowsOf} */ ...args) => {
    reads++
    if (reads > 1) throw new Error('a fault')
    return /** @type {any} */ (rows)(...args)
  }
  const app = await build(store)
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const response = await fetch(`${url}/v1/export?sensor=s`)
  await expect(response.text()).rejects.toThrow()
  await app.close()
})

test('exports beyond the limit are refused, and room is there again when one ends', async () => {
  const store = createFakeStore({ rows: many })
  const { rows } = store
  /** @type {(() => void)[]} */
  const waiting = []
  store.rows = async (/** @type {RowsOf} */ ...args) => {
    await new Promise((/** @type {(value?: undefined) => void} */ go) => waiting.push(go))
    return /** @type {any} */ (rows)(...args)
  }
  const app = await build(store)
  const url = `${await app.listen({ port: 0, host: '127.0.0.1' })}/v1/export?sensor=s`
  const controllers = Array.from({ length: 4 }, () => new AbortController())
  const responses = await Promise.all(controllers.map(({ signal }) => fetch(url, { signal })))
  expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  const refused = await fetch(url)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
  for (const controller of controllers) controller.abort()
  for (let tries = 0; tries < 100; tries++) {
    const { status, body } = await fetch(url)
    await body?.cancel()
    if (status === 200) break
    expect(tries).toBeLessThan(99)
  }
  for (const go of waiting) go()
  await app.close()
})

test('exports beyond the limit are refused, also those that come at once, or go at once', async () => {
  const store = createFakeStore({ rows: many })
  const { sensor, rows } = store
  store.sensor = async (id) => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    return sensor(id)
  }
  const stop = new AbortController()
  store.rows = async (/** @type {RowsOf} */ ...args) => {
    await new Promise((resolve) => stop.signal.addEventListener('abort', resolve))
    return /** @type {any} */ (rows)(...args)
  }
  const app = await build(store)
  const url = `${await app.listen({ port: 0, host: '127.0.0.1' })}/v1/export?sensor=`
  expect((await fetch(`${url}nobody`)).status).toBe(404)
  for (let tries = 0; tries < 4; tries++) {
    await expect(fetch(`${url}s`, { signal: AbortSignal.timeout(20) })).rejects.toThrow()
  }
  await new Promise((resolve) => setTimeout(resolve, 200))
  const asked = Array.from({ length: 10 }, () => fetch(`${url}s`, { signal: stop.signal }))
  const statuses = (await Promise.all(asked)).map(({ status }) => status)
  expect(statuses.sort()).toEqual([200, 200, 200, 200, ...Array(6).fill(503)])
  stop.abort()
  await app.close()
})

test('how long a transfer takes is not counted as how fast requests are answered', async () => {
  const app = await build(createFakeStore({ rows: many }))
  await app.inject({ url: '/v1/export?sensor=s', headers: HOST })
  const { body } = await app.inject({ url: '/metrics', headers: HOST })
  expect(body).toContain('sandglass_api_requests_total{route="/v1/export",status="200"} 1')
  expect(body).not.toMatch(/request_seconds.*v1.export/)
  await app.close()
})
