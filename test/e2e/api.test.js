// REST over a real database: registered sensors, cursors that outlive what they came from, live
// values, and a database that is lost.
import mqtt from 'mqtt'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

const T = Date.UTC(2024, 4, 1, 12)
/** A lost database is answered with 503 within this, in milliseconds. */
const REFUSED_MS_MAX = 2000
/** A published value is told by a stream in less than this, in milliseconds. */
const LIVE_MS_MAX = 1000
const COUNT = 300

describe('the api', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {mqtt.MqttClient} */
  let client

  beforeAll(async () => {
    stack = await startStack({ ingestEnv: UNSPOOLED })
    client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'api', reconnectPeriod: 0 })
    const values = Array.from({ length: COUNT }, (_, index) => ({
      t: T + index * 60_000,
      a: index,
    }))
    await client.publishAsync('sensors/paged', JSON.stringify(values), { qos: 1 })
    const late = [{ t: T - 40 * 86_400_000, b: 1 }]
    await client.publishAsync('sensors/paged', JSON.stringify(late), { qos: 1 })
  })
  afterAll(async () => {
    client?.end(true)
    await stack?.end()
  })

  /** @param {string} path @param {RequestInit} [init] */
  const ask = (path, init) => fetch(`${stack.apiUrl}/v1/${path}`, init)

  /** @param {string} method @param {object} body @returns {RequestInit} */
  const json = (method, body) => ({
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

  test('pages both ways, over gaps of weeks, each measurement once', async () => {
    const pages = { asc: [], desc: [] }
    for (const order of /** @type {const} */ (['asc', 'desc'])) {
      let path = `sensors/paged/measurements?limit=77&order=${order}`
      for (;;) {
        const { items, next } = await getJson(`${stack.apiUrl}/v1/${path}`)
        /** @type {unknown[]} */
        const all = pages[order]
        all.push(...items)
        if (next === null) break
        path = `sensors/paged/measurements?limit=77&cursor=${next}`
      }
    }
    expect(pages.asc).toHaveLength(COUNT + 1)
    expect(pages.asc[0]).toEqual({ metric: 'b', t: T - 40 * 86_400_000, v: 1 })
    expect([...pages.desc].reverse()).toEqual(pages.asc)
  })

  test('takes a cursor after everything was killed, and rows have arrived since', async () => {
    const path = 'sensors/paged/measurements?metric=a&limit=10'
    const { next } = await getJson(`${stack.apiUrl}/v1/${path}`)
    const before = await getJson(`${stack.apiUrl}/v1/${path}&cursor=${next}`)
    await stack.part('api').kill9()
    await stack.databaseAway()
    await stack.databaseBack()
    await stack.part('api').start()
    await stack.readable()
    await client.publishAsync('sensors/paged/a', `{"t":${T + 1e9},"v":1}`, { qos: 1 })
    expect(await getJson(`${stack.apiUrl}/v1/${path}&cursor=${next}`)).toEqual(before)
  })

  test('registers a sensor, keeps what is known of it, hides it', async () => {
    const created = await ask('sensors', json('POST', { name: 'boiler', tags: { floor: '1' } }))
    expect(created.status).toBe(201)
    await client.publishAsync('sensors/boiler/heat', '70', { qos: 1 })
    await ask('sensors/boiler', json('PATCH', { unit: '°C' }))
    expect(await getJson(`${stack.apiUrl}/v1/sensors/boiler`)).toMatchObject({
      name: 'boiler',
      unit: '°C',
      tags: { floor: '1' },
    })
    const { items } = await getJson(`${stack.apiUrl}/v1/latest?tag=floor:1`)
    expect(items).toMatchObject([{ sensor: 'boiler', metric: 'heat', v: 70 }])
    expect((await ask('sensors/boiler', { method: 'DELETE' })).status).toBe(204)
    for (const path of ['', '/latest', '/measurements']) {
      expect((await ask(`sensors/boiler${path}`)).status).toBe(404)
    }
    expect((await getJson(`${stack.apiUrl}/v1/latest?tag=floor:1`)).items).toEqual([])
  })

  test('tells a value to a stream in less than a second', async () => {
    const stop = new AbortController()
    const response = await ask('stream?sensor=paged', { signal: stop.signal })
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader()
    let text = ''
    const hear = async (/** @type {string} */ what) => {
      while (!text.includes(what)) {
        const { value, done } = await reader.read()
        if (done) throw new Error(`the stream ended after ${JSON.stringify(text)}`)
        text += Buffer.from(value).toString()
      }
    }
    await hear('event: status')
    await client.publishAsync('sensors/paged/live', '12345', { qos: 1 })
    const publishedMs = performance.now()
    await hear('"v":12345')
    expect(performance.now() - publishedMs).toBeLessThan(LIVE_MS_MAX)
    stop.abort()
  })

  test('lists what was refused, newest first', async () => {
    for (const payload of ['{one', '{two']) {
      await client.publishAsync('sensors/paged', payload, { qos: 1 })
    }
    const { items } = await getJson(`${stack.apiUrl}/v1/dead-letters?limit=2`)
    expect(items.map((/** @type {any} */ { payload }) => payload)).toEqual(['{two', '{one'])
    expect(items[0]).toMatchObject({ topic: 'sensors/paged', client: 'api', encoding: 'utf8' })
  })

  test('says 503 within two seconds of losing the database, and recovers by itself', async () => {
    await stack.databaseAway()
    const lost = performance.now()
    let response = await ask('sensors/paged/latest')
    while (response.status === 200) response = await ask('sensors/paged/latest')
    expect(performance.now() - lost).toBeLessThan(REFUSED_MS_MAX)
    expect(response.status).toBe(503)
    expect(response.headers.get('retry-after')).toBe('1')
    expect(response.headers.get('content-type')).toContain('application/problem+json')
    await stack.databaseBack()
    await until('the api answers again', async () => (await ask('sensors/paged/latest')).ok)
  })
})
