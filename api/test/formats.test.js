// What is true at every door: a value comes out of each format as it went into any other one, and
// what is wrong is refused for the same reason.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { FORMAT, itemsOf, parseItem } from '@sandglass/common/bodies'
import { decodeWhole } from '@sandglass/common/formats/registry'
import { jsonText } from '@sandglass/common/json'
import { ageFault, KIND, KIND_NAMES } from '@sandglass/common/measurement'
import { parseTopic } from '@sandglass/common/payload'
import { stringify } from 'csv-stringify/sync'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { exported as exportOf, FORMATS } from '../src/export.js'
import { csvRecords, ndjsonRecords } from '../src/import/records.js'
import { understand } from '../src/import/understand.js'
import { createFakeStore, NO_KEYS, seeded } from './support/fake-store.js'

/** @typedef {import('@sandglass/common/measurement').Value} Value */
/** @typedef {{ sensor: string, metric: string, timeMs: number, kind: number,
 *   value: Value }} Stored */
/** @typedef {(content: Stored[]) => Promise<Stored[]> | Stored[]} Door */

const HOST = { host: '127.0.0.1:8080' }
const NOW = Date.UTC(2026, 0, 1)
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const ROUNDS = 40

/** @param {import('../src/store.js').Store} store */
const build = (store) =>
  buildApp({
    store,
    isDatabaseUp: () => true,
    ingest: /** @type {any} */ ({}),
    registry: new Registry(),
    limits: { requestsPerS: 0, bodyBytesMax: 1e7, importBytesMax: 1e7, streamsMax: 2 },
    isLoopback: true,
    ...NO_KEYS,
  })

// Values.

const NUMBERS = [
  0,
  -0,
  5,
  -5,
  21.5,
  0.1,
  5e-324,
  1.7976931348623157e308,
  2 ** 53,
  2 ** 60,
  -(2 ** 63),
]
const INTEGERS = [0, 5, -5, 2 ** 53 - 1, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)]
const TEXTS = [
  ...[
    '',
    ' ',
    ' x ',
    'true',
    '5',
    '5.0',
    '1e999',
    'NaN',
    'null',
    '{"lat":1,"lon":2}',
    '{',
    '"',
    '""',
  ],
  ...[
    'a,b',
    'a;b',
    'a\nb',
    'a\r\nb',
    'a\rb',
    'a\tb',
    '\\',
    '\\"',
    'ü🌡',
    '\u00a0x\u00a0',
    '\ufeffx',
  ],
  ...['\ufffd', '2026-01-01', '9007199254740993', 'x'.repeat(65_536), '=1+1', '#', "'", '\u0000'],
]

/** @param {(below: number) => number} random */
function randomValue(random) {
  const pick = (/** @type {readonly any[]} */ list) => list[random(list.length)]
  const double = () => (random(2) ? pick(NUMBERS) : (random(2e9) - 1e9) / (1 + random(1e6)))
  switch (random(5)) {
    case 0:
      return { kind: KIND.number, value: double() }
    case 1:
      return { kind: KIND.integer, value: random(2) ? pick(INTEGERS) : random(2e9) - 1e9 }
    case 2:
      return { kind: KIND.boolean, value: random(2) === 0 }
    case 3:
      return {
        kind: KIND.text,
        value: random(2) ? pick(TEXTS) : pick(TEXTS) + pick(TEXTS).slice(0, 9),
      }
    default:
      return {
        kind: KIND.location,
        value: { lat: pick([0, -0, 90, 1.5]), lon: pick([-0, -180, 0.1]) },
      }
  }
}

const NAMES = [
  'a',
  'A b',
  ' a ',
  'a,b',
  'a=b',
  '"a"',
  '__proto__',
  'toString',
  'é',
  '🌡',
  'v',
  't',
  'kind',
]

/** @param {(below: number) => number} random  @returns {Stored[]} */
const randomContent = (random) =>
  Array.from({ length: 25 }, (_, index) => ({
    sensor: NAMES[random(NAMES.length)],
    metric: NAMES[random(NAMES.length)],
    timeMs: NOW - random(1e9) * 10 + index,
    ...randomValue(random),
  })).filter(({ value }) => typeof value !== 'string' || value.length <= 65_536)

// Doors.

