// Answers with values say what these mean.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import { Registry } from 'prom-client'
import { buildApp } from '../../src/app.js'
import { createFakeStore, NO_KEYS } from '../support/fake-store.js'

const T = 1_767_225_600_000
const LIMITS = { requestsPerS: 0, bodyBytesMax: 1_048_576, importBytesMax: 1e6, streamsMax: 2 }
const HOST = { host: 'localhost' }

const rows = ['temperature', 'humidity', 'spins'].map((metric, at) => ({
  metric,
  t: T + at,
  seq: 0,
  kind: 1,
  value: 20 + at,
}))

const TEMPERATURE = {
  unit: 'Cel',
  symbol: '°C',
  label: 'Air',
  decimals: 1,
  expected_min: -20,
  expected_max: 40,
}
const HUMIDITY = { unit: '%RH', symbol: '% RH' }

describe('what numbers mean', () => {
  /** @type {Awaited<ReturnType<typeof buildApp>>} */
  let app
  beforeAll(async () => {
    const store = createFakeStore({ rows })
    const { symbol, ...said } = TEMPERATURE
    await store.putMetricOfType('room', 'temperature', said)
    await store.updateSensor(sensorId('s'), { type: 'room' })
    store.tellUnit(sensorId('s'), 'humidity', HUMIDITY.unit)
    const other = { id: sensorId('bare'), name: 'bare', type: undefined, unit: undefined }
    await store.putSensor({ ...other, tags: {}, hidden: false, createdMs: 1 })
    app = await buildApp({
      store,
      isDatabaseUp: () => true,
      ingest: /** @type {any} */ ({}),
      registry: new Registry(),
      limits: LIMITS,
      isLoopback: true,
      ...NO_KEYS,
    })
  })
  afterAll(() => app.close())

  /** @param {string} url */
  const get = async (url) => (await app.inject({ url, headers: HOST })).json()
  /** @param {object} payload */
  const query = async (payload) =>
    (await app.inject({ method: 'POST', url: '/v1/query', headers: HOST, payload })).json().groups

  test('is told with the newest values; nothing is where nothing is known', async () => {
    const items = [
      { metric: 'temperature', t: T, v: 20, received: T, ...TEMPERATURE },
      { metric: 'humidity', t: T + 1, v: 21, received: T + 1, ...HUMIDITY },
      { metric: 'spins', t: T + 2, v: 22, received: T + 2 },
    ]
    expect((await get('/v1/sensors/s/latest')).items).toEqual(items)
    const all = items.map((one) => ({ sensor: 's', id: sensorId('s'), ...one }))
    expect((await get('/v1/latest')).items).toEqual(all)
  })

  test('is told with a series', async () => {
    const range = `from=${T}&to=${T + 60_000}&step=1m`
    const one = await get(`/v1/sensors/s/series?metric=temperature&${range}`)
    expect(one).toMatchObject(TEMPERATURE)
    const none = await get(`/v1/sensors/s/series?metric=spins&${range}`)
    expect(Object.keys(none)).toEqual([
      ...['sensor', 'metric', 'from', 'to', 'step', 'resolution', 'items'],
    ])
  })

  test('is told of a group as far as all of its series agree', async () => {
    const asked = { metrics: ['temperature', 'humidity'], from: `${T}`, to: `${T + 60_000}` }
    const each = await query({ ...asked, sensors: ['s'] })
    expect(each).toMatchObject([TEMPERATURE, HUMIDITY])
    const [both] = await query({ ...asked, sensors: ['s'], group: 'sensor' })
    expect(both).not.toHaveProperty('unit')
    const bare = { ...asked, metrics: ['temperature'], sensors: ['s', 'bare'], group: 'metric' }
    expect((await query(bare))[0]).not.toHaveProperty('unit')
    const [alone] = await query({ ...bare, sensors: ['s'] })
    expect(alone).toMatchObject(TEMPERATURE)
  })
})
