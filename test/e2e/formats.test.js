// `/v1/decode` says exactly what ingest does: of any payload, in any format that a topic template
// can name, what it says is what was stored, what was refused, and which fields were lost.
import { TOPIC_FORMATS } from '@sandglass/common/formats/registry'
import { writePayload } from '@sandglass/common/formats/sparkplug/write'
import mqtt from 'mqtt'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { readDeadLetters, scanMeasurements } from '../support/stored.js'

const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const T = 1_767_225_600_123
/** Variants of each payload with some bytes changed. */
const BROKEN = 2

const PAYLOADS = [
  '21.5',
  'on',
  '"x"',
  '9007199254740993',
  '{"lat":1,"lon":2}',
  `{"t":${T},"a":1,"b":[2],"c":{"d":true,"e":[]}}`,
  `[{"ts":${T},"values":{"a":1,"b":[]}},7]`,
  `{"sensor":"named","t":${T},"a":1,"b":[]}`,
  '{"t":915148800,"a":1}',
  '{"a":[]}',
  `[{"bn":"boiler/","bt":1767225600,"n":"temp","u":"Cel","v":21.5},{"n":"odd","v":[]}]`,
  '[{"bu":"V","n":"volts","v":230},{"n":"amps","u":"A","v":3},{"n":"rh","u":"%RH","v":40}]',
  '{"AM2301":{"Temperature":20.5},"BMP280":{"Temperature":21,"Pressure":990},"TempUnit":"C",' +
    '"PressureUnit":"hPa","ENERGY":{"Power":5,"Voltage":230}}',
  '{"temperature":21.5,"linkquality":90,"color":{"x":0.3},"odd":[[]]}',
  '{"Time":"2026-01-01T00:00:00","AM2301":{"Temperature":20.5,"Humidity":55}}',
  '{"method":"NotifyStatus","params":{"ts":1767225600.5,"switch:0":{"id":0,"apower":8.9}}}',
  '{"end_device_ids":{"device_id":"ttn"},"received_at":"2026-01-01T00:00:00Z",' +
    '"uplink_message":{"decoded_payload":{"temperature":21.5,"odd":[]}}}',
  // {"a": 1, "b": [2]} as CBOR and as MessagePack; SenML in CBOR.
  ...['a2616101616281f6', 'a26161016162f5', '82a16101a1629102', '81a161cb4035800000000000'].map(
    (hex) => Buffer.from(hex, 'hex'),
  ),
  Buffer.from('81a3216762722d6465762d0064746d7002fb4035800000000000', 'hex'),
  ...[0, 1].map((seq) =>
    writePayload({
      timeMs: T,
      seq,
      metrics: [
        { name: 'temp', alias: 1, datatype: 10, double: 21.5 },
        { name: 'odd', datatype: 17, bytes: new Uint8Array(2) },
        { name: 'old', datatype: 3, int: 7, isHistorical: true },
        { alias: 1, double: 22 },
      ],
    }),
  ),
  '',
].map((payload) => Buffer.from(payload))