/** What a message of MQTT says. @param {string} topic  @param {Buffer} payload */
const said = (topic, payload) =>
  decodeWhole(FORMAT.topic, { topic, ...parseTopic(topic) }, payload).measurements

/** @param {import('@sandglass/common/bodies').BodyFormat} format  @param {Buffer} body */
const posted = (format, body) =>
  itemsOf(format, body).flatMap((item) => {
    const { sensor, measurements } = parseItem(item)
    return measurements.map((one) => /** @type {Stored} */ ({ sensor, ...one }))
  })

/** As ingest understands what an import sends. @param {AsyncIterable<any>} records */
async function imported(records) {
  /** @type {Stored[]} */
  const all = []
  for await (const { object, fault } of records) {
    if (fault) throw new Error(fault)
    const { payload, sensor, measurements } = understand(object, undefined, NOW)
    const sent = parseItem({ format: 1, payload })
    expect(sent).toEqual({ sensor, measurements, refused: [] })
    all.push(...sent.measurements.map((one) => /** @type {Stored} */ ({ sensor, ...one })))
  }
  return all
}

/** @param {Stored} one */
const longObject = ({ sensor, metric, timeMs, kind, value }) =>
  jsonText({ sensor, metric, t: timeMs, v: value, kind: KIND_NAMES.get(kind) })

/** @param {Stored[]} content */
const longCsv = (content) =>
  stringify(
    [
      ['sensor', 'metric', 'time', 'v', 'kind'],
      ...content.map(({ sensor, metric, timeMs, kind, value }) => [
        ...[sensor, metric, new Date(timeMs).toISOString()],
        ...[typeof value === 'string' ? value : jsonText(value), KIND_NAMES.get(kind)],
      ]),
    ],
    { quoted: true },
  )

/** @param {string} name */
const escaped = (name) => name.replace(/[,= ]/g, '\\$&')

/** @param {Stored} one */
function line({ sensor, metric, timeMs, kind, value }) {
  const text = kind === KIND.integer ? `${value}i` : jsonText(value)
  const quoted = `"${String(value).replace(/["\\]/g, '\\$&')}"`
  const field = kind === KIND.text ? quoted : text
  return `${escaped(metric)},sensor=${escaped(sensor)} value=${field} ${timeMs}000000`
}

/**
 * @param {'csv' | 'ndjson'} format
 * @param {Stored[]} content
 * @param {'ms' | 'iso'} [times]
 */
async function exported(format, content, times) {
  const sensors = [...new Set(content.map(({ sensor }) => sensor))]
  const read = async (/** @type {{ sensorId: string }} */ { sensorId: id }) => ({
    rows: content
      .filter(({ sensor }) => sensor === id)
      .map(({ metric, timeMs, kind, value }) => ({ metric, t: timeMs, seq: 0, kind, value })),
  })
  const pages = exportOf({
    format: FORMATS[format],
    times,
    sensors: sensors.map((name) => ({ id: name, name })),
    reader: /** @type {any} */ ({ read }),
    question: { metrics: undefined, fromMs: undefined, toMs: undefined },
    signal: new AbortController().signal,
  })
  let body = ''
  for await (const page of pages) body += page
  return Buffer.from(body)
}

/** A body in pieces, as it comes from a network. @param {Buffer} body */
async function* pieces(body) {
  for (let at = 0; at < body.length; at += 1_000) yield body.subarray(at, at + 1_000)
}

