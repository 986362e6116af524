// Files that are larger than a body: imported, exported, and imported again after a process died.
import { gzipSync } from 'node:zlib'
import { startStack } from '../support/stack.js'
import { readMeasurements } from '../support/stored.js'

const T = Date.UTC(2024, 4, 1, 12)
const ROWS = 24_000
const SENSORS = ['hall', 'yard', 'roof']

/** A wide CSV with times in seconds. */
const FILE = `sensor,time,level,on\n${Array.from({ length: ROWS }, (_, index) => {
  const sensor = SENSORS[index % SENSORS.length]
  return `${sensor},${T / 1000 + index},${index / 8},${index % 2 === 0}\n`
}).join('')}`

describe('a large file', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack

  beforeAll(async () => {
    stack = await startStack()
  })
  afterAll(() => stack?.end())

  /**
   * @param {string} query
   * @param {string | Buffer} body
   * @param {(line: any) => void} [onLine]  Hears of progress.
   * @returns {Promise<any>}  The last line.
   */
  async function send(query, body, onLine = () => {}) {
    const response = await fetch(`${stack.apiUrl}/v1/import?${query}`, {
      method: 'POST',
      headers: typeof body === 'string' ? {} : { 'content-encoding': 'gzip' },
      body: typeof body === 'string' ? body : new Uint8Array(body),
      signal: AbortSignal.timeout(120_000),
    })
    let text = ''
    let last
    const decoder = new TextDecoder()
    for await (const chunk of /** @type {AsyncIterable<Uint8Array>} */ (
      /** @type {unknown} */ (response.body)
    )) {
      text += decoder.decode(chunk, { stream: true })
      const lines = text.split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) {
        last = JSON.parse(line)
        onLine(last)
      }
    }
    return last
  }

  /** @param {string} sensor */
  async function stored(sensor) {
    const { items } = await readMeasurements(stack.apiUrl, sensor, { limit: 1000 })
    return items.map(({ metric, timeMs, seq, value }) => ({ metric, timeMs, seq, value }))
  }

  /** What the file says of a sensor, newest first, then by metric. @param {string} sensor */
  function expected(sensor) {
    return Array.from({ length: ROWS }, (_, index) => index)
      .filter((index) => SENSORS[index % SENSORS.length] === sensor)
      .reverse()
      .flatMap((index) => {
        const common = { timeMs: T + index * 1000, seq: 0 }
        return [
          { metric: 'level', ...common, value: index / 8 },
          { metric: 'on', ...common, value: index % 2 === 0 },
        ]
      })
  }

  test('is looked at first, and nothing is stored', async () => {
    const { preview, ...counts } = await send('format=csv&dry_run=true', gzipSync(FILE))
    expect(counts).toMatchObject({ done: true, rows: ROWS, stored: ROWS, refused_rows: 0 })
    expect(preview).toMatchObject({ measurements: 2 * ROWS, from: T, last: T + (ROWS - 1) * 1000 })
    expect(preview.series).toHaveLength(2 * SENSORS.length)
    const response = await fetch(`${stack.apiUrl}/v1/sensors/hall`)
    expect(response.status).toBe(404)
  })

  test('is stored once, though ingest dies in its midst and the file is sent again', async () => {
    let isKilled = false
    /** @type {Promise<void> | undefined} */
    let back
    const first = await send('format=csv', FILE, ({ rows }) => {
      if (isKilled || rows === 0) return
      isKilled = true
      const ingest = stack.part('ingest')
      back = ingest.kill9().then(() => ingest.start())
    })
    expect(isKilled).toBe(true)
    await back
    // It was waited for, so nothing is left to be sent; all of it once more changes nothing.
    expect(first).toMatchObject({ done: true, line: ROWS + 1, rows: ROWS, stored: ROWS })
    const again = await send('format=csv', gzipSync(FILE))
    expect(again).toMatchObject({ done: true, stored: ROWS })
    await stack.emptied()
    for (const sensor of SENSORS) expect(await stored(sensor)).toEqual(expected(sensor))
  }, 240_000)

  test('carries retention, type, unit and tags, under another name, too', async () => {
    const about = { type: 'oven', unit: '°C', tags: { hall: '3' } }
    const json = { 'content-type': 'application/json' }
    const body = JSON.stringify({ name: 'kept', retention: 'keep', ...about })
    await fetch(`${stack.apiUrl}/v1/sensors`, { method: 'POST', headers: json, body })
    const rows = [`{"sensor":"kept","a":1,"t":${T}}`, `{"sensor":"kept","b":"x","t":${T}}`]
    expect(await send('format=ndjson', rows.join('\n'))).toMatchObject({
      done: true,
      retention: [{ retention: 'keep', expires: null }],
    })
    for (const format of ['csv', 'ndjson']) {
      const response = await fetch(`${stack.apiUrl}/v1/export?sensor=kept&format=${format}`)
      const name = `again-${format}`
      const text = (await response.text()).replaceAll(/^kept|"kept"/gm, (one) =>
        one.replace('kept', name),
      )
      const last = await send(`format=${format}`, text)
      expect(last).toMatchObject({ done: true, rows: 2, stored: 2 })
      expect(last.retention).toMatchObject([{ retention: 'keep', expires: null }])
      const sensor = await (await fetch(`${stack.apiUrl}/v1/sensors/${name}`)).json()
      expect(sensor).toMatchObject({ retention: 'keep', ...about })
    }
    const plain = `{"sensor":"plain","a":1,"t":${T}}`
    const dry = await send('format=ndjson&dry_run=true&retention=400d', plain)
    expect(dry.retention).toMatchObject([{ retention: '400d', new_sensors: 1, measurements: 1 }])
    await send('format=ndjson&retention=400d', plain)
    const sensor = await (await fetch(`${stack.apiUrl}/v1/sensors/plain`)).json()
    expect(sensor.retention).toBe('400d')
  })

  test('is exported, and imported under another name as it is', async () => {
    for (const format of ['csv', 'ndjson']) {
      const response = await fetch(`${stack.apiUrl}/v1/export?sensor=roof&format=${format}`)
      const text = (await response.text()).replaceAll(/^roof|"roof"/gm, (name) =>
        name.replace('roof', `roof-${format}`),
      )
      const { done, refused_rows: refused } = await send(`format=${format}`, text)
      expect([done, refused]).toEqual([true, 0])
      await stack.emptied()
      expect(await stored(`roof-${format}`)).toEqual(expected('roof'))
    }
  })
})
