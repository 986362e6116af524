import { describe, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { LiveHub } from '../src/live.js'
import { createFakeStore, NO_KEYS } from './support/fake-store.js'

const answer = { status: 200, type: undefined, retryAfter: undefined, body: '' }

/** @param {import('../src/store.js').Store} store @param {{ isUp: boolean }} [database] */
async function serve(store, database = { isUp: true }) {
  const app = await buildApp({
    store,
    isDatabaseUp: () => database.isUp,
    ingest: { stats: async () => ({}), post: async () => answer },
    registry: new Registry(),
    limits: { requestsPerS: 0, bodyBytesMax: 1_024, importBytesMax: 1e6, streamsMax: 2 },
    isLoopback: true,
    ...NO_KEYS,
  })
  return { app, url: await app.listen({ port: 0, host: '127.0.0.1' }) }
}

/**
 * Reads a stream until enough has come, and then is cut off.
 *
 * @param {string} url
 * @param {(items: any[], text: string) => boolean} isEnough
 * @param {Record<string, string>} [headers]
 */
async function follow(url, isEnough, headers = {}) {
  const stop = new AbortController()
  const response = await fetch(url, { headers, signal: stop.signal })
  expect(response.headers.get('content-type')).toMatch('text/event-stream')
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader()
  let text = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`the stream ended: ${text}`)
    text += Buffer.from(value).toString()
    const items = itemsOf(text)
    if (!isEnough(items, text)) continue
    stop.abort()
    return { items, id: idOf(text) }
  }
}

/** The values in whole events. @param {string} text  @returns {any[]} */
function itemsOf(text) {
  return [...text.matchAll(/^event: measurements\n(?:id: .*\n)?data: (.*)\n\n/gm)].flatMap(
    ([, data]) => JSON.parse(data),
  )
}

/** The id of the last whole event that has one. @param {string} text */
function idOf(text) {
  return [...text.matchAll(/^id: (.*)\n(?=data: .*\n\n)/gm)].at(-1)?.[1]
}

/** @param {any[]} items */
const essence = (items) => items.map(({ metric, t, v }) => [metric, t, v])