/** @type {Record<string, Door>} */
const DOORS = {
  mqtt: (content) =>
    content.flatMap(({ sensor, metric, timeMs, kind, value }) => {
      const topic = `sensors/${sensor}/${metric}`
      const reading = jsonText({ t: timeMs, v: value, kind: KIND_NAMES.get(kind) })
      return said(topic, Buffer.from(reading)).map(
        (one) => /** @type {Stored} */ ({ sensor, ...one }),
      )
    }),
  json: (content) => posted('json', Buffer.from(`[ ${content.map(longObject).join(' ,\n')} ]`)),
  ndjson: (content) => posted('ndjson', Buffer.from(content.map(longObject).join('\r\n'))),
  csv: (content) => posted('csv', Buffer.from(longCsv(content))),
  line: (content) => {
    const spoken = content.filter(({ kind }) => kind !== KIND.location)
    const said = posted('line', Buffer.from(spoken.map(line).join('\n'))).values()
    // Line protocol has no places.
    return content.map((one) =>
      one.kind === KIND.location ? one : /** @type {Stored} */ (said.next().value),
    )
  },
  'export as csv, import': async (content) =>
    imported(await csvRecords(pieces(await exported('csv', content)), undefined)),
  'export as ndjson, import': async (content) =>
    imported(ndjsonRecords(pieces(await exported('ndjson', content)))),
  'export as csv with ISO times, import': async (content) =>
    imported(await csvRecords(pieces(await exported('csv', content, 'iso')), undefined)),
  'export as ndjson with ISO times, post': async (content) =>
    posted('ndjson', await exported('ndjson', content, 'iso')),
  'export as csv, post': async (content) => posted('csv', await exported('csv', content)),
  'export as ndjson, post': async (content) => posted('ndjson', await exported('ndjson', content)),
}

/** In an order of their own: an export goes by sensor and time. @param {Stored[]} content */
const sorted = (content) =>
  [...content].sort(
    (a, b) =>
      a.timeMs - b.timeMs || (`${a.sensor}/${a.metric}` < `${b.sensor}/${b.metric}` ? -1 : 1),
  )

describe('a value of any kind', () => {
  // A seed that failed is tried again with SEED=…
  test(`comes out of every door as it went into any other (SEED=${SEED})`, async () => {
    for (let seed = SEED; seed < SEED + ROUNDS; seed++) {
      let content = sorted(randomContent(seeded(seed)))
      const before = content
      // One door after the other: what comes out of each goes into the next one.
      for (const [name, door] of shuffled(Object.entries(DOORS), seeded(seed))) {
        content = sorted(await door(content))
        expect({ seed, name, content }).toEqual({ seed, name, content: before })
      }
    }
  })
})

/** @template T  @param {T[]} list  @param {(below: number) => number} random */
function shuffled(list, random) {
  for (let at = list.length - 1; at > 0; at--) {
    const other = random(at + 1)
    ;[list[at], list[other]] = [list[other], list[at]]
  }
  return list
}

// What is refused: a measurement, its parts as JSON spells them.

/** @typedef {{ metric?: string, t?: string, v?: string, kind?: string }} Spelled */

const OBJECT = ({ metric = '"m"', t = `${NOW}`, v = '1', kind = '' }) =>
  `{"sensor":"s","metric":${metric},"t":${t},"v":${v}${kind && `,"kind":"${kind}"`}}`

/** @param {string} json */
const cell = (json) => (json.startsWith('"') ? JSON.parse(json) : json)

/** @param {Spelled} spelled */
const CSV_ROW = ({ metric = '"m"', t = `${NOW}`, v = '1', kind = '' }) =>
  stringify([
    ['sensor', 'metric', 't', 'v', 'kind'],
    ['s', cell(metric), cell(t), cell(v), kind],
  ])

/** @type {import('fastify').FastifyInstance} */
let app
beforeAll(async () => {
  app = await build(createFakeStore())
})
afterAll(() => app.close())

/** The reason for which ingest refuses it. @param {() => { timeMs: number | undefined }[]} parse */
function reasonOf(parse) {
  try {
    for (const { timeMs } of parse()) {
      const fault = ageFault(timeMs, Date.now())
      if (fault) return fault
    }
    return undefined
  } catch (error) {
    return /** @type {Error} */ (error).message
  }
}

/** @param {AsyncIterable<import('../src/import/records.js').FileRecord>} records */
async function importReason(records) {
  for await (const { object, fault } of records) {
    if (!object) return fault
    return reasonOf(() => understand(object, undefined, Date.now()).measurements)
  }
  return undefined
}

/** @param {string} query  @param {string} payload  @param {string} type */
async function decodeReason(query, payload, type) {
  const headers = { ...HOST, 'content-type': type }
  const request = {
    method: /** @type {const} */ ('POST'),
    url: `/v1/decode${query}`,
    payload,
    headers,
  }
  return (await app.inject(request)).json().refused[0]?.reason
}