/** @param {number} seed */
function randomOf(seed) {
  let state = seed
  return (/** @type {number} */ below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** @param {Buffer} payload  @param {(below: number) => number} random */
function broken(payload, random) {
  const bytes = Buffer.from(payload)
  if (bytes.length > 0) bytes[random(bytes.length)] = random(256)
  return bytes
}

/**
 * One value of a series, from the database or from `/v1/decode`.
 *
 * @param {string} id
 * @param {string} metric
 * @param {any} value  Integers are objects in the database, and texts where they are long.
 */
function line(id, metric, value) {
  const isPlace = typeof value === 'object' && 'lat' in value
  return JSON.stringify([id, metric, isPlace ? value : String(value)])
}

describe('a payload in any format', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  const templates = TOPIC_FORMATS.map(({ name, shape }) =>
    shape
      ? `of-${name}/{group}/{type}/{node}[/{device}] in ${name}`
      : `of-${name}/{sensor}/{metric...} in ${name}`,
  )

  beforeAll(async () => {
    const env = { TOPIC_TEMPLATES: templates.join() }
    stack = await startStack({ ingestEnv: { ...UNSPOOLED, ...env }, apiEnv: env })
  })
  afterAll(() => stack?.end())

  /** @param {string} topic  @param {Buffer} body */
  async function decode(topic, body) {
    const url = `${stack.apiUrl}/v1/decode?topic=${encodeURIComponent(topic)}`
    const headers = { 'content-type': 'application/octet-stream' }
    const response = await fetch(url, { method: 'POST', headers, body: new Uint8Array(body) })
    expect([topic, response.status]).toEqual([topic, 200])
    return /** @type {Promise<any>} */ (response.json())
  }

  test('becomes what /v1/decode says', async () => {
    const random = randomOf(SEED)
    const client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'formats' })
    /** @type {Map<string, any>} */
    const said = new Map()
    for (const { name, shape } of TOPIC_FORMATS) {
      for (const [at, whole] of PAYLOADS.entries()) {
        const variants = [whole, ...Array.from({ length: BROKEN }, () => broken(whole, random))]
        for (const [variant, payload] of variants.entries()) {
          const sensor = `s${at}-${variant}`
          const ofEdge = at % 2 ? `g/NBIRTH/${sensor}` : `g/DDATA/${sensor}/d`
          const topic = `of-${name}/${shape ? ofEdge : `${sensor}${at % 2 ? '/m' : ''}`}`
          said.set(topic, await decode(topic, payload))
          await client.publishAsync(topic, payload, { qos: 1 })
        }
      }
    }
    await client.endAsync()

    const rows = await scanMeasurements(await stack.client(), stack.keyspace)
    const stored = rows.map(({ sensorId, metric, value }) => line(sensorId, metric, value))
    const expected = [...said.values()].flatMap(({ items }) =>
      items.map((/** @type {any} */ { id, metric, v }) => line(id, metric, v)),
    )
    expect({ seed: SEED, stored: [...new Set(stored)].sort() }).toEqual({
      seed: SEED,
      stored: [...new Set(expected)].sort(),
    })
    const times = new Set(rows.map(({ sensorId, timeMs }) => `${sensorId} ${timeMs}`))
    const missing = [...said.values()]
      .flatMap(({ items }) => items)
      .filter(({ id, t }) => t !== null && !times.has(`${id} ${t}`))
    expect({ seed: SEED, missing }).toEqual({ seed: SEED, missing: [] })
    expect(expected.length).toBeGreaterThan(100)

    const series = await (await stack.client()).execute(
      `SELECT sensor_id, metric, told_unit FROM ${stack.keyspace}.series`,
    )
    const toldOf = (/** @type {any[]} */ all) =>
      [...new Set(all.map((one) => one.join(' ')))].sort()
    const told = series.rows.filter((row) => row.told_unit !== null)
    const units = [...said.values()].flatMap(({ items }) => items).filter(({ unit }) => unit)
    expect(units.length).toBeGreaterThan(5)
    expect({ seed: SEED, of: toldOf(told.map((row) => [row.sensor_id, row.metric])) }).toEqual({
      seed: SEED,
      of: toldOf(units.map(({ id, metric }) => [id, metric])),
    })
    // A metric of two payloads has the unit of the one that came last.
    expect(toldOf(units.map(({ id, metric, unit }) => [id, metric, unit]))).toEqual(
      expect.arrayContaining(toldOf(told.map((row) => [row.sensor_id, row.metric, row.told_unit]))),
    )

    const letters = await readDeadLetters(stack.apiUrl)
    const reasons = new Map(
      letters.map(({ topic, reason, format }) => [topic, /** @type {any} */ ({ reason, format })]),
    )
    let lost = 0
    for (const [topic, { refused, refused_fields: fields }] of said) {
      const letter = reasons.get(topic)
      const isExpected = refused.length > 0 || fields.length > 0
      expect({ seed: SEED, topic, isDead: letter !== undefined }).toMatchObject({
        topic,
        isDead: isExpected,
      })
      if (!isExpected) continue
      expect({ topic, format: letter.format }).toEqual({
        topic,
        format: topic.slice(3).split('/')[0],
      })
      if (refused.length > 0)
        expect({ topic, reason: letter.reason }).toEqual({ topic, reason: refused[0].reason })
      for (const { reason } of fields.slice(0, 10)) expect(letter.reason).toContain(reason)
      lost += fields.length
    }
    expect(lost).toBeGreaterThan(10)
    const { received, stored: storedMessages, deadLettered } = await stack.stats()
    expect([received, storedMessages + deadLettered]).toEqual([said.size, said.size])
  }, 300_000)
})
