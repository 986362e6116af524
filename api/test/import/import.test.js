import { request } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { parseItem } from '@sandglass/common/bodies'
import { Problem } from '@sandglass/common/problem'
import { sensorId } from '@sandglass/common/sensor'
import { Registry } from 'prom-client'
import { buildApp } from '../../src/app.js'
import { createFakeStore, NO_KEYS } from '../support/fake-store.js'

const T = 1_767_225_600_000
const BYTES_MAX = 4_000_000

/** @typedef {{ status: number, type: undefined, retryAfter: undefined, body: string }} Answer */

/** @param {number} status  @param {object} body  @returns {Answer} */
const answer = (status, body) => ({
  status,
  type: undefined,
  retryAfter: undefined,
  body: JSON.stringify(body),
})

/** Ingest as the api sees it: what it was sent, and what it says to that. */
class FakeIngest {
  /** @type {string[][]} */
  batches = []
  /** @type {(lines: string[]) => Promise<Answer> | Answer} */
  answer = (lines) => answer(200, { received: lines.length, stored: lines.length, refused: [] })

  stats = async () => ({})

  /** @type {string[]} */
  urls = []

  /** @param {string} to  @param {object} _headers  @param {Buffer | undefined} body */
  async post(to, _headers, body) {
    this.urls.push(to)
    const lines = String(body).trimEnd().split('\n')
    const says = await this.answer(lines)
    this.batches.push(lines)
    return says
  }

  /** What was sent, as ingest understands it. */
  get rows() {
    return this.batches.flat().flatMap((line) => {
      const { sensor, measurements } = parseItem({ format: 1, payload: Buffer.from(line) })
      return measurements.map(({ metric, timeMs, value }) => [sensor, metric, timeMs, value])
    })
  }
}

/** @type {FakeIngest} */
let ingest
/** @type {import('../../src/store.js').Store} */
let store
/** @type {Awaited<ReturnType<typeof buildApp>>} */
let app
/** @type {string} */
let url

beforeEach(async () => {
  ingest = new FakeIngest()
  store = createFakeStore()
  app = await buildApp({
    store,
    isDatabaseUp: () => false,
    ingest,
    registry: new Registry(),
    limits: { requestsPerS: 0, bodyBytesMax: 1_024, importBytesMax: BYTES_MAX, streamsMax: 1 },
    isLoopback: true,
    ...NO_KEYS,
  })
  url = `${await app.listen({ port: 0, host: '127.0.0.1' })}/v1/import`
})
afterEach(() => app.close())

/**
 * @param {string} query
 * @param {string | Buffer} body
 * @param {Record<string, string>} [headers]
 */
async function send(query, body, headers = {}) {
  const response = await fetch(`${url}?${query}`, {
    method: 'POST',
    headers,
    body: typeof body === 'string' ? body : new Uint8Array(body),
  })
  const text = await response.text()
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  return { status: response.status, lines, last: lines.at(-1) }
}

/** @param {number} from  @param {number} to */
const csv = (from, to) =>
  Array.from({ length: to - from }, (_, index) => `${T + from + index},${from + index}\n`).join('')