/** @typedef {string | undefined} Reason */
/** @type {Record<string, (spelled: Spelled) => Reason | Promise<Reason>>} */
const REFUSERS = {
  json: (one) => reasonOf(() => posted('json', Buffer.from(`[${OBJECT(one)}]`))),
  ndjson: (one) => reasonOf(() => posted('ndjson', Buffer.from(OBJECT(one)))),
  csv: (one) => reasonOf(() => posted('csv', Buffer.from(CSV_ROW(one)))),
  'import of ndjson': (one) => importReason(ndjsonRecords(pieces(Buffer.from(OBJECT(one))))),
  'import of csv': async (one) =>
    importReason(await csvRecords(pieces(Buffer.from(CSV_ROW(one))), undefined)),
  'decode of json': (one) => decodeReason('', OBJECT(one), 'application/json'),
  'decode of csv': (one) => decodeReason('', CSV_ROW(one), 'text/csv'),
  mqtt: ({ metric = '"m"', t = `${NOW}`, v = '1', kind = '' }) =>
    reasonOf(() => {
      const topic = `sensors/s/${JSON.parse(metric)}`
      const of = kind && `,"kind":"${kind}"`
      return said(topic, Buffer.from(`{"t":${t},"v":${v}${of}}`))
    }),
  'decode of mqtt': ({ metric = '"m"', t = `${NOW}`, v = '1', kind = '' }) => {
    const query = `?topic=${encodeURIComponent(`sensors/s/${JSON.parse(metric)}`)}`
    const said = kind && `,"kind":"${kind}"`
    return decodeReason(query, `{"t":${t},"v":${v}${said}}`, 'x/y')
  },
}

