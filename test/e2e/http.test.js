// Measurements over HTTP and as InfluxDB line protocol: the way from the api's port to a page of
// what was stored, with the database and without it.
import { gzipSync } from 'node:zlib'
import { tableFromIPC } from 'apache-arrow'
import cassandra from 'cassandra-driver'
import mqtt from 'mqtt'
import { unaccounted } from '../support/accounts.js'
import { SPOOLED_LATE, startStack } from '../support/stack.js'
import { getJson, readMeasurements } from '../support/stored.js'

const T = Date.UTC(2024, 4, 1, 12)
const ROWS = 5_000

describe('over HTTP', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack

  beforeAll(async () => {
    stack = await startStack({ ingestEnv: SPOOLED_LATE })
  })
  afterAll(() => stack?.end())

  /**
   * @param {string} path
   * @param {string | Buffer} body
   * @param {Record<string, string>} headers
   */
  async function post(path, body, headers) {
    const response = await fetch(`${stack.apiUrl}${path}`, {
      method: 'POST',
      headers,
      body: typeof body === 'string' ? body : new Uint8Array(body),
    })
    const text = await response.text()
    return { status: response.status, answer: text === '' ? undefined : JSON.parse(text) }
  }

  test('a CSV of thousands of rows is read back value by value', async () => {
    const lines = Array.from({ length: ROWS }, (_, index) => `table,${T + index},${index / 4}`)
    const { status, answer } = await post(
      '/v1/measurements',
      `sensor,time,level\n${lines.join('\n')}\n`,
      { 'content-type': 'text/csv' },
    )
    expect([status, answer]).toEqual([200, { received: ROWS, stored: ROWS, refused: [] }])
    await stack.emptied()
    const { items } = await readMeasurements(stack.apiUrl, 'table', { limit: 1000 })
    expect(
      items.map(({ timeMs, value }) => [timeMs, value]).sort(([a], [b]) => Number(a) - Number(b)),
    ).toEqual(Array.from({ length: ROWS }, (_, index) => [T + index, index / 4]))
  })

  test.each([
    ['csv', 'text/csv'],
    ['ndjson', 'application/x-ndjson'],
  ])(
    'it is exported as %s, and stored again as it comes',
    async (format, type) => {
      const json = { 'content-type': 'application/json' }
      const odd = [
        { metric: 'at', v: '{"lat":1.5,"lon":-2}' },
        ...[
          '"a \\"quoted\\", text\\nof two lines"',
          '""',
          '" x "',
          '"5"',
          '"{\\"lat\\":1,\\"lon\\":2}"',
        ].map((v, index) => ({ metric: `note${index}`, v })),
        { metric: 'on', v: 'true' },
        { metric: 'whole', v: '5,"kind":"integer"' },
        { metric: 'long', v: '9007199254740993' },
        { metric: 'large', v: '1e300' },
      ].map(
        ({ metric, v }) =>
          `{"sensor":"table","metric":"${metric}","t":"2024-05-01T12:00Z","v":${v}}`,
      )
      expect((await post('/v1/measurements', `[${odd.join()}]`, json)).status).toBe(200)
      const response = await fetch(`${stack.apiUrl}/v1/export?sensor=table&format=${format}`)
      expect(response.headers.get('content-disposition')).toContain(`table.${format}`)
      const text = (await response.text()).replaceAll(/^table|"table"/gm, (name) =>
        name.replace('table', `again-${format}`),
      )
      const { status, answer } = await post('/v1/measurements', text, { 'content-type': type })
      expect([status, answer.stored]).toEqual([200, ROWS + odd.length])
      await stack.emptied()
      const [first, again] = await Promise.all(
        ['table', `again-${format}`].map((sensor) =>
          readMeasurements(stack.apiUrl, sensor, { limit: 1000 }),
        ),
      )
      const essence = (/** @type {typeof first} */ { items }) =>
        items.map(({ metric, timeMs, seq, value }) => ({ metric, timeMs, seq, value }))
      expect(essence(again)).toEqual(essence(first))
      // With the kind of each value.
      const asExported = async (/** @type {string} */ sensor) =>
        (await fetch(`${stack.apiUrl}/v1/export?sensor=${sensor}&format=ndjson`)).text()
      const [firstText, againText] = await Promise.all(['table', `again-${format}`].map(asExported))
      expect(againText.replaceAll(`"again-${format}"`, '"table"')).toBe(firstText)
    },
    60_000,
  )

  test('what Telegraf writes is stored, integers with all their digits', async () => {
    const lines =
      `cpu,cpu=cpu0,host=h usage_idle=98.5 ${T}000000\n` +
      `disk,path=/home,sensor=box free=9007199254740993i,full=false ${T}000000\n`
    const headers = { 'content-type': 'text/plain; charset=utf-8', 'content-encoding': 'gzip' }
    const { status } = await post('/api/v2/write?bucket=b&org=o', gzipSync(lines), headers)
    expect(status).toBe(204)
    const response = await fetch(`${stack.apiUrl}/v1/sensors/box/latest`)
    const text = await response.text()
    expect(text).toContain('"metric":"disk.free"')
    expect(text).toContain('"v":9007199254740993')
    const cpu = encodeURIComponent('cpu,cpu=cpu0,host=h')
    const { items } = await getJson(`${stack.apiUrl}/v1/sensors/${cpu}/latest`)
    expect(items).toMatchObject([{ metric: 'usage_idle', t: T, v: 98.5 }])
    const arrow = await fetch(`${stack.apiUrl}/v1/export?sensor=box&format=arrow`)
    const box = { name: 'box', t: T, number: null }
    const table = tableFromIPC(new Uint8Array(await arrow.arrayBuffer()))
    expect(
      table.toArray().map(({ name, metric, t, number, integer, boolean }) => ({
        name,
        metric,
        t: Number(t),
        number,
        integer,
        boolean,
      })),
    ).toEqual([
      { ...box, metric: 'disk.free', integer: 2n ** 53n + 1n, boolean: null },
      { ...box, metric: 'disk.full', integer: null, boolean: false },
    ])
  })

  test('line protocol comes over MQTT too, and is acknowledged when it is stored', async () => {
    const client = await mqtt.connectAsync(stack.mqttUrl, { reconnectPeriod: 0 })
    const lines = `temp,sensor=lines value=1 ${T}000000\nbroken\ntemp,sensor=lines value=2 ${T + 1}000000`
    await client.publishAsync('telegraf/host/temp', lines, { qos: 1 })
    await client.endAsync()
    const { items } = await readMeasurements(stack.apiUrl, 'lines', { limit: 10 })
    expect(items.map(({ value }) => value)).toEqual([2, 1])
    const letters = await getJson(`${stack.apiUrl}/v1/dead-letters?limit=1`)
    expect(letters.items).toMatchObject([
      { topic: 'telegraf/host/temp', payload: 'broken', reason: expect.stringContaining('fields') },
    ])
  })

  test('what is no measurement is named, and what it would become is shown', async () => {
    const bad = ['"t":"now","m":2', '"t":915148800,"m":2', '"m":1e999', '"t":1714564800000']
    const lines = [`"t":1714564800000,"m":1`, ...bad].map((rest) => `{"sensor":"http",${rest}}`)
    const body = lines.join('\n')
    const headers = { 'content-type': 'application/x-ndjson' }
    const decoded = await post('/v1/decode', body, headers)
    expect(decoded.answer).toMatchObject({
      items: [{ sensor: 'http', metric: 'm', t: T, v: 1 }],
      refused: [
        { item: 1, reason: expect.stringContaining('t is not a time but "now"') },
        { item: 2, reason: 't is 1999-01-01T00:00:00.000Z, before the year 2000' },
        { item: 3, reason: 'the value of m is too large for a double' },
        { item: 4, reason: 'the object holds no value' },
      ],
    })
    const { status, answer } = await post('/v1/measurements', body, headers)
    expect([status, answer]).toMatchObject([400, { received: 5, stored: 1 }])
    const faults = decoded.answer.refused.map((/** @type {any} */ { advice, ...fault }) => {
      expect(advice).toEqual(expect.any(String))
      return fault
    })
    expect(answer.refused).toEqual(faults)
  })

  test('a dead letter is stored after all, as of the time at which it was received', async () => {
    const database = await stack.client()
    const receivedMs = Date.now() - 3_600_000
    const id = cassandra.types.TimeUuid.fromDate(new Date(receivedMs))
    await database.execute(
      `INSERT INTO ${stack.keyspace}.dead_letter
       (day, shard, id, topic, client, payload, reason, received) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      [
        ...[Math.floor(receivedMs / 86_400_000), /** @type {any} */ (id).buffer[3] % 8, id],
        ...['sensors/mended/m', 'c', Buffer.from('5'), 'it was so', receivedMs],
      ],
      { prepare: true },
    )
    const headers = { 'content-type': 'application/json' }
    const { items: letters } = await getJson(`${stack.apiUrl}/v1/dead-letters?limit=1000`)
    const ids = letters.map((/** @type {{ id: string }} */ letter) => letter.id)
    const { answer } = await post('/v1/dead-letters/replay', JSON.stringify({ ids }), headers)
    expect(answer).toMatchObject({ replayed: 1, unknown: [] })
    expect(answer.refused).toHaveLength(ids.length - 1)
    const { items } = await readMeasurements(stack.apiUrl, 'mended', { limit: 10 })
    expect(items.map(({ timeMs, value }) => [timeMs, value])).toEqual([[receivedMs, 5]])
    const { items: after } = await getJson(`${stack.apiUrl}/v1/dead-letters?limit=1000`)
    const marked = after.filter((/** @type {any} */ { replayed }) => replayed !== null)
    expect(marked).toMatchObject([{ id: String(id) }])
    expect(after).toHaveLength(letters.length)
  })

  test('while the database is away they are spooled, and stored when it is back', async () => {
    await stack.databaseAway()
    const body = JSON.stringify(
      Array.from({ length: 500 }, (_, index) => ({ sensor: 'away', t: T + index, m: index })),
    )
    const headers = { 'content-type': 'application/json' }
    const { status, answer } = await post('/v1/measurements', body, headers)
    expect([status, answer.stored]).toEqual([200, 500])
    expect((await stack.stats()).spooled).toBe(500)
    const bad = await post('/v1/measurements', '[{"sensor":"away","m":{}}]', headers)
    expect([bad.status, bad.answer.refused.length]).toEqual([400, 1])
    await stack.databaseBack()
    await stack.emptied()
    await stack.readable()
    const { items } = await readMeasurements(stack.apiUrl, 'away', { limit: 1000 })
    expect(items.map(({ value }) => value)).toEqual(Array.from({ length: 500 }, (_, n) => 499 - n))
    expect(unaccounted(await stack.stats())).toBe(0)
  })
})
