// What the numbers of metrics mean, over REST: who says it, what holds, and who may.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { metadataFault } from '@sandglass/common/metadata'
import { sensorId } from '@sandglass/common/sensor'
import { scopeOf } from '../../src/auth.js'
import { createFakeStore } from '../support/fake-store.js'
import { appOver } from '../support/inject.js'

const HOST = { host: 'localhost' }

const rows = [
  { metric: 'temperature', t: 1_767_225_600_000, seq: 0, kind: 1, value: 21.5 },
  { metric: 'humidity', t: 1_767_225_600_000, seq: 0, kind: 1, value: 40 },
]

/** @type {ReturnType<typeof createFakeStore>} */
let store
/** @type {Awaited<ReturnType<typeof appOver>>} */
let app

beforeAll(async () => {
  store = createFakeStore({ rows })
  app = await appOver(store)
})
beforeEach(async () => {
  store.forgetAll()
  const sensor = { id: sensorId('s'), name: 's', type: undefined, unit: undefined, tags: {} }
  await store.putSensor({ ...sensor, hidden: false, createdMs: 1 })
  // So that the api forgets, too.
  await ask('DELETE', '/v1/types/any/metrics/any')
})
afterAll(() => app.close())

/** @param {any} method  @param {string} url  @param {any} [payload]  @param {string} [type] */
async function ask(method, url, payload, type = 'application/json') {
  const headers = payload === undefined ? HOST : { ...HOST, 'content-type': type }
  const response = await app.inject({ method, url, headers, payload })
  const isJson = String(response.headers['content-type']).includes('json')
  return { status: response.statusCode, body: isJson ? response.json() : response.body }
}

const OWN = '/v1/sensors/s/metrics/temperature'
const OF_TYPE = '/v1/types/room/metrics/temperature'