describe('an import', () => {
  test('stores a wide CSV that is larger than a body, in batches that ingest takes', async () => {
    const { status, last } = await send('format=csv&sensor=s', `time,a\n${csv(0, 12_345)}`)
    expect(status).toBe(200)
    expect(last).toEqual({
      line: 12_346,
      rows: 12_345,
      stored: 12_345,
      refused_rows: 0,
      refused: [],
      done: true,
      retention: [
        {
          retention: '30d',
          sensors: 1,
          new_sensors: 0,
          measurements: 12_345,
          expires: expect.any(Number),
          says: expect.stringMatching(/^12345 measurements of 1 sensor \(0 new\), kept until 2/),
        },
      ],
    })
    expect(ingest.rows).toEqual(
      Array.from({ length: 12_345 }, (_, index) => ['s', 'a', T + index, index]),
    )
    expect(ingest.batches.length).toBeGreaterThan(2)
    for (const batch of ingest.batches) expect(batch.length).toBeLessThanOrEqual(5_000)
  })

  test('says when rows will expire, of sensors that exist and of new ones', async () => {
    const rows = ['s', 'new', 'new', 'told'].map((sensor, at) => ({ sensor, a: at, t: T }))
    const told = { sensor: 'told', about: { retention: 'keep', unit: '°C', tags: { a: 'b' } } }
    const file = [rows[0], rows[1], rows[2], told, rows[3]]
      .map((line) => JSON.stringify(line))
      .join('\n')
    for (const query of ['dry_run=true', 'from_line=1']) {
      const { last } = await send(`format=ndjson&${query}`, file)
      expect(last).toMatchObject({ done: true, rows: 4, stored: 4, refused_rows: 0 })
      const shown = last.retention.map((/** @type {any} */ one) => [
        ...[one.retention, one.sensors, one.new_sensors, one.measurements],
        one.expires && Math.round((one.expires - Date.now()) / 86_400_000),
      ])
      expect(shown.slice(0, 1)).toEqual([['30d', 2, 1, 3, 30]])
      expect(shown.slice(1)).toEqual([['keep', 1, query === 'dry_run=true' ? 1 : 0, 1, null]])
      expect(last.retention[1].says).toMatch(/, kept for ever$/)
    }
    // A dry run changes nothing; the other one has restored what the file told.
    const sensor = await store.sensor(sensorId('told'))
    expect(sensor).toMatchObject({ name: 'told', unit: '°C', tags: { a: 'b' } })
    expect(await store.layouts(sensorId('told'))).toMatchObject([{ className: 'keep' }])
  })

  test('gives new sensors the class that is asked for, and names those that keep theirs', async () => {
    const file = ['s', 'new'].map((sensor) => JSON.stringify({ sensor, a: 1, t: T })).join('\n')
    const { last } = await send('format=ndjson&retention=400d', file)
    expect(ingest.urls).toEqual(['/v1/measurements?retention=400d'])
    expect(last.kept).toEqual([{ sensor: 's', retention: '30d' }])
    expect(last.kept_note).toContain('PATCH /v1/sensors/{sensor}')
    expect(last.retention).toMatchObject([{ retention: '30d' }, { retention: '400d' }])
    expect((await send('format=ndjson&retention=5d', file)).status).toBe(400)
  })

  test('never overwrites what a person has said, nor gives back a sensor that was deleted', async () => {
    const about = { retention: 'keep', type: 'oven', tags: { old: 'yes' } }
    const line = (/** @type {string} */ sensor) => `${JSON.stringify({ sensor, about })}\n`
    const known = { id: sensorId('mine'), name: 'mine', type: undefined, createdMs: 1 }
    await store.putSensor({ ...known, unit: 'W', tags: {}, hidden: false })
    await store.putSensor({
      ...known,
      id: sensorId('gone'),
      name: 'gone',
      unit: undefined,
      tags: {},
      hidden: true,
    })
    const row = JSON.stringify({ sensor: 's', a: 1, t: T })
    const csvRow = `s,,,"${JSON.stringify(about).replaceAll('"', '""')}",about\n`
    await send('format=ndjson', line('mine') + line('gone') + row)
    expect(await store.sensor(known.id)).toMatchObject({ type: undefined, unit: 'W', tags: {} })
    expect(await store.sensor(sensorId('gone'))).toMatchObject({ hidden: true, type: undefined })
    // Of a sensor without words they are restored, as a CSV tells them, too.
    const { last } = await send(
      'format=csv',
      `sensor,metric,t,v,kind\n${csvRow}s,a,${T},1,number\n`,
    )
    expect(last).toMatchObject({ rows: 1, stored: 1, refused_rows: 0 })
    expect(await store.sensor(sensorId('s'))).toMatchObject({ type: 'oven', tags: { old: 'yes' } })
    expect(await store.layouts(sensorId('s'))).toMatchObject([{ className: '30d' }])
    const wrong = JSON.stringify({ sensor: 'x', about: { retention: 'always' } })
    const refused = (await send('format=ndjson', `${wrong}\n${row}`)).last
    expect(refused.refused).toMatchObject([
      { line: 1, reason: expect.stringContaining('about.retention must be one of') },
    ])
  })

  test('takes gzip, and what was exported as it is', async () => {
    const lines = [
      { sensor: 's', metric: 'm', t: T, v: { lat: 1, lon: 2 } },
      { sensor: 's', metric: 'n', t: T, v: 'x' },
      { sensor: 'o', a: 1, b: true, t: '2026-01-01' },
    ].map((line) => JSON.stringify(line))
    const { last } = await send('format=ndjson', gzipSync(lines.join('\n')), {
      'content-encoding': 'gzip',
      'content-type': 'application/x-www-form-urlencoded',
    })
    expect(last).toMatchObject({ done: true, line: 3, stored: 3 })
    expect(ingest.rows).toEqual([
      ['s', 'm', T, { lat: 1, lon: 2 }],
      ['s', 'n', T, 'x'],
      ['o', 'a', T, 1],
      ['o', 'b', T, true],
    ])
  })

  test('tells what is refused by line, whoever refuses it, and stores the rest', async () => {
    ingest.answer = (lines) =>
      answer(400, {
        detail: 'one is refused',
        received: lines.length,
        stored: lines.length - 1,
        refused: [{ item: 1, reason: 'the sensor was deleted' }],
      })
    const { last } = await send('format=csv&sensor=s', `t,a\n${T},1\nnoon,2\n\n${T + 1},3\n4\n`)
    expect(last).toMatchObject({ done: true, line: 6, rows: 4, stored: 1, refused_rows: 3 })
    expect(last.refused).toEqual([
      { line: 3, reason: expect.stringContaining('t is not a time but "noon"') },
      { line: 5, reason: 'the sensor was deleted' },
      { line: 6, reason: '1 cells, but 2 columns' },
    ])
  })

  test('shows a few of many refused lines, and counts them all', async () => {
    const { last } = await send('format=ndjson', '{}\n'.repeat(7_000))
    expect(last).toMatchObject({ done: true, rows: 7_000, stored: 0, refused_rows: 7_000 })
    expect(last.refused.map((/** @type {any} */ { line }) => line)).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 1),
    )
    expect(ingest.batches).toEqual([])
  })

  test('dry, says what it would store, and sends nothing', async () => {
    const text = `t,a,b\n${T},1,x\n${T + 5},2,\n${T + 1},true,\nnoon,1,1\n`
    const { last } = await send('format=csv&sensor=s&dry_run=true', text)
    expect(last).toMatchObject({ done: true, line: 5, rows: 4, stored: 3, refused_rows: 1 })
    expect(last.preview).toEqual({
      measurements: 4,
      from: T,
      last: T + 5,
      in_other_series: 0,
      series: [
        { sensor: 's', metric: 'a', measurements: 3, kinds: { number: 2, boolean: 1 } },
        { sensor: 's', metric: 'b', measurements: 1, kinds: { text: 1 } },
      ],
    })
    expect(ingest.batches).toEqual([])
  })

  test('dry, names a limited number of series, and counts the others', async () => {
    const lines = Array.from({ length: 1_200 }, (_, index) =>
      JSON.stringify({ sensor: `s${index}`, t: T, a: 1 }),
    )
    const { last } = await send('format=ndjson&dry_run=true', lines.join('\n'))
    expect(last.preview).toMatchObject({ measurements: 1_200, in_other_series: 200 })
    expect(last.preview.series).toHaveLength(1_000)
  })

  test('goes on from the line up to which it came, when ingest fails in its midst', async () => {
    const text = `t,a\n${csv(0, 12_000)}`
    const whole = ingest.answer
    ingest.answer = (lines) =>
      ingest.batches.length < 1 ? whole(lines) : answer(500, { detail: 'a fault' })
    const { last } = await send('format=csv&sensor=s', text)
    expect(last).toMatchObject({ done: false, line: 5_001, rows: 5_000, stored: 5_000 })
    expect(last.problem).toMatchObject({ status: 500, detail: 'ingest: a fault', from_line: 5_002 })
    ingest.batches = []
    ingest.answer = whole
    const second = await send(`format=csv&sensor=s&from_line=${last.problem.from_line}`, text)
    expect(second.last).toMatchObject({ done: true, line: 12_001, rows: 7_000, stored: 7_000 })
    expect(ingest.rows[0]).toEqual(['s', 'a', T + 5_000, 5_000])
  })

  test('reads on what a client still sends of a file that it gave up', async () => {
    const row = `${JSON.stringify({ sensor: 's', t: T, a: 'x'.repeat(1_000) })}\n`
    ingest.answer = () => answer(500, { detail: 'a fault' })
    const { last } = await send('format=ndjson', row.repeat(3_500))
    expect(last).toMatchObject({ done: false, line: 0, problem: { from_line: 1 } })
    const tooLarge = await send('format=csv', row.repeat(3_500))
    expect(tooLarge.status).toBe(400)
  })

  test('waits for an ingest that is away or full, and says meanwhile how far it came', async () => {
    let refusals = 3
    const whole = ingest.answer
    ingest.answer = (lines) => {
      refusals -= 1
      if (refusals === 2) throw new Problem('ingest-away', 'not now')
      return refusals >= 0 ? answer(503, { detail: 'full' }) : whole(lines)
    }
    const { lines, last } = await send('format=csv&sensor=s', `t,a\n${csv(0, 10)}`)
    expect(last).toMatchObject({ done: true, stored: 10 })
    expect(lines.length).toBeGreaterThan(2)
    expect(lines[1]).toEqual({ line: 0, rows: 0, stored: 0, refused_rows: 0, refused: [] })
    expect(ingest.batches.at(-1)).toHaveLength(10)
  })

  test('reads no faster than ingest stores', async () => {
    /** @type {(says: Answer) => void} */
    let go = () => {}
    ingest.answer = () =>
      new Promise((resolve) => {
        go = resolve
      })
    const row = `${JSON.stringify({ sensor: 's', t: T, a: 'x'.repeat(1_000) })}\n`
    const upload = request(`${url}?format=ndjson`, { method: 'POST' })
    upload.on('error', () => {})
    let sent = 0
    while (upload.write(row.repeat(64)) || upload.writableLength < BYTES_MAX) {
      sent += 64
      await new Promise((resolve) => setImmediate(resolve))
      if (sent > 20_000) break
    }
    // Two batches, and what sockets hold, have left; the rest waits on this side.
    expect(upload.writableLength).toBeGreaterThanOrEqual(BYTES_MAX)
    expect(ingest.batches).toHaveLength(0)
    upload.destroy()
    go(answer(200, { received: 0, stored: 0, refused: [] }))
  })

  test.each([
    ['format=xml', 'x', 400, 'format'],
    ['', 'x', 400, 'format'],
    ['format=csv', 't,a\n1,2\n', 400, 'names no column sensor'],
    ['format=csv&sensor=s', 't\n1\n', 400, 'no column of values'],
    ['format=csv&sensor=s&from_line=0', 't,a\n', 400, 'from_line'],
  ])('%s of %j is %d', async (query, body, status, detail) => {
    const refused = await send(query, body)
    expect([refused.status, refused.last.detail]).toEqual([status, expect.stringContaining(detail)])
  })

  test.each([
    ['format=ndjson', Buffer.from('no gzip'), 'header'],
    ['format=ndjson', gzipSync(`{}\n`.repeat(9_999)).subarray(0, 40), 'end of file'],
    ['format=ndjson', gzipSync(' '.repeat(BYTES_MAX + 1)), `${BYTES_MAX} bytes`],
  ])('what cannot be unpacked within its limit is broken off: %s', async (query, body, detail) => {
    const { last } = await send(query, body, { 'content-encoding': 'gzip' })
    expect(last).toMatchObject({ done: false, problem: { status: 400 } })
    expect(last.problem.detail).toContain(detail)
  })

  test('stores what had come when the connection breaks, and told how far that is', async () => {
    const upload = request(`${url}?format=ndjson`, { method: 'POST' })
    upload.on('error', () => {})
    const lines = Array.from({ length: 6_000 }, (_, index) =>
      JSON.stringify({ sensor: 's', t: T + index, a: index }),
    )
    upload.write(`${lines.join('\n')}\n{"sensor":"s",`)
    const response = await new Promise((/** @type {(value: any) => void} */ resolve) => {
      upload.once('response', resolve)
    })
    response.on('error', () => {})
    let text = ''
    await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      response.setEncoding('utf8').on('data', (/** @type {string} */ more) => {
        text += more
        if (text.includes('"line":5000')) resolve()
      })
    })
    upload.destroy()
    for (let tries = 0; ingest.rows.length < 6_000; tries++) {
      expect(tries).toBeLessThan(500)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    expect(ingest.rows.map(([, , , value]) => value)).toEqual(lines.map((_, index) => index))
  })

  test('is refused beyond the limit, and there is room again when one is cut off', async () => {
    const open = [1, 2].map(() => {
      const upload = request(`${url}?format=ndjson`, { method: 'POST' })
      upload.on('error', () => {})
      upload.flushHeaders()
      return upload
    })
    await Promise.all(
      open.map((upload) => new Promise((resolve) => upload.once('response', resolve))),
    )
    const refused = await send('format=ndjson', '{}')
    expect([refused.status, refused.last.title]).toEqual([503, 'Too many imports run'])
    for (const upload of open) upload.destroy()
    for (let tries = 0; tries < 100; tries++) {
      const { status } = await send('format=ndjson', '{}')
      if (status === 200) break
      expect(tries).toBeLessThan(99)
    }
  })
})
