// `/v1/decode` and the page's try-it say exactly what ingest does: of any payload, in any format,
// those of people's own included, what they say is what was stored, what was refused, and which
// fields were lost.
import { FORMATS, TOPIC_FORMATS } from '@sandglass/common/formats/registry'
import { writePayload } from '@sandglass/common/formats/sparkplug/write'
import { splitLines } from '@sandglass/common/line-protocol'
import mqtt from 'mqtt'
import { EXPRESSIONS, GENERATORS, generated } from '../support/generated.js'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { readDeadLetters, scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const T = 1_767_225_600_123
const JSON_TYPE = { 'content-type': 'application/json' }
/** Variants of each payload with some bytes changed. */
const BROKEN = 2
/** Payloads that are made for each format, besides these. */
const GENERATED = 40
/** Longer than ingest takes to hear of a decoder. */
const HEARD_MS = 2_500
/** Times this near are relative to the receipt, which is another one for `/v1/decode`. */
const NEAR_MS = 3_600_000
/** How a dead letter begins whose other fields are stored, and how many it names. */
const PARTLY = 'the other fields are stored, not these: '
const NAMED_MAX = 10

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

/** How many messages ingest makes of one: of several lines, each is one. */
/** @param {string} format  @param {Buffer} payload */
function messagesOf(format, payload) {
  return format === 'line-protocol' ? splitLines(payload.toString('latin1')).length : 1
}

/** @param {{ reason: string }[]} all */
const reasonsOf = (all) => all.map(({ reason }) => reason).sort()

/** The fields that reasons name: some of each message. @param {any[]} fields */
function namedOf(fields) {
  /** @type {Map<number, any[]>} */
  const byItem = new Map()
  for (const field of fields) byItem.set(field.item, [...(byItem.get(field.item) ?? []), field])
  return [...byItem.values()].flatMap((of) => of.slice(0, NAMED_MAX))
}

describe('a payload in any format', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {mqtt.MqttClient} */
  let client
  const templates = TOPIC_FORMATS.map(({ name, shape }) =>
    shape
      ? `of-${name}/{group}/{type}/{node}[/{device}] in ${name}`
      : `of-${name}/{sensor}/{metric...} in ${name}`,
  )

  beforeAll(async () => {
    const env = { TOPIC_TEMPLATES: templates.join() }
    stack = await startStack({ ingestEnv: { ...UNSPOOLED, ...env }, apiEnv: env })
  })
  afterAll(async () => {
    client?.end(true)
    await stack?.end()
  })

  /** @param {string} topic  @param {Buffer} body */
  async function decode(topic, body) {
    const url = `${stack.apiUrl}/v1/decode?topic=${encodeURIComponent(topic)}`
    const headers = { 'content-type': 'application/octet-stream' }
    const response = await fetch(url, { method: 'POST', headers, body: new Uint8Array(body) })
    expect([topic, response.status]).toEqual([topic, 200])
    return /** @type {Promise<any>} */ (response.json())
  }

  /** What the page's try-it says, before a decoder is saved. */
  /** @param {string} expression  @param {string} topic  @param {Buffer} payload */
  async function tryOut(expression, topic, payload) {
    const response = await fetch(`${stack.apiUrl}/v1/decode/expression`, {
      method: 'POST',
      headers: JSON_TYPE,
      body: JSON.stringify({
        template: `${topic.slice(0, topic.lastIndexOf('/'))}/{sensor}`,
        expression,
        topic,
        payload: payload.toString('base64'),
        encoding: 'base64',
      }),
    })
    return /** @type {Promise<any>} */ (response.json())
  }

  /** A decoder that is saved says besides which one it is, and is what one is told to mend. */
  /** @param {any} said */
  function withoutName({ items, refused, refused_fields: fields }) {
    const own = /^decoder own\d, version \d+: /
    const reasons = refused.map((/** @type {any} */ one) => one.reason.replace(own, ''))
    const faults = fields.map((/** @type {any} */ { advice, ...fault }) => fault)
    return { items, reasons, fields: faults }
  }

  async function saveDecoders() {
    for (const [at, expression] of EXPRESSIONS.entries()) {
      // On a busy machine it is answered that it shall be tried again.
      await until(`own${at} is saved`, async () => {
        const response = await fetch(`${stack.apiUrl}/v1/decoders/own${at}`, {
          method: 'PUT',
          headers: JSON_TYPE,
          body: JSON.stringify({ template: `of-expression/${at}/{sensor}`, expression }),
        })
        const text = await response.text()
        if (![200, 201, 503].includes(response.status)) throw new Error(text)
        return response.ok
      })
    }
    await new Promise((resolve) => setTimeout(resolve, HEARD_MS))
  }

  /**
   * @param {import('@sandglass/common/formats/types').Format} format
   * @param {number} at  Of the payload.
   */
  function generatedTopic({ name, shape }, at) {
    const sensor = `g${at}-of-${name}`
    if (name === 'line-protocol') return `telegraf/${sensor}`
    if (name === 'expression') return `of-${name}/${at % EXPRESSIONS.length}/${sensor}`
    if (shape) return `of-${name}/g/${at % 2 ? 'NDATA' : 'NBIRTH'}/${sensor}`
    return `of-${name}/${sensor}${at % 2 ? '/state' : ''}`
  }

  test('has a generator for every format', () => {
    expect(Object.keys(GENERATORS).sort()).toEqual(FORMATS.map(({ name }) => name).sort())
  })

  test('becomes what /v1/decode says', async () => {
    const random = randomOf(SEED)
    await saveDecoders()
    client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'formats' })
    /** @type {Map<string, any>} */
    const said = new Map()
    let messages = 0
    for (const { name, shape } of TOPIC_FORMATS) {
      for (const [at, whole] of PAYLOADS.entries()) {
        const variants = [whole, ...Array.from({ length: BROKEN }, () => broken(whole, random))]
        for (const [variant, payload] of variants.entries()) {
          const sensor = `s${at}-${variant}`
          const ofEdge = at % 2 ? `g/NBIRTH/${sensor}` : `g/DDATA/${sensor}/d`
          const topic = `of-${name}/${shape ? ofEdge : `${sensor}${at % 2 ? '/m' : ''}`}`
          said.set(topic, await decode(topic, payload))
          messages += messagesOf(name, payload)
          await client.publishAsync(topic, payload, { qos: 1 })
        }
      }
    }
    for (const format of FORMATS) {
      for (const [at, payload] of generated(
        format.name,
        SEED + format.number,
        GENERATED,
      ).entries()) {
        const topic = generatedTopic(format, at)
        const saved = await decode(topic, payload)
        if (format.isEvaluated) {
          const tried = await tryOut(EXPRESSIONS[at % EXPRESSIONS.length], topic, payload)
          expect({ seed: SEED, topic, ...withoutName(tried) }).toEqual({
            seed: SEED,
            topic,
            ...withoutName(saved),
          })
        }
        said.set(topic, saved)
        messages += messagesOf(format.name, payload)
        await client.publishAsync(topic, payload, { qos: 1 })
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
      .filter(({ t }) => t !== null && Math.abs(t - Date.now()) > NEAR_MS)
      .filter(({ id, t }) => !times.has(`${id} ${t}`))
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

    /** @type {Map<string, any[]>} */
    const letters = new Map()
    for (const letter of await readDeadLetters(stack.apiUrl)) {
      letters.set(letter.topic, [...(letters.get(letter.topic) ?? []), letter])
    }
    let lost = 0
    for (const [topic, { refused, refused_fields: fields }] of said) {
      const kept = letters.get(topic) ?? []
      const partial = kept.filter(({ reason }) => reason.startsWith(PARTLY))
      const whole = kept.filter((letter) => !partial.includes(letter))
      expect({ seed: SEED, topic, reasons: reasonsOf(whole) }).toEqual({
        seed: SEED,
        topic,
        reasons: reasonsOf(refused),
      })
      // Each line of line protocol is a message with a letter of its own.
      const itemsOfFields = new Set(fields.map((/** @type {any} */ { item }) => item))
      expect({ topic, partial: partial.length }).toEqual({ topic, partial: itemsOfFields.size })
      for (const { item, reason } of namedOf(fields)) {
        const isTold = partial.some((letter) => letter.reason.includes(reason))
        expect({ seed: SEED, topic, item, reason, isTold }).toMatchObject({ isTold: true })
      }
      const format = topic.startsWith('of-') ? topic.slice(3).split('/')[0] : 'line-protocol'
      for (const letter of kept) expect({ topic, ...letter }).toMatchObject({ topic, format })
      lost += fields.length
    }
    expect(lost).toBeGreaterThan(10)
    const { received, stored: storedMessages, deadLettered } = await stack.stats()
    expect([received, storedMessages + deadLettered]).toEqual([messages, messages])
  }, 300_000)
})
