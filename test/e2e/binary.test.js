// CBOR and MessagePack by HTTP: through the api's port, packed or not, to what is stored; and what
// is refused is a dead letter of its format, which is stored after all.
import { gzipSync } from 'node:zlib'
import { encode as encodeMessagePack } from '@msgpack/msgpack'
import { FORMATS } from '@sandglass/common/formats/registry'
import cassandra from 'cassandra-driver'
import { encode as encodeCbor } from 'cborg'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { readDeadLetters, readMeasurements } from '../support/stored.js'

const T = Date.UTC(2026, 0, 1)

/** @param {unknown} value */
const messagePack = (value) => encodeMessagePack(value, { useBigInt64: true })

const KINDS = /** @type {[string, string, (value: unknown) => Uint8Array][]} */ ([
  ['application/cbor', 'cbor-object', encodeCbor],
  ['application/msgpack', 'messagepack-object', messagePack],
  ['application/vnd.msgpack', 'messagepack-object', messagePack],
  ['application/x-msgpack', 'messagepack-object', messagePack],
])

describe.each(KINDS)('a body of %s', (type, format, encode) => {
  const name = type.replace(/\W/g, '-')

  /** @param {string} path  @param {Uint8Array} body  @param {Record<string, string>} [headers] */
  async function post(path, body, headers) {
    const response = await fetch(`${stack.apiUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': type, ...headers },
      body: new Uint8Array(body),
    })
    return { status: response.status, answer: /** @type {any} */ (await response.json()) }
  }

  test('is stored as /v1/decode says, packed or not', async () => {
    const body = encode([
      { sensor: name, t: T, temperature: 21.5, on: true, note: 'größer', count: 2n ** 53n + 1n },
      { sensor: name, t: T + 1_000, place: { lat: 52.5, lon: 13.4 }, deep: { er: -7 } },
    ])
    const { answer: decoded } = await post('/v1/decode', body)
    expect([decoded.items.length, decoded.refused]).toEqual([6, []])
    for (const [headers, bytes] of /** @type {const} */ ([
      [{}, body],
      [{ 'content-encoding': 'gzip' }, gzipSync(body)],
    ])) {
      const { status, answer } = await post('/v1/measurements', bytes, headers)
      expect([status, answer]).toEqual([200, { received: 2, stored: 2, refused: [] }])
    }
    const { items } = await readMeasurements(stack.apiUrl, name, { limit: 100 })
    const url = `${stack.apiUrl}/v1/sensors/${name}/measurements?metric=count`
    expect(await (await fetch(url)).text()).toContain(`${2n ** 53n + 1n}`)
    // An integer of more digits than a double has is a text for /v1/decode.
    const numberOf = (/** @type {any} */ v) => (/^\d+$/.test(v) ? Number(v) : v)
    const lines = (/** @type {any[]} */ all) =>
      [...new Set(all.map(({ metric, t, v }) => JSON.stringify([metric, t, numberOf(v)])))].sort()
    expect(
      lines(items.map(({ metric, timeMs, value }) => ({ metric, t: timeMs, v: value }))),
    ).toEqual(lines(decoded.items))
  })

  test('that is broken is refused as a whole, and each fault of a whole one by itself', async () => {
    const whole = encode([{ sensor: name, t: T, m: 1 }])
    expect((await post('/v1/measurements', whole.subarray(0, -1))).status).toBe(400)
    const { status, answer } = await post(
      '/v1/measurements',
      encode([{ sensor: name, t: T, fine: 1 }, { m: 2 }, { sensor: name, t: 'soon', m: 3 }]),
    )
    expect([status, answer]).toMatchObject([
      400,
      { received: 3, stored: 1, refused: [{ item: 1 }, { item: 2 }] },
    ])
    const reasons = answer.refused.map((/** @type {any} */ { reason }) => reason)
    const letters = await readDeadLetters(stack.apiUrl)
    const own = letters.filter((letter) => reasons.includes(letter.reason))
    expect(own.map((letter) => letter.format)).toEqual(expect.arrayContaining([format, format]))
  })

  test('that was refused is stored after all, as of when it came', async () => {
    const own = `${name}-mended`
    const receivedMs = Date.now() - 3_600_000
    const id = cassandra.types.TimeUuid.fromDate(new Date(receivedMs))
    const letters = await readDeadLetters(stack.apiUrl)
    const { topic } = letters.find((letter) => letter.format === format)
    await (await stack.client()).execute(
      `INSERT INTO ${stack.keyspace}.dead_letter
       (day, shard, id, topic, client, payload, reason, received, format)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      [
        ...[Math.floor(receivedMs / 86_400_000), /** @type {any} */ (id).buffer[3] % 8, id, topic],
        ...['c', Buffer.from(encode({ sensor: own, m: 5, on: false })), 'it was so', receivedMs],
        FORMATS.find((one) => one.name === format)?.number,
      ],
      { prepare: true },
    )
    const response = await fetch(`${stack.apiUrl}/v1/dead-letters/replay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ids: [String(id)] }),
    })
    expect(await response.json()).toEqual({ replayed: 1, refused: [], unknown: [] })
    const { items } = await readMeasurements(stack.apiUrl, own, { limit: 10 })
    const stored = items.map(({ metric, timeMs, value }) => [metric, timeMs, value])
    expect(stored.sort()).toEqual([
      ['m', receivedMs, 5],
      ['on', receivedMs, false],
    ])
    const after = await readDeadLetters(stack.apiUrl)
    const marked = after.find((letter) => letter.id === String(id))
    expect(marked).toMatchObject({ format, replayed: expect.any(Number) })
  })
})

/** @type {import('../support/stack.js').Stack} */
let stack
beforeAll(async () => {
  stack = await startStack({ ingestEnv: UNSPOOLED })
})
afterAll(() => stack?.end())