describe('what is refused at one door is refused at every one, for the same reason', () => {
  const YEAR_1999 = 915_148_800
  test.each(
    /** @type {[Spelled, string][]} */ ([
      [{ t: '"noon"' }, 't is not a time but "noon": give ISO 8601, or s, ms, us or ns since 1970'],
      [{ t: '"2026-02-30"' }, 't is not a time but "2026-02-30"'],
      [{ t: '"1999-01-01"' }, 't is 1999-01-01T00:00:00.000Z, before the year 2000'],
      [{ t: `${YEAR_1999}` }, 't is 1999-01-01T00:00:00.000Z, before the year 2000'],
      [{ t: `${YEAR_1999}000` }, 't is 1999-01-01T00:00:00.000Z, before the year 2000'],
      [{ t: `${YEAR_1999}000000` }, 't is 1999-01-01T00:00:00.000Z, before the year 2000'],
      [{ t: `${YEAR_1999}000000999` }, 't is 1999-01-01T00:00:00.000Z, before the year 2000'],
      [{ t: '-1' }, 't is 1969-12-31T23:59:59.999Z, before the year 2000'],
      [{ t: '4000000000' }, 't is 2096-10-02T07:06:40.000Z, more than 24 hours ahead'],
      [{ metric: '""' }, 'the metric must have 1 to 128 characters'],
      [{ metric: `"${'x'.repeat(129)}"` }, 'the metric must have 1 to 128 characters'],
      [{ metric: '"a\\u202eb"' }, 'no control, direction or invisible characters'],
      [{ metric: '"a\\u0000b"' }, 'no control, direction or invisible characters'],
      [{ v: '1e999' }, 'the value of m is too large for a double'],
      [{ v: '-1e999' }, 'the value of m is too large for a double'],
      [{ v: '{"lat":91,"lon":0}' }, 'the value of m is not a place'],
      [{ v: `"${'x'.repeat(65_537)}"` }, 'the value of m is a text of more than 65536 bytes'],
      [{ v: '9223372036854775808', kind: 'integer' }, 'is not a whole number of at most 64 bits'],
      [{ v: '1.5', kind: 'integer' }, 'is not a whole number of at most 64 bits'],
      [{ v: '"on"', kind: 'number' }, 'the value of m is not of kind number'],
      [{ v: '1', kind: 'double' }, 'the kind of m is none of number, integer'],
    ]),
  )('%j: %s', async (spelled, reason) => {
    const reasons = await Promise.all(
      Object.entries(REFUSERS).map(async ([name, refuse]) => [name, await refuse(spelled)]),
    )
    expect(reasons).toEqual(
      Object.keys(REFUSERS).map((name) => [name, expect.stringContaining(reason)]),
    )
    expect(new Set(reasons.map(([, said]) => said)).size).toBe(1)
  })

  test.each([
    ['m,sensor=s value=1 noon', 't is not a time but "noon"'],
    [`m,sensor=s value=1 ${YEAR_1999}000000999`, '1999-01-01T00:00:00.000Z, before the year 2000'],
    ['m,sensor=s value=1e999', 'the value of m is too large for a double'],
    ['m,sensor=s value=9223372036854775808i', 'is not a whole number of at most 64 bits'],
    ['a\u202eb,sensor=s value=1', 'no control, direction or invisible characters'],
    [`m,sensor=s value="${'x'.repeat(65_537)}"`, 'is a text of more than 65536 bytes'],
  ])('by line protocol, too: %s', async (text, reason) => {
    const spelled = text.replace('\\u202e', '\u202e')
    const said = reasonOf(() => posted('line', Buffer.from(spelled)))
    expect(said).toContain(reason)
    expect(await decodeReason('', spelled, 'text/plain')).toBe(said)
  })

  test('halves of surrogate pairs in names and texts', async () => {
    const doors = ['json', 'ndjson', 'import of ndjson', 'decode of json']
    for (const name of doors) {
      const refuse = REFUSERS[name]
      expect(await refuse({ metric: '"a\\ud800"' })).toContain('the metric must have')
      expect(await refuse({ v: '"a\\udfff"' })).toContain('half of a surrogate pair')
    }
    expect(reasonOf(() => posted('json', Buffer.from('{"sensor":"\\ud800","m":1}')))).toContain(
      'the sensor must have',
    )
  })

  test('bytes that are not UTF-8', async () => {
    const latin1 = (/** @type {string} */ text) => Buffer.from(text, 'latin1')
    const object = latin1('{"sensor":"s","t":1767225600000,"m":"\xfc"}')
    const csv = latin1('sensor,t,m\ns,1767225600000,\xfc\n')
    expect(
      await Promise.all([
        reasonOf(() => posted('json', object)),
        reasonOf(() => posted('ndjson', object)),
        reasonOf(() => posted('csv', csv)),
        reasonOf(() => posted('line', latin1('m v="\xfc"'))),
        reasonOf(() => said('sensors/s/m', latin1('"\xfc"'))),
        importReason(ndjsonRecords(pieces(object))),
        importReason(await csvRecords(pieces(csv), undefined)),
      ]),
    ).toEqual(Array.from({ length: 7 }, () => expect.stringContaining('is not UTF-8')))
    // One line is refused, the others are not.
    const two = Buffer.concat([latin1('m,sensor=\xfc v=1\n'), Buffer.from('m,sensor=à v=1')])
    expect(itemsOf('line', two)).toHaveLength(2)
    expect(parseItem(itemsOf('line', two)[1]).sensor).toBe('à')
  })

  test('an item of CBOR or MessagePack, whose others are decoded', async () => {
    // [{"sensor": "a", "m": 1}, {"m": 1}]
    const cbor = Buffer.from('82a26673656e736f726161616d01a1616d01', 'hex')
    const messagePack = Buffer.from('9282a673656e736f72a161a16d0181a16d01', 'hex')
    const decode = (/** @type {string} */ type, /** @type {Buffer} */ payload) =>
      app.inject({
        method: 'POST',
        url: '/v1/decode',
        payload,
        headers: { ...HOST, 'content-type': type },
      })
    for (const [type, body] of /** @type {const} */ ([
      ['application/cbor', cbor],
      ['application/msgpack', messagePack],
      ['application/vnd.msgpack', messagePack],
    ])) {
      expect((await decode(type, body)).json()).toMatchObject({
        items: [{ sensor: 'a', metric: 'm', v: 1 }],
        refused: [{ item: 1, reason: 'the sensor is missing' }],
      })
      const broken = await decode(type, body.subarray(0, body.length - 1))
      expect([broken.statusCode, broken.json().type]).toEqual([
        400,
        'urn:sandglass:problem:invalid-body',
      ])
    }
  })

  test('a column twice', async () => {
    const csv = Buffer.from('sensor,t,a,a\ns,1767225600000,1,2\n')
    const reason = 'two columns of the CSV are called "a"'
    expect(() => posted('csv', csv)).toThrow(reason)
    await expect(csvRecords(pieces(csv), undefined)).rejects.toThrow(reason)
  })
})
