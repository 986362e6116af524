import { EventEmitter } from 'node:events'
import { describe, expect, test } from '@jest/globals'
import { Ledger } from '../src/ledger.js'
import { Link, Totals } from '../src/link.js'
import { finalLine, Latencies, runningLine } from '../src/report.js'
import { runFleet, runReplay, Timeline } from '../src/run.js'
import { planOf } from './plan.js'

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

  test('tells when what is under way is sent again: before any of it is acknowledged', () => {
    const { link, client } = fakeLink()
    let heard = 0
    link.onReconnect = () => heard++
    client.emit('packetreceive', { cmd: 'connack' })
    client.emit('packetreceive', { cmd: 'puback' })
    expect(heard).toBe(0)
    client.emit('close')
    client.emit('packetreceive', { cmd: 'connack' })
    expect(heard).toBe(1)
  })
})

describe('a run of a fleet', () => {
  /**
   * What a run publishes.
   *
   * @param {Partial<import('../src/options.js').Options>} options
   * @param {number} endMs  When it is stopped.
   * @param {Ledger} [ledger]
   */
  async function published(options, endMs, ledger) {
    const plan = planOf({ sensors: 4, rate: 20, ...options }, { startMs: 0 })
    const links = plan.schedules.map(() => fakeLink())
    const { clock, stop } = fakeClock(endMs)
    const timeline = new Timeline(clock, { startMs: 0, speed: options.speed ?? 1 })
    const all = links.map(({ link }) => link)
    await runFleet({ plan, links: all, timeline, clock, signal: stop.signal, ledger })
    await Promise.all(all.map((link) => link.settled()))
    return {
      plan,
      elapsedMs: clock.now(),
      sent: links.flatMap(({ client }) => client.sent.map(({ topic, payload }) => topic + payload)),
    }
  }

  test('publishes the rate, and the same again with the same seed', async () => {
    const first = await published({ connections: 1 }, 10_000)
    expect(Math.abs(first.sent.length - 200)).toBeLessThanOrEqual(1)
    expect((await published({ connections: 1 }, 10_000)).sent).toEqual(first.sent)
  })

  test('in the past goes by as fast as told, and ends by itself', async () => {
    const to = 60_000
    const { sent, elapsedMs } = await published({ to, speed: 20 }, Number.POSITIVE_INFINITY)
    expect(sent).toHaveLength(1200)
    expect(Math.abs(elapsedMs - 3000)).toBeLessThan(50)
  })

  test('in the past, as fast as acknowledged, takes no time of its own', async () => {
    const { sent, elapsedMs } = await published({ to: 60_000, speed: 0 }, Number.POSITIVE_INFINITY)
    expect(sent).toHaveLength(1200)
    expect(elapsedMs).toBe(0)
  })

  test('notes what is acknowledged: all but the copies, each once', async () => {
    const ledger = new Ledger(4)
    const trouble = { latePercent: 20, duplicatePercent: 20, malformedPercent: 5 }
    const options = { to: 600_000, speed: 0, ...trouble }
    const { plan, sent } = await published(options, Number.POSITIVE_INFINITY, ledger)
    const planned = plan.fleet.flatMap((_, sensor) => [...plan.published(sensor)])
    expect(planned).toHaveLength(12_000)
    expect(sent.length).toBeGreaterThan(13_000)
    for (const [sensor, { metrics }] of plan.fleet.entries()) {
      const own = planned.filter((message) => message.sensor === sensor)
      const wellFormed = own.filter(({ values }) => values).length
      for (const metric of metrics) {
        expect(ledger.seriesOf(sensor).get(metric)?.count).toBe(wellFormed)
      }
      expect(ledger.lettersOf(sensor).count).toBe(own.length - wellFormed)
      expect(ledger.pendingOf(sensor)).toBe(0)
    }
  })

  test('ends although the broker never answers', async () => {
    const { link, client } = fakeLink()
    client.acknowledges = false
    const stop = new AbortController()
    const { clock } = fakeClock(1)
    const timeline = new Timeline(clock, { startMs: 0, speed: 1 })
    const plan = planOf({ rate: 0, connections: 1 }, { startMs: 0 })
    const done = runFleet({ plan, links: [link], timeline, clock, signal: stop.signal })
    do await new Promise((resolve) => setTimeout(resolve, 20))
    while (client.sent.length < 3)
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
