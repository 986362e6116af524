// Answers with values say what these mean.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import { tableFromIPC } from 'apache-arrow'
import { createFakeStore } from '../support/fake-store.js'
import { appOver } from '../support/inject.js'

const T = 1_767_225_600_000
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

/** Ingest, which stores all. */
const post = async (
  /** @type {any} */ _to,
  /** @type {any} */ _headers,
  /** @type {any} */ body,
) => {
  const received = String(body).trim().split('\n').length
  const text = JSON.stringify({ received, stored: received, refused: [] })
  return { status: 200, type: 'application/json', retryAfter: undefined, body: text }
}

describe('what numbers mean', () => {
  /** @type {Awaited<ReturnType<typeof appOver>>} */
  let app
  const store = createFakeStore({ rows })
  beforeAll(async () => {
    const { symbol, ...said } = TEMPERATURE
    await store.putMetricOfType('room', 'temperature', said)
    await store.updateSensor(sensorId('s'), { type: 'room' })
    store.tellUnit(sensorId('s'), 'humidity', HUMIDITY.unit)
    const other = { id: sensorId('bare'), name: 'bare', type: undefined, unit: undefined }
    await store.putSensor({ ...other, tags: {}, hidden: false, createdMs: 1 })
    app = await appOver(store, { stats: async () => ({}), post })
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

  /** @param {string} query */
  const exported = async (query) =>
    (await app.inject({ url: `/v1/export?sensor=s&${query}`, headers: HOST })).body

  test('is told by an export before the rows of a sensor, and with each row if that is asked', async () => {
    const { symbol, ...said } = TEMPERATURE
    const metrics = { humidity: { told_unit: '%RH' }, temperature: said }
    const [first, ...others] = (await exported('format=ndjson')).trim().split('\n')
    expect(JSON.parse(first)).toEqual({
      sensor: 's',
      about: { retention: '30d', type: 'room', metrics },
    })
    expect(others.filter((line) => line.includes('unit'))).toEqual([])
    expect((await exported('format=csv')).split('\n')[0]).toBe('sensor,metric,t,v,kind')

    const lines = (await exported('format=ndjson&unit=true')).trim().split('\n').slice(1)
    const unitOf = (/** @type {any} */ { metric, unit }) => [metric, unit]
    expect(lines.map((line) => unitOf(JSON.parse(line)))).toEqual([
      ['temperature', 'Cel'],
      ['humidity', '%RH'],
      ['spins', undefined],
    ])
    const csv = (await exported('format=csv&unit=true')).trim().split('\n')
    expect(csv.filter((line) => !line.includes('about'))).toEqual([
      'sensor,metric,t,v,kind,unit',
      `s,temperature,${T},20,number,Cel`,
      `s,humidity,${T + 1},21,number,%RH`,
      `s,spins,${T + 2},22,number,`,
    ])
    const url = '/v1/export?sensor=s&format=arrow&unit=true'
    const table = tableFromIPC((await app.inject({ url, headers: HOST })).rawPayload)
    expect(table.schema.fields.at(-1)?.name).toBe('unit')
    expect(table.toArray().map(unitOf)).toEqual([
      ['temperature', 'Cel'],
      ['humidity', '%RH'],
      ['spins', ''],
    ])
    const about = JSON.parse((await exported('format=ndjson&metric=spins')).split('\n')[0])
    expect(about.about).not.toHaveProperty('metrics')
  })

  /** @param {string} format  @param {string} payload */
  async function imported(format, payload) {
    const url = `/v1/import?format=${format}`
    const headers = { ...HOST, 'content-type': 'text/csv' }
    const { body } = await app.inject({ method: 'POST', url, headers, payload })
    return JSON.parse(body.trim().split('\n').at(-1) ?? '')
  }

  test.each(['csv', 'ndjson'])(
    'is restored by an import of %s, also of one with units',
    async (format) => {
      const text = await exported(`format=${format}&unit=true`)
      const name = `copy-${format}`
      const copy = text
        .replaceAll(/^s,/gm, `${name},`)
        .replaceAll('"sensor":"s"', `"sensor":"${name}"`)
      expect(await imported(format, copy)).toMatchObject({ done: true, stored: 3, refused_rows: 0 })
      const id = sensorId(name)
      const known = async () =>
        Object.fromEntries(
          (await store.metricsOfSensor(id)).map(({ metric, said, device }) => [
            metric,
            { said, device },
          ]),
        )
      // What its type says is still said of the type alone, and the device may tell another unit.
      expect(await known()).toEqual({ humidity: { said: {}, device: '%RH' } })
      expect((await get(`/v1/sensors/${name}/metrics/temperature`)).unit).toBe('Cel')

      store.tellUnit(id, 'humidity', '%')
      await store.putMetricOfSensor(id, 'temperature', { label: 'mine' })
      await imported(format, copy)
      expect(await known()).toEqual({
        humidity: { said: {}, device: '%' },
        temperature: { said: { label: 'mine' }, device: undefined },
      })
    },
  )

  test('is restored with the sensor where its type says nothing', async () => {
    const said = { unit: 'bar', decimals: 2 }
    const about = { type: 'pump', metrics: { pressure: { ...said, told_unit: 'kPa' } } }
    const line = { sensor: 'moved', metric: 'pressure', t: T, v: 1 }
    await imported(
      'ndjson',
      [{ sensor: 'moved', about }, line].map((one) => JSON.stringify(one)).join('\n'),
    )
    expect(await get('/v1/sensors/moved/metrics/pressure')).toMatchObject({
      ...said,
      said: { sensor: said, device: { unit: 'kPa' } },
    })
    await store.putMetricOfSensor(sensorId('moved'), 'pressure', { unit: 'mbar' })
    await imported('ndjson', JSON.stringify({ sensor: 'moved', about }))
    expect((await get('/v1/sensors/moved/metrics/pressure')).unit).toBe('mbar')
  })

  test.each([
    ['about.metrics.a.decimals', { a: { decimals: 99 } }],
    ['about.metrics.a.told_unit', { a: { told_unit: 5 } }],
    ['about.metrics.a', { a: 5 }],
    ['about.metrics', [1]],
    ['a metric', { 'a\u202e': { unit: 'V' } }],
    ['at most 1000', Object.fromEntries(Array.from({ length: 1_001 }, (_, at) => [at, {}]))],
  ])('is refused by an import if %s is wrong', async (named, metrics) => {
    const line = JSON.stringify({ sensor: 'wrong', about: { metrics } })
    const { refused } = await imported('ndjson', line)
    expect(refused).toMatchObject([{ line: 1, reason: expect.stringContaining(named) }])
    expect(await store.sensor(sensorId('wrong'))).toBeUndefined()
  })
})