describe('metadata of a metric', () => {
  test('is put, told, listed beside metrics of which nobody says anything, and taken back', async () => {
    const said = { unit: 'Cel', label: 'Room', decimals: 1, expected_min: -5, expected_max: 35 }
    const put = await ask('PUT', OWN, said)
    expect(put).toEqual({
      status: 200,
      body: { metric: 'temperature', symbol: '°C', ...said, said: { sensor: said } },
    })
    expect(await ask('GET', OWN)).toEqual(put)
    expect((await ask('GET', '/v1/sensors/s/metrics')).body).toEqual({
      items: [{ metric: 'humidity', said: {} }, put.body],
    })
    expect((await ask('DELETE', OWN)).status).toBe(204)
    expect((await ask('GET', OWN)).body).toEqual({ metric: 'temperature', said: {} })
  })

  test('is replaced as a whole; null says nothing', async () => {
    await ask('PUT', OWN, { unit: 'Cel', decimals: 1 })
    const { body } = await ask('PUT', OWN, { unit: null, label: 'Air' })
    expect(body.said).toEqual({ sensor: { label: 'Air' } })
  })

  test('may be said before the first value comes', async () => {
    expect((await ask('PUT', '/v1/sensors/s/metrics/later', { unit: 'V' })).status).toBe(200)
    expect((await ask('DELETE', '/v1/sensors/s/metrics/later')).status).toBe(204)
    expect((await ask('GET', '/v1/sensors/s/metrics/later')).body).toMatchObject({
      type: 'urn:sandglass:problem:unknown-metric',
      parameter: 'metric',
    })
    expect((await ask('DELETE', '/v1/sensors/s/metrics/never')).status).toBe(204)
    expect(await store.metricsOfSensor(sensorId('s'))).not.toContainEqual(
      expect.objectContaining({ metric: 'never' }),
    )
  })

  test('of the sensor beats that of its type, which beats what the device tells', async () => {
    store.tellUnit(sensorId('s'), 'temperature', 'Far')
    expect((await ask('GET', OWN)).body).toMatchObject({ unit: 'Far', symbol: '°F' })
    await ask('PATCH', '/v1/sensors/s', { type: 'room', unit: 'V' })
    // What is said of the sensor as a whole is of no metric in particular.
    expect((await ask('GET', OWN)).body.unit).toBe('Far')
    expect((await ask('GET', '/v1/sensors/s/metrics/humidity')).body.unit).toBe('V')
    await ask('PUT', OF_TYPE, { unit: 'Cel', decimals: 1 })
    expect((await ask('GET', OWN)).body).toMatchObject({ unit: 'Cel', decimals: 1 })
    await ask('PUT', OWN, { label: 'Oven', decimals: 3 })
    expect((await ask('GET', OWN)).body).toEqual({
      metric: 'temperature',
      unit: 'Cel',
      symbol: '°C',
      label: 'Oven',
      decimals: 3,
      said: {
        sensor: { label: 'Oven', decimals: 3 },
        type: { unit: 'Cel', decimals: 1 },
        device: { unit: 'Far' },
      },
    })
    await ask('DELETE', OF_TYPE)
    expect((await ask('GET', OWN)).body).toMatchObject({ unit: 'Far', decimals: 3 })
  })

  test('follows the type of the sensor when that changes', async () => {
    await ask('PUT', OF_TYPE, { unit: 'Cel' })
    await ask('PUT', '/v1/types/oven/metrics/temperature', { unit: 'K' })
    for (const [type, unit] of [
      ['room', 'Cel'],
      ['oven', 'K'],
      [null, undefined],
    ]) {
      await ask('PATCH', '/v1/sensors/s', { type })
      expect((await ask('GET', OWN)).body.unit).toBe(unit)
    }
  })

  test('of a type is put, told, listed and taken back', async () => {
    expect((await ask('GET', OF_TYPE)).status).toBe(404)
    const put = await ask('PUT', OF_TYPE, { unit: '%RH', expected_max: 100 })
    const expected = { metric: 'temperature', unit: '%RH', symbol: '% RH', expected_max: 100 }
    expect(put).toEqual({ status: 200, body: expected })
    expect(await ask('GET', OF_TYPE)).toEqual(put)
    expect((await ask('GET', '/v1/types/room/metrics')).body).toEqual({ items: [expected] })
    expect((await ask('DELETE', OF_TYPE)).status).toBe(204)
    expect((await ask('GET', '/v1/types/room/metrics')).body).toEqual({ items: [] })
  })

  test.each([
    ['unit', { unit: '' }],
    ['unit', { unit: 'x'.repeat(65) }],
    ['unit', { unit: 'C\u202e' }],
    ['unit', { unit: ['a', 'b'] }],
    ['label', { label: 'two\nlines' }],
    ['label', { label: 'x'.repeat(129) }],
    ['decimals', { decimals: 1.5 }],
    ['decimals', { decimals: -1 }],
    ['decimals', { decimals: 16 }],
    ['expected_min', { expected_min: 'low' }],
    ['expected_min', '{"expected_min": 1e999}'],
    ['expected_max', { expected_min: 2, expected_max: 1 }],
    ['range', { range: 1 }],
  ])('refuses a wrong %s by name: %j', async (parameter, body) => {
    for (const path of [OWN, OF_TYPE]) {
      const { status, body: problem } = await ask('PUT', path, body)
      expect([status, problem.parameter]).toEqual([400, parameter])
      expect(problem.detail).toContain(parameter)
    }
    expect((await ask('GET', OWN)).body.said).toEqual({})
  })

  test('refuses a body that says nothing, metrics that mislead, and sensors that are not', async () => {
    expect((await ask('PUT', OWN, {})).status).toBe(400)
    expect((await ask('PUT', OWN, { unit: null })).status).toBe(400)
    const misleading = `/v1/sensors/s/metrics/${encodeURIComponent('a\u202eb')}`
    expect(await ask('PUT', misleading, { unit: 'V' })).toMatchObject({
      status: 400,
      body: { parameter: 'metric' },
    })
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const body = method === 'PUT' ? { unit: 'V' } : undefined
      expect((await ask(method, '/v1/sensors/nobody/metrics/a', body)).status).toBe(404)
    }
  })

  test('of a metric whose name has slashes is at that name', async () => {
    const path = `/v1/sensors/s/metrics/${encodeURIComponent('phase/0 %')}`
    await ask('PUT', path, { unit: 'V' })
    expect((await ask('GET', path)).body).toMatchObject({ metric: 'phase/0 %', unit: 'V' })
  })

  test('is of at most 1,000 metrics', async () => {
    for (let at = 0; at < 998; at++) {
      await store.putMetricOfSensor(sensorId('s'), `m${at}`, { unit: 'V' })
      await store.putMetricOfType('room', `m${at}`, { unit: 'V' })
    }
    const full = await ask('PUT', '/v1/sensors/s/metrics/one-more', { unit: 'V' })
    expect([full.status, full.body.parameter]).toEqual([400, 'metric'])
    expect((await ask('PUT', OWN, { unit: 'V' })).status).toBe(200)
    for (const status of [200, 200, 400]) {
      expect(
        (await ask('PUT', `/v1/types/room/metrics/n${Math.random()}`, { unit: 'V' })).status,
      ).toBe(status)
    }
  })

  test('is forgotten when the sensor is deleted and another one gets its name', async () => {
    await ask('PUT', OWN, { unit: 'Cel' })
    store.tellUnit(sensorId('s'), 'humidity', '%RH')
    await ask('DELETE', '/v1/sensors/s')
    expect((await ask('GET', OWN)).status).toBe(404)
    await ask('POST', '/v1/sensors', { name: 's' })
    expect((await ask('GET', '/v1/sensors/s/metrics')).body.items).toEqual([
      { metric: 'humidity', said: {} },
      { metric: 'temperature', said: {} },
    ])
  })

  test('is written by who may manage, and read by who may read', () => {
    for (const path of [OWN, OF_TYPE]) {
      const scopes = ['GET', 'PUT', 'DELETE'].map((method) => scopeOf(method, path))
      expect(scopes).toEqual(['read', 'manage', 'manage'])
    }
    expect([scopeOf('GET', '/v1/metadata'), scopeOf('POST', '/v1/metadata')]).toEqual([
      'read',
      'manage',
    ])
  })
})

