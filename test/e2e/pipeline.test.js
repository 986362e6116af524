// One reading's way: MQTT in, REST out; the forms of payloads; what is refused, and where it goes.
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { unaccounted } from '../support/accounts.js'
import { Publisher } from '../support/publisher.js'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { getJson, readMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const T = Date.UTC(2024, 4, 1, 12)
/** A published reading is live in less than this, in milliseconds. */
const LIVE_MS_MAX = 1000
const PACKET_BYTES_MAX = 256 * 1024
const QOS_1 = /** @type {const} */ ({ qos: 1 })

describe('a reading on its way', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {mqtt.MqttClient} */
  let client

  beforeAll(async () => {
    stack = await startStack({ ingestEnv: UNSPOOLED })
    client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'pipeline', reconnectPeriod: 0 })
  })
  afterAll(async () => {
    await client?.endAsync()
    await stack?.end()
  })

  /** @param {string} sensor @param {Record<string, string | number>} [parameters] */
  async function read(sensor, parameters) {
    const { items } = await readMeasurements(stack.apiUrl, sensor, parameters)
    return items.map(({ metric, timeMs, seq, value }) => [metric, timeMs, seq, value])
  }

  test('is readable the moment it is acknowledged', async () => {
    for (let index = 0; index < 100; index++) {
      await client.publishAsync('sensors/prompt/m', `{"t":${T + index},"v":${index}}`, { qos: 1 })
      const url = `${stack.apiUrl}/v1/sensors/${sensorId('prompt')}/measurements?limit=1`
      expect((await getJson(url)).items).toEqual([{ metric: 'm', t: T + index, v: index }])
    }
  })

  test('of a sensor that nobody knew is the latest within a second', async () => {
    const id = sensorId('newcomer')
    const latest = () => fetch(`${stack.apiUrl}/v1/sensors/${id}/latest`)
    expect((await latest()).status).toBe(404)
    const publishedMs = performance.now()
    await client.publishAsync('sensors/newcomer/temperature', '21.5', { qos: 1 })
    await until('the latest value', async () => (await (await latest()).text()).includes('21.5'))
    expect(performance.now() - publishedMs).toBeLessThan(LIVE_MS_MAX)
    const listed = await getJson(`${stack.apiUrl}/v1/sensors`)
    expect(JSON.stringify(listed)).toContain(id)
  })

  test('that follows another at once is the latest soon, too', async () => {
    const url = `${stack.apiUrl}/v1/sensors/${sensorId('quick')}/latest`
    for (const last of ['71.5', '72.5', '73.5']) {
      for (const value of ['70.5', last]) await client.publishAsync('sensors/quick/m', value, QOS_1)
      await until('the last value', async () => (await (await fetch(url)).text()).includes(last))
    }
  })

  test.each([
    ['a number', 'f1/m', `{"t":${T},"v":-21.5e-1}`, [['m', T, 0, -2.15]]],
    ['true', 'f2/m', `{"t":${T},"v":true}`, [['m', T, 0, true]]],
    ['text', 'f3/m', `{"t":${T},"v":"öffen \\u20ac"}`, [['m', T, 0, 'öffen €']]],
    [
      'a place',
      'f4/m',
      `{"t":${T},"v":{"lat":47.6,"lon":-122.3}}`,
      [['m', T, 0, { lat: 47.6, lon: -122.3 }]],
    ],
    [
      'several metrics',
      'f5',
      `{"t":${T},"b":2,"a":1}`,
      [
        ['a', T, 0, 1],
        ['b', T, 0, 2],
      ],
    ],
    [
      'an array of times',
      'f6/m',
      `[{"t":${T},"v":1},{"t":${T + 1},"v":2}]`,
      [
        ['m', T + 1, 0, 2],
        ['m', T, 0, 1],
      ],
    ],
    [
      'an array of several metrics',
      'f7',
      `[{"t":${T},"a":1},{"t":${T + 5},"a":2,"b":3}]`,
      [
        ['a', T + 5, 0, 2],
        ['b', T + 5, 0, 3],
        ['a', T, 0, 1],
      ],
    ],
    [
      'a sensor given by its id',
      '0190163d-8694-739b-aea5-966c26f8ad91/m',
      `{"t":${T},"v":7}`,
      [['m', T, 0, 7]],
    ],
  ])('%s is read back as it was sent', async (_, topic, payload, expected) => {
    await client.publishAsync(`sensors/${topic}`, payload, { qos: 1 })
    expect(await read(topic.split('/')[0])).toEqual(expected)
  })

  test.each([0, 1, 2])('arrives at QoS %i', async (qos) => {
    await client.publishAsync(`sensors/qos${qos}/m`, `{"t":${T},"v":1}`, {
      qos: /** @type {0 | 1 | 2} */ (qos),
    })
    const rows = await until('the row', async () => {
      const found = await read(`qos${qos}`).catch(() => [])
      return found.length > 0 && found
    })
    expect(rows).toEqual([['m', T, 0, 1]])
  })

  test('sent twice is stored once; another value of the same millisecond is kept beside it', async () => {
    for (const value of [1, 1, 2, 1, 2]) {
      await client.publishAsync('sensors/again/m', `{"t":${T},"v":${value}}`, { qos: 1 })
    }
    expect(await read('again', { order: 'asc' })).toEqual([
      ['m', T, 0, 1],
      ['m', T, 1, 2],
    ])
  })

  test('without a time is known again when the device sends it once more', async () => {
    for (let connection = 0; connection < 3; connection++) {
      const device = new Publisher({ ...stack.mqtt, clientId: 'forgetful' })
      await device.open()
      device.startAt({ id: 7, duplicate: connection > 0 })
      await device.publish('sensors/forgetful/m', '5')
      await device.close()
    }
    expect(await read('forgetful')).toHaveLength(1)
  })

  test.each([
    ['no JSON', 'dead/m', 'garbage{'],
    ['empty', 'dead/m', ''],
    ['a value of no kind that is stored', 'dead/m', 'null'],
    ['a time before 2000', 'dead/m', `{"t":${Date.UTC(1999, 11, 31)},"v":1}`],
    ['a time the day after tomorrow', 'dead/m', `{"t":${Date.now() + 2 * 86_400_000},"v":1}`],
    ['text of more than 64 KiB', 'dead/m', JSON.stringify('x'.repeat(64 * 1024 + 1))],
    ['a topic of too many levels', 'dead/m/n', '1'],
  ])(
    '%s: becomes a dead letter with its reason, and the connection stays',
    async (_, topic, payload) => {
      const before = await deadLetters()
      const full = `sensors/${topic}`
      await client.publishAsync(full, payload, { qos: 1 })
      const added = (await deadLetters()).filter(({ id }) => !before.some((one) => one.id === id))
      expect(added).toHaveLength(1)
      expect(added[0]).toMatchObject({ topic: full, client: 'pipeline' })
      expect(added[0].payload.toString()).toBe(payload.slice(0, 64 * 1024))
      expect(added[0].reason.length).toBeGreaterThan(5)
      expect(client.connected).toBe(true)
    },
  )

  test('an oversized packet costs its own connection and nothing else', async () => {
    const big = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'big', reconnectPeriod: 0 })
    const closed = new Promise((resolve) => big.once('close', () => resolve('closed')))
    big.publish('sensors/big/m', JSON.stringify('x'.repeat(PACKET_BYTES_MAX)), { qos: 1 })
    expect(await closed).toBe('closed')
    big.end(true)
    await client.publishAsync('sensors/small/m', `{"t":${T},"v":1}`, { qos: 1 })
    expect(await read('small')).toHaveLength(1)
  })

  test('is counted: every message that was received is in one place', async () => {
    const stats = await stack.stats()
    expect(stats.received).toBeGreaterThan(100)
    expect(unaccounted(stats)).toBe(0)
    expect(stats.deadLettered).toBe(7)
  })

  async function deadLetters() {
    const database = await stack.client()
    const { rows } = await database.execute(
      `SELECT id, topic, client, payload, reason FROM ${stack.keyspace}.dead_letter`,
    )
    return rows.map((row) => ({ ...row, id: String(row.id), ...pick(row) }))
  }
})

/**
 * @param {Record<string, any>} row
 * @returns {{ payload: Buffer, reason: string }}
 */
function pick({ payload, reason }) {
  return { payload, reason }
}
