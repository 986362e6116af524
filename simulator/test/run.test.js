import { EventEmitter } from 'node:events'
import { describe, expect, test } from '@jest/globals'
import { Link, Totals } from '../src/link.js'
import { finalLine, Latencies, runningLine } from '../src/report.js'
import { runFleet, runReplay } from '../src/run.js'

/** A broker's other end: keeps what is published and acknowledges when told. */
class FakeClient extends EventEmitter {
  /** @type {{ topic: string, payload: string, done: (error?: Error) => void }[]} */
  sent = []
  acknowledges = true

  /** @param {string} topic  @param {string} payload  @param {unknown} _  @param {any} done */
  publish(topic, payload, _, done) {
    this.sent.push({ topic, payload, done })
    if (this.acknowledges) setImmediate(done)
  }

  async endAsync() {}
}

/** @param {number} [window] */
function fakeLink(window = 3) {
  const totals = new Totals()
  const client = new FakeClient()
  const options = { qos: /** @type {const} */ (1), window, totals, onAcknowledged: () => {} }
  return { link: new Link(/** @type {any} */ (client), options), client, totals }
}

/** A clock that jumps to the end of every sleep, until an end. @param {number} endMs */
function fakeClock(endMs) {
  const stop = new AbortController()
  let nowMs = 0
  return {
    stop,
    clock: {
      now: () => nowMs,
      sleep: async (/** @type {number} */ ms) => {
        nowMs += ms
        if (nowMs >= endMs) stop.abort()
        await new Promise(setImmediate)
      },
    },
  }
}

const OPTIONS = /** @type {import('../src/options.js').Options} */ ({
  sensors: 4,
  seed: 1,
  rate: 20,
  backlog: 60,
  shape: 'object',
  malformedPercent: 0,
})

/** @param {object[]} rows */
async function* iterate(rows) {
  for (const row of rows) yield/** @type {import('../src/table.js').Row} */ (row)
}

describe('a link', () => {
  test('counts a message as acknowledged only when the broker says so', async () => {
    const { link, client, totals } = fakeLink()
    client.acknowledges = false
    link.publish({ topic: 'a', payload: '1' })
    link.publish({ topic: 'a', payload: '2' })
    expect(totals).toMatchObject({ published: 2, acknowledged: 0 })
    client.sent[0].done()
    client.sent[1].done(new Error('closed'))
    await link.settled()
    expect(totals).toMatchObject({ published: 2, acknowledged: 1 })
  })

  test('has room again when something is acknowledged', async () => {
    const { link, client } = fakeLink(1)
    client.acknowledges = false
    link.publish({ topic: 'a', payload: '1' })
    expect(link.isFull).toBe(true)
    let ready = false
    const waiting = link.ready().then(() => {
      ready = true
    })
    await new Promise(setImmediate)
    expect(ready).toBe(false)
    client.sent[0].done()
    await waiting
    expect(link.isFull).toBe(false)
  })

  test('counts connections that come and go', () => {
    const { client, totals } = fakeLink()
    client.emit('error', Object.assign(new Error('no'), { code: 'ECONNREFUSED' }))
    client.emit('close')
    expect(totals).toMatchObject({ connections: 0, trouble: 'ECONNREFUSED' })
    client.emit('connect')
    client.emit('close')
    client.emit('connect')
    expect(totals).toMatchObject({ connections: 1, reconnects: 1, trouble: '' })
  })
})

describe('a run of a fleet', () => {
  /** What a run of ten seconds publishes. @param {number} connections */
  async function published(connections) {
    const links = Array.from({ length: connections }, () => fakeLink())
    const { clock, stop } = fakeClock(10_000)
    const all = links.map(({ link }) => link)
    await runFleet(OPTIONS, all, clock, stop.signal).done
    return links.flatMap(({ client }) => client.sent.map(({ topic, payload }) => topic + payload))
  }

  test('publishes the rate, and the same again with the same seed', async () => {
    const first = await published(1)
    expect(Math.abs(first.length - 200)).toBeLessThanOrEqual(1)
    expect(await published(1)).toEqual(first)
  })

  test('ends although the broker never answers', async () => {
    const { link, client } = fakeLink()
    client.acknowledges = false
    const stop = new AbortController()
    const { done } = runFleet(
      { ...OPTIONS, rate: 0 },
      [link],
      { ...fakeClock(1).clock },
      stop.signal,
    )
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(client.sent).toHaveLength(3)
    stop.abort()
    await done
  })
})

describe('a replay', () => {
  const rows = [0, 1, 2].map((hour) => ({
    sensor: 'room',
    timeMs: Date.UTC(2020) + hour * 3_600_000,
    values: { a: hour },
  }))

  test('keeps the order and the times of the file', async () => {
    const { link, client } = fakeLink(1)
    const { clock, stop } = fakeClock(Number.POSITIVE_INFINITY)
    let seen = 0
    await runReplay(iterate(rows), { speed: 0 }, link, clock, stop.signal, () => seen++)
    await link.settled()
    expect(client.sent.map(({ topic, payload }) => [topic, JSON.parse(payload)])).toEqual(
      rows.map(({ timeMs, values }) => ['sensors/room', { t: timeMs, ...values }]),
    )
    expect(seen).toBe(3)
    expect(clock.now()).toBe(0)
  })

  test('takes its time divided by the speed', async () => {
    const { link } = fakeLink()
    const { clock, stop } = fakeClock(Number.POSITIVE_INFINITY)
    await runReplay(iterate(rows), { speed: 3600 }, link, clock, stop.signal, () => {})
    expect(clock.now()).toBe(2000)
  })

  test('publishes nothing for a row without values', async () => {
    const { link, client } = fakeLink()
    const { clock, stop } = fakeClock(1)
    const empty = [{ sensor: 'room', timeMs: 0, values: {} }]
    await runReplay(iterate(empty), { speed: 0 }, link, clock, stop.signal, () => {})
    expect(client.sent).toEqual([])
  })
})

describe('a report', () => {
  test('says what was not acknowledged', () => {
    const totals = Object.assign(new Totals(), { published: 10, acknowledged: 7, connections: 1 })
    const line = finalLine({ totals, elapsedMs: 1000, latencies: new Latencies(), skipped: 0 })
    expect(line).toMatch(/published 10, acknowledged 7, NOT acknowledged 3 in 1\.0 s/)
  })

  test('says that it waits, and for what', () => {
    const totals = Object.assign(new Totals(), { trouble: 'ECONNREFUSED' })
    const state = { totals, ratePerS: 0, latencies: new Latencies(), links: 2, extra: '' }
    expect(runningLine(state)).toBe('waiting for the broker (ECONNREFUSED)')
  })

  test('has percentiles within a fifth of the truth', () => {
    const latencies = new Latencies()
    for (let ms = 1; ms <= 1000; ms++) latencies.add(ms)
    for (const share of [0.1, 0.5, 0.99]) {
      const ratio = Number(latencies.percentile(share)) / (share * 1000)
      expect(ratio).toBeGreaterThanOrEqual(1)
      expect(ratio).toBeLessThan(1.21)
    }
  })
})