describe('a CSV of metadata', () => {
  const HEAD = 'sensor,type,metric,unit,label,decimals,expected_min,expected_max\n'
  /** @param {string} csv */
  const post = (csv) => ask('POST', '/v1/metadata', csv, 'text/csv')

  test('is given, edited and sent back', async () => {
    await ask('PUT', OF_TYPE, { unit: 'Cel', expected_min: -2.5 })
    await ask('PUT', OWN, { label: 'Over, here "x"', decimals: 0 })
    const { body: csv } = await ask('GET', '/v1/metadata')
    expect(csv).toBe(
      `${HEAD},room,temperature,Cel,,,-2.5,\ns,,temperature,,"Over, here ""x""",0,,\n`,
    )
    await ask('DELETE', OF_TYPE)
    await ask('DELETE', OWN)
    expect(await post(csv)).toEqual({ status: 200, body: { stored: 2 } })
    expect((await ask('GET', '/v1/metadata')).body).toBe(csv)
  })

  test('has its columns in any order, with semicolons and decimal commas, too', async () => {
    const csv = 'unit;metric;sensor;expected_max\r\n°C;temperature;s;21,5\r\n'
    expect((await post(csv)).body).toEqual({ stored: 1 })
    expect((await ask('GET', OWN)).body).toMatchObject({ unit: '°C', expected_max: 21.5 })
  })

  test('takes back what a row without a word is of', async () => {
    await ask('PUT', OWN, { unit: 'Cel' })
    await ask('PUT', OF_TYPE, { unit: 'Cel' })
    await post(`${HEAD}s,,temperature,,,,,\n,room,temperature,,,,,\n`)
    expect((await ask('GET', '/v1/metadata')).body).toBe(HEAD)
  })

  test.each([
    ['colour', 'sensor,metric,colour\ns,a,red\n', 'line 1: colour'],
    ['metric', 'sensor,unit\ns,V\n', 'line 1: metric'],
    ['sensor', 'metric,unit\na,V\n', 'line 1: sensor'],
    ['sensor', `${HEAD}s,room,a,V,,,,\n`, 'line 2: sensor'],
    ['sensor', `${HEAD},,a,V,,,,\n`, 'line 2: sensor'],
    ['sensor', `${HEAD}s,,a,V,,,,\nnobody,,a,V,,,,\n`, 'line 3: sensor nobody'],
    ['sensor', `${HEAD}a/b,,a,V,,,,\n`, 'line 2: sensor'],
    ['metric', `${HEAD}s,,,V,,,,\n`, 'line 2: metric'],
    ['metric', `${HEAD}s,,a,V,,,,\n\ns,,a,A,,,,\n`, 'line 4: metric is told on line 2'],
    ['decimals', `${HEAD}s,,a,V,,0x1,,\n`, 'line 2: decimals'],
    ['decimals', `${HEAD}s,,a,V,,1.5,,\n`, 'line 2: decimals'],
    ['expected_min', `${HEAD}s,,a,V,,,low,\n`, 'line 2: expected_min'],
    ['expected_max', `${HEAD}s,,a,V,,,2,1\n`, 'line 2: expected_max'],
    ['unit', `${HEAD}s,,a,${'x'.repeat(65)},,,,\n`, 'line 2: unit'],
    [undefined, `${HEAD}s,,a\n`, 'line 2: 3 cells'],
    [undefined, Buffer.from([0xff, 0xfe, 0x41]), 'UTF-8'],
  ])('with a wrong %s is refused as a whole: %j', async (parameter, csv, detail) => {
    const { status, body } = await ask('POST', '/v1/metadata', csv, 'text/csv')
    expect([status, body.parameter]).toEqual([400, parameter])
    expect(body.detail).toContain(detail)
    expect((await ask('GET', '/v1/metadata')).body).toBe(HEAD)
  })

  test('has at most 10,000 rows, and gives a type at most 1,000 metrics', async () => {
    const row = (/** @type {number} */ at) => `,t${at % 20},m${at},V,,,,\n`
    const many = Array.from({ length: 10_001 }, (_, at) => row(at))
    expect((await post(HEAD + many.join(''))).body.detail).toContain('10000 rows')
    expect((await post(HEAD + many.slice(1).join(''))).body).toEqual({ stored: 10_000 })
    const one = Array.from({ length: 1_001 }, (_, at) => `,wide,m${at},V,,,,\n`)
    expect((await post(HEAD + one.join(''))).body.parameter).toBe('metric')
  })

  test('is CSV, and not JSON', async () => {
    expect((await ask('POST', '/v1/metadata', '{}')).status).toBe(415)
  })
})

test('a range has its ends in order, and one end alone is one', () => {
  expect(metadataFault({ expected_min: 1, expected_max: 1 })).toBeUndefined()
  expect(metadataFault({ expected_max: -1 })).toBeUndefined()
  expect(metadataFault({ expected_min: 0, expected_max: -1 })?.field).toBe('expected_max')
})
