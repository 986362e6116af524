// Live values over a real database: a client that is cut off when its api is killed goes on with
// another api, where it was.
import { setTimeout as delay } from 'node:timers/promises'
import mqtt from 'mqtt'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { readMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const SENSORS = ['north', 'south']
/** Pause between two messages of a sensor, in milliseconds. */
const EVERY_MS = 40
/** How often is published at least: even without the first second's there are enough values. */
const PUBLISHED_MIN = 160
/** How far a late value lies behind, in milliseconds: less than streams look back. */
const LATE_MS = 4_000

/** A client of server-sent events that remembers where it is. */
class Listener {
  /** @type {any[]} */
  heard = []
  /** @type {string | undefined} */
  id
  /** @type {AbortController | undefined} */
  #controller

  /** Reads until the connection ends, however it does. @param {string} apiUrl */
  async listen(apiUrl) {
    const query = SENSORS.map((name) => `sensor=${name}`).join('&')
    this.#controller = new AbortController()
    const response = await fetch(`${apiUrl}/v1/stream?${query}`, {
      headers: this.id === undefined ? {} : { 'last-event-id': this.id },
      signal: this.#controller.signal,
    })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    const decoder = new TextDecoder()
    let text = ''
    const body = /** @type {AsyncIterable<Uint8Array>} */ (/** @type {unknown} */ (response.body))
    try {
      for await (const chunk of body) {
        text += decoder.decode(chunk, { stream: true })
        const events = text.split('\n\n')
        text = events.pop() ?? ''
        for (const event of events) this.#take(event)
      }
    } catch {
      // It was cut off: the rest of an event does not count.
    }
  }

  /** @param {string} event */
  #take(event) {
    const fields = Object.fromEntries(
      event.split('\n').map((line) => [line.split(':')[0], line.slice(line.indexOf(':') + 2)]),
    )
    this.id = fields.id ?? this.id
    if (fields.event === 'measurements') this.heard.push(...JSON.parse(fields.data))
  }

  stop() {
    this.#controller?.abort()
  }

  /** What it heard, by series and row. */
  get keys() {
    return this.heard.map(({ sensor, metric, t, seq, v }) => `${sensor} ${metric} ${t} ${seq} ${v}`)
  }
}

describe('a live stream', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {mqtt.MqttClient} */
  let client
  /** @type {{ part: import('../support/part.js').Part, url: string }} */
  let other

  beforeAll(async () => {
    // On a busy machine nothing is to come so late that it is not told live.
    stack = await startStack({ ingestEnv: UNSPOOLED })
    other = await stack.addApi('api-2')
    await other.part.start()
    client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'live', reconnectPeriod: 0 })
  })
  afterAll(async () => {
    client?.end(true)
    await stack?.end()
  })

  test('goes on with another api when its own is killed: nothing is missing or twice', async () => {
    let count = 0
    const publish = async () => {
      count += 1
      const t = Date.now()
      for (const name of SENSORS) {
        const readings = [{ t, level: count, on: count % 2 === 0 }]
        // Some come late, between values that were told already.
        if (count % 5 === 0) readings.push({ t: t - LATE_MS, level: count, on: true })
        await client.publishAsync(`sensors/${name}`, JSON.stringify(readings), { qos: 1 })
      }
    }
    await publish()
    const firstMs = Date.now()
    const listener = new Listener()
    let isOver = false
    const publishing = (async () => {
      while (!isOver) {
        await publish()
        await delay(EVERY_MS)
      }
    })()
    for (let visit = 0; visit < 4; visit++) {
      const [api, url] =
        visit % 2 === 0 ? [stack.part('api'), stack.apiUrl] : [other.part, other.url]
      const before = listener.heard.length
      const listening = listener.listen(url)
      await until('something is heard', () => listener.heard.length > before + 100, {
        deadlineMs: 30_000,
      })
      await api.kill9()
      await listening
      await Promise.all([api.start(), delay(500)])
    }
    await until('enough is published', () => count >= PUBLISHED_MIN)
    isOver = true
    await publishing
    await stack.emptied()
    await stack.readable()
    const listening = listener.listen(stack.apiUrl)
    /** @type {string[]} */
    const stored = []
    for (const name of SENSORS) {
      const { items } = await readMeasurements(stack.apiUrl, name, { limit: 1000 })
      for (const { metric, timeMs, seq, value } of items) {
        // What lies before the first connection is no news.
        if (timeMs < firstMs + 1_000) continue
        stored.push(`${name} ${metric} ${timeMs} ${seq} ${value}`)
      }
    }
    expect(stored.length).toBeGreaterThan(400)
    const isHeard = () => {
      const keys = new Set(listener.keys)
      return stored.every((one) => keys.has(one))
    }
    await until('everything is heard', isHeard, { deadlineMs: 30_000, everyMs: 200 })
    listener.stop()
    await listening
    // An id has a place for each value of ten seconds at this rate.
    expect(listener.keys.length).toBe(new Set(listener.keys).size)
  }, 240_000)
})
