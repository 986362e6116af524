import { describe, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import { scopeOf } from '../src/auth.js'
import { OPEN_MAX } from '../src/deletions.js'
import { createFakeStore } from './support/fake-store.js'
import { appOver } from './support/inject.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NOW = Date.now()
const T = Math.floor(NOW / DAY_MS) * DAY_MS - 2 * DAY_MS
const OLD = T - 100 * DAY_MS

const rows = [OLD + 1_800_000, T, T + 1, T + DAY_MS].flatMap((t) =>
  ['a', 'b'].map((metric) => ({ metric, t, seq: 0, kind: 1, value: 1 })),
)

/** @param {string} query  @param {Partial<ReturnType<typeof createFakeStore>>} [more] */
async function ask(query, more = {}) {
  const store = Object.assign(createFakeStore({ rows }), more)
  const app = await appOver(store)
  const headers = { host: '127.0.0.1:8080' }
  const answer = await app.inject({
    method: 'DELETE',
    url: `/v1/sensors/s/measurements?${query}`,
    headers,
  })
  const location = String(answer.headers.location)
  const job = await app.inject({ url: location, headers })
  const list = await app.inject({ url: '/v1/sensors/s/deletions', headers })
  await app.close()
  return { status: answer.statusCode, body: answer.json(), job: job.json(), list: list.json() }
}

describe('DELETE /v1/sensors/{sensor}/measurements', () => {
  test('asks for a deletion, which its address shows', async () => {
    const { status, body, job, list } = await ask(`metric=b&metric=a&from=${T}&to=${T + 1}`)
    expect(status).toBe(202)
    expect(body).toMatchObject({
      state: 'asked',
      metrics: ['a', 'b'],
      from: T,
      to: T + 1,
      gone: null,
    })
    expect(body.asked).toBeGreaterThanOrEqual(NOW)
    expect(job).toEqual(body)
    expect(list).toEqual({ items: [body] })
  })

  test('says of a dry run what would go, and asks for nothing', async () => {
    const { status, body, list } = await ask(`metric=a&from=${T}&to=${T + DAY_MS}&dry_run=true`)
    expect(status).toBe(200)
    expect(body).toEqual({
      dry_run: true,
      metrics: ['a'],
      from: T,
      to: T + DAY_MS,
      complete: true,
      rows: 2,
      items: [{ metric: 'a', rows: 2, first: T, last: T + 1 }],
    })
    expect(list.items).toEqual([])
  })

  test.each([
    ['', 'metric'],
    [`from=${T + 1}&to=${T}`, 'from'],
    ['metric=', 'metric'],
    ['dry_run=true', 'metric'],
  ])('refuses %s', async (query, parameter) => {
    const { status, body } = await ask(query)
    expect([status, body.parameter]).toEqual([400, parameter])
  })

  test('needs the right to manage', () => {
    expect(scopeOf('DELETE', '/v1/sensors/:sensor/measurements')).toBe('manage')
    expect(scopeOf('GET', '/v1/sensors/:sensor/deletions/:deletion')).toBe('read')
  })

  test('is refused while too many are not over', async () => {
    const open = Array.from({ length: OPEN_MAX }, () => /** @type {any} */ ({ state: undefined }))
    const { status } = await ask('from=0', { deletions: async () => open })
    expect(status).toBe(409)
    const over = open.map(() => /** @type {any} */ ({ state: { phase: 'done' } }))
    expect((await ask('from=0', { deletions: async () => over })).status).toBe(202)
  })

  test('may cut through what is stored row by row, and not through sums whose rows are gone', async () => {
    const rollups = { doneMs: Math.floor(NOW / HOUR_MS) * HOUR_MS, markedHours: new Set() }
    const { rollupProgress, markedHours, hours, dayCounts } = createFakeStore({ rows, rollups })
    const summedUp = { rollupProgress, markedHours, hours, dayCounts }
    const old = OLD - (OLD % DAY_MS)
    const statusOf = async (/** @type {string} */ query) => (await ask(query, summedUp)).status
    expect(await statusOf(`from=${T + 1}`)).toBe(202)
    expect(await statusOf(`from=${old}&to=${old + HOUR_MS}`)).toBe(202)
    const { status, body } = await ask(`to=${old + 1}`, summedUp)
    expect([status, body.parameter]).toEqual([400, 'to'])
    expect(body.detail).toContain(new Date(old + HOUR_MS).toISOString())
    expect(await statusOf(`from=${old + 60_000}`)).toBe(400)
    // Of an hour without rows there is nothing to cut.
    expect(await statusOf(`from=${old + 3 * HOUR_MS + 1}`)).toBe(202)
  })

  test('is refused of a sensor that is not there', async () => {
    expect((await ask('from=0', { isKnown: async () => false })).status).toBe(404)
  })
})

describe('DELETE /v1/sensors/{sensor}?measurements=true', () => {
  /** @param {string} query  @param {any} [sensor] */
  async function remove(query, sensor = { id: sensorId('s'), name: 's', tags: {}, hidden: false }) {
    const store = Object.assign(createFakeStore({ rows }), {
      sensor: async () => sensor,
      isKnown: async () => false,
    })
    const app = await appOver(store)
    const headers = { host: '127.0.0.1:8080' }
    const answer = await app.inject({ method: 'DELETE', url: `/v1/sensors/s?${query}`, headers })
    const job = await app.inject({ url: String(answer.headers.location), headers })
    await app.close()
    return { status: answer.statusCode, body: answer.json(), job: job.json() }
  }

  test('asks for it, and its address shows it when the sensor is gone', async () => {
    const { status, body, job } = await remove('measurements=true')
    expect([status, body.sensor, body.metrics, body.state]).toEqual([202, true, null, 'asked'])
    expect(job).toEqual(body)
  })

  test('takes one that is hidden, and none that is not there', async () => {
    const hidden = { id: sensorId('s'), name: 's', tags: {}, hidden: true }
    expect((await remove('measurements=true', hidden)).status).toBe(202)
    expect((await remove('measurements=true', null)).status).toBe(404)
  })

  test('counts in a dry run, which needs it', async () => {
    const { status, body } = await remove('measurements=true&dry_run=true')
    expect([status, body.dry_run]).toEqual([200, true])
    const refused = await remove('dry_run=true')
    expect([refused.status, refused.body.parameter]).toEqual([400, 'dry_run'])
  })
})