describe('a live stream', () => {
  test('tells each new value once, in time order, late ones and other clocks too', async () => {
    /** @type {import('../src/merge.js').Row[]} */
    const rows = [{ metric: 'a', t: 5_000, seq: 0, value: 0 }]
    const { app, url } = await serve(createFakeStore({ rows }))
    const now = Date.now()
    let begun = false
    const begin = () => {
      begun = true
      setTimeout(() => rows.push({ metric: 'b', t: now - 100, seq: 0, value: 'x' }), 1_300)
      setTimeout(() => {
        rows.push({ metric: 'b', t: now - 200, seq: 0, value: true })
        rows.push({ metric: 'b', t: now + 60_000, seq: 0, value: 1 })
        rows.push({ metric: 'a', t: 9_000, seq: 0, value: 2.5 })
      }, 1_700)
    }
    const { items } = await follow(`${url}/v1/stream?sensor=s`, ({ length }, text) => {
      if (!begun && text.includes('"up"}')) begin()
      return length >= 4
    })
    expect(essence(items).sort()).toEqual(
      [
        ['a', 9_000, 2.5],
        ['b', now - 100, 'x'],
        ['b', now - 200, true],
        ['b', now + 60_000, 1],
      ].sort(),
    )
    await app.close()
  })

  test('begins with all values since a time, more than one page of them, each once', async () => {
    const now = Date.now()
    const rows = Array.from({ length: 5_000 }, (_, index) => ({
      metric: index % 2 === 0 ? 'a' : 'b',
      t: now - 60_000 + index,
      seq: 0,
      value: index,
    }))
    const { app, url } = await serve(createFakeStore({ rows }))
    const after = rows[100].t
    const { items } = await follow(
      `${url}/v1/stream?sensor=s&after=${after}`,
      ({ length }, text) => length >= 4_900 && text.includes('"up"}'),
    )
    for (const metric of ['a', 'b']) {
      const mine = items.filter((item) => item.metric === metric).map(({ v }) => v)
      expect(mine).toEqual(
        rows.filter((row) => row.metric === metric && row.t >= after).map(({ value }) => value),
      )
    }
    await app.close()
  })

  test('goes on elsewhere where it was cut off: nothing is missing, and nothing twice', async () => {
    /** @type {import('../src/merge.js').Row[]} */
    const rows = [
      { metric: 'behind', t: 1_000_000, seq: 0, value: 0 },
      { metric: 'a', t: Date.now() - 30_000, seq: 0, value: -1 },
    ]
    let sent = 0
    /** Some are late, and one device's clock is far behind. */
    const write = setInterval(() => {
      const t = Date.now()
      sent += 1
      rows.push({ metric: 'a', t, seq: 0, value: sent })
      rows.push({ metric: 'a', t, seq: 1, value: sent + 0.5 })
      if (sent % 3 === 0) rows.push({ metric: 'b', t: t - 3_000, seq: 0, value: sent })
      rows.push({ metric: 'behind', t: 1_000_000 + sent, seq: 0, value: sent })
    }, 60)
    const store = createFakeStore({ rows })
    const apis = [await serve(store), await serve(store)]
    /** @type {any[]} */
    const heard = []
    /** @type {Record<string, string>} */
    let headers = {}
    for (let visit = 0; visit < 6; visit++) {
      const url = `${apis[visit % 2].url}/v1/stream?sensor=s`
      const many = visit === 0 ? 4 : 12
      const { items, id } = await follow(url, ({ length }) => length >= many, headers)
      heard.push(...items)
      expect(id).toBeDefined()
      headers = { 'last-event-id': String(id) }
    }
    clearInterval(write)
    const last = rows.slice(2)
    const now = Date.now()
    rows.push({ metric: 'a', t: now, seq: 2, value: 'end' })
    rows.push({ metric: 'b', t: now, seq: 0, value: 'end' })
    rows.push({ metric: 'behind', t: 1_000_001 + sent, seq: 0, value: 'end' })
    const all = rows.length
    const { items } = await follow(
      `${apis[0].url}/v1/stream?sensor=s`,
      (more) => more.filter(({ v }) => v === 'end').length === 3,
      headers,
    )
    const rest = await follow(
      `${apis[1].url}/v1/stream?sensor=s&after=0`,
      (more) => more.length >= all,
    )
    expect(rest.items).toHaveLength(all)
    const told = [...heard, ...items].map(({ metric, t, seq }) => `${metric} ${t} ${seq}`)
    expect(new Set(told).size).toBe(told.length)
    // The first visit began in the middle of this round, or before it.
    const begun = Math.min(...heard.map(({ v }) => Math.floor(v)))
    const due = last
      .filter(({ value }) => Number(value) > begun)
      .map(({ metric, t, seq }) => `${metric} ${t} ${seq}`)
    expect(due.length).toBeGreaterThan(40)
    expect(due.filter((one) => !told.includes(one))).toEqual([])
    for (const { app } of apis) await app.close()
  })

  test('of 320 series goes on elsewhere: a late value is told, and few values twice', async () => {
    const SERIES = 320
    const nowMs = Date.now()
    /** @type {import('../src/merge.js').Row[]} */
    const rows = []
    const write = (/** @type {number} */ t, /** @type {number} */ seq = 0) => {
      for (let index = 0; index < SERIES; index++) {
        rows.push({ metric: `metric-of-a-usual-length-${index}`, t: t + index, seq, value: t })
      }
    }
    for (let second = 8; second >= 1; second--) write(nowMs - second * 1_000)
    const store = createFakeStore({ rows })
    const apis = [await serve(store), await serve(store)]
    const query = 'v1/stream?sensor=s'
    const first = await follow(
      `${apis[0].url}/${query}&after=${nowMs - 9_000}`,
      ({ length }, text) => length >= 8 * SERIES && text.includes('"up"}'),
    )
    const late = { metric: 'metric-of-a-usual-length-7', t: nowMs - 4_400, seq: 0, value: 'late' }
    rows.push(late)
    write(nowMs + 500)
    const second = await follow(
      `${apis[1].url}/${query}`,
      (items) => items.filter(({ t }) => t >= nowMs + 500).length >= SERIES,
      { 'last-event-id': String(first.id) },
    )
    const nameOf = (/** @type {any} */ { metric, t, seq }) => `${metric} ${t} ${seq}`
    const heard = [...first.items, ...second.items].map(nameOf)
    expect(rows.map(nameOf).filter((one) => !heard.includes(one))).toEqual([])
    expect(heard.length - new Set(heard).size).toBeLessThanOrEqual(8)
    for (const { app } of apis) await app.close()
  })

  test('asks the database once for all who watch a series', async () => {
    const store = createFakeStore({ rows: [{ metric: 'a', t: Date.now(), seq: 0, value: 1 }] })
    let reads = 0
    const { rows } = store
    store.rows = async (/** @type {Parameters<typeof rows>} */ ...args) => {
      reads += 1
      return /** @type {any} */ (rows)(...args)
    }
    const gate = { run: (/** @type {() => any} */ task) => task() }
    const hub = new LiveHub({ store, gate: /** @type {any} */ (gate) })
    /** @type {import('../src/merge.js').Row[][]} */
    const heard = Array.from({ length: 50 }, () => [])
    const stops = heard.map((into) =>
      hub.watch(sensorId('s'), undefined, (more) => into.push(...more)),
    )
    let turns = 0
    hub.watch(sensorId('s'), ['a'], () => {
      turns += 1
    })
    for (let tries = 0; turns < 3 && tries < 100; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    for (const stop of stops) stop()
    expect(heard.map(({ length }) => length)).toEqual(heard.map(() => 1))
    expect(turns).toBeGreaterThanOrEqual(3)
    expect(reads).toBeLessThanOrEqual(turns * 3)
  })

  test.each(['pabc~x', 'yesterday'])('%j is no place to go on from', async (id) => {
    const { app, url } = await serve(createFakeStore())
    const headers = { 'last-event-id': id }
    const { status } = await fetch(`${url}/v1/stream?sensor=s`, { headers })
    expect(status).toBe(400)
    await app.close()
  })

  test('shows that it is alive, and where it is, though nothing happens', async () => {
    const { app, url } = await serve(createFakeStore())
    const ids = (/** @type {string} */ text) => [...text.matchAll(/^id: p(.*)$/gm)]
    const { id } = await follow(`${url}/v1/stream?sensor=s`, (_, text) => ids(text).length >= 2)
    expect(Number.parseInt(String(id).slice(1), 36)).toBeGreaterThan(Date.now() - 15_000)
    await app.close()
  })

  test('says when the database goes and comes', async () => {
    const database = { isUp: true }
    const { app, url } = await serve(createFakeStore(), database)
    setTimeout(() => {
      database.isUp = false
    }, 1_000)
    await follow(`${url}/v1/stream?sensor=s`, (_, text) =>
      /"database":"up".*"database":"down"/s.test(text),
    )
    await app.close()
  })

  test('is refused to more clients than there may be, also to those that come at once', async () => {
    const store = createFakeStore()
    const { isKnown } = store
    store.isKnown = async (one) => {
      await new Promise((resolve) => setTimeout(resolve, 50))
      return isKnown(one)
    }
    const { app, url } = await serve(store)
    const stop = new AbortController()
    const open = (sensor = 's', signal = stop.signal) =>
      fetch(`${url}/v1/stream?sensor=${sensor}`, { signal })
    // A refused one, and one that has gone before it was opened, give their places back.
    expect((await open('unknown')).status).toBe(404)
    for (let tries = 0; tries < 3; tries++) {
      await expect(open('s', AbortSignal.timeout(20))).rejects.toThrow()
    }
    await new Promise((resolve) => setTimeout(resolve, 200))
    const answers = await Promise.all(Array.from({ length: 10 }, () => open()))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, ...Array(8).fill(503)])
    stop.abort()
    await app.close()
  })

  test('is refused to more clients than there may be, and ends with the server', async () => {
    const { app, url } = await serve(createFakeStore())
    const stream = `${url}/v1/stream?sensor=s`
    const open = [await fetch(stream), await fetch(stream)]
    expect((await fetch(stream)).status).toBe(503)
    expect((await fetch(`${url}/v1/stream`)).status).toBe(400)
    await app.close()
    for (const response of open) expect(await response.text()).toContain('retry:')
  })
})
