// Saved dashboards over HTTP: kept as they are given, refused where they are no dashboards, and
// never overwritten by somebody who has not read what is there.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { createFakeStore } from './support/fake-store.js'
import { appOver } from './support/inject.js'

/** @type {import('fastify').FastifyInstance} */
let app
beforeAll(async () => {
  app = await appOver(createFakeStore())
})
afterAll(() => app.close())

/** @param {any} method  @param {string} url  @param {any} [body] */
async function send(method, url, body) {
  const headers = { host: '127.0.0.1:8080' }
  const response = await app.inject({ method, url, headers, payload: body })
  return { status: response.statusCode, body: response.body === '' ? undefined : response.json() }
}

const CHART = { title: 'Air', series: [{ sensor: 'hall', metric: 'air/co2' }] }
const HALL = { name: 'hall', range: '1d', charts: [CHART, { series: CHART.series }] }

test('a dashboard is kept as it was given, listed by name, replaced and deleted', async () => {
  const made = await send('POST', '/v1/dashboards', HALL)
  expect(made).toEqual({
    status: 201,
    body: { id: expect.any(String), ...HALL, changed: expect.any(Number) },
  })
  const path = `/v1/dashboards/${made.body.id}`
  expect((await send('GET', path)).body).toEqual(made.body)
  // In the order in which it is read, too.
  expect(JSON.stringify(made.body.charts[0])).toBe(JSON.stringify(CHART))
  const attic = (await send('POST', '/v1/dashboards', { name: 'attic', charts: [] })).body
  expect(attic).toEqual({ id: attic.id, name: 'attic', charts: [], changed: attic.changed })
  expect((await send('GET', '/v1/dashboards')).body.items).toEqual([
    { id: attic.id, name: 'attic', changed: attic.changed },
    { id: made.body.id, name: 'hall', changed: made.body.changed },
  ])
  const put = await send('PUT', path, { name: 'entrance', charts: [] })
  expect(put.body).toEqual({ ...put.body, name: 'entrance', charts: [] })
  expect(put.body.range).toBeUndefined()
  expect(put.body.changed).toBeGreaterThan(made.body.changed)
  expect((await send('DELETE', path)).status).toBe(204)
  const gone = await send('GET', path)
  expect([gone.status, gone.body.type]).toEqual([404, 'urn:sandglass:problem:unknown-dashboard'])
  expect((await send('PUT', path, HALL)).status).toBe(404)
  expect((await send('DELETE', path)).status).toBe(404)
})

test('what somebody changed meanwhile is not overwritten', async () => {
  const { body: read } = await send('POST', '/v1/dashboards', HALL)
  const path = `/v1/dashboards/${read.id}`
  const mine = await send('PUT', path, { ...HALL, name: 'mine', changed: read.changed })
  expect(mine.status).toBe(200)
  const theirs = await send('PUT', path, { ...HALL, name: 'theirs', changed: read.changed })
  expect([theirs.status, theirs.body.type]).toEqual([
    409,
    'urn:sandglass:problem:dashboard-changed',
  ])
  expect((await send('GET', path)).body.name).toBe('mine')
  const [first, second] = await Promise.all(
    ['a', 'b'].map((name) => send('PUT', path, { ...HALL, name, changed: mine.body.changed })),
  )
  expect([first.status, second.status].sort()).toEqual([200, 409])
})

test.each([
  ['no name', { charts: [] }],
  ['no series', { name: 'x', charts: [{ series: [] }] }],
  ['nine series', { name: 'x', charts: [{ series: Array(9).fill(CHART.series[0]) }] }],
  ['a range that is none', { name: 'x', range: '9z', charts: [] }],
  ['what it does not have', { name: 'x', charts: [], color: 'red' }],
])('%s is refused', async (_, body) => {
  expect((await send('POST', '/v1/dashboards', body)).status).toBe(400)
})

test('one has at most 64 KiB, and all together 8 MiB', async () => {
  const charts = Array.from({ length: 1_000 }, () => ({ ...CHART, title: 'x'.repeat(20) }))
  const large = { name: 'large', charts: charts.slice(0, 600) }
  const bytes = JSON.stringify(large).length
  expect(bytes).toBeLessThan(65_536)
  const tooLarge = await send('POST', '/v1/dashboards', { name: 'larger', charts })
  expect(tooLarge.status).toBe(413)
  let status = 201
  let count = 0
  while (status === 201 && count < 1_000) {
    status = (await send('POST', '/v1/dashboards', large)).status
    count += 1
  }
  expect(status).toBe(409)
  expect((count - 1) * bytes).toBeLessThan(8 * 1_024 * 1_024)
  expect((count + 1) * bytes).toBeGreaterThan(8 * 1_024 * 1_024)
  const { items } = (await send('GET', '/v1/dashboards')).body
  const [one] = items.filter((/** @type {any} */ { name }) => name === 'large')
  // What is no larger than before still replaces it.
  expect((await send('PUT', `/v1/dashboards/${one.id}`, large)).status).toBe(200)
})
