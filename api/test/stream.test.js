import { describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
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
 * Reads a stream until enough has come.
 *
 * @param {string} url
 * @param {(events: any[], text: string) => boolean} isEnough
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
    const events = [...text.matchAll(/^event: measurement\nid: (\d+)\ndata: (.*)$/gm)].map(
      ([, id, data]) => ({ id, ...JSON.parse(data) }),
    )
    if (!isEnough(events, text)) continue
    stop.abort()
    return events
  }
}

describe('a live stream', () => {
  test('tells each new value once, in time order, late ones and other clocks too', async () => {
    /** @type {import('../src/merge.js').Row[]} */
    const rows = [{ metric: 'a', t: 5_000, seq: 0, value: 0 }]
    const { app, url } = await serve(createFakeStore({ rows }))
    const now = Date.now()
    setTimeout(() => rows.push({ metric: 'b', t: now - 100, seq: 0, value: 'x' }), 1_300)
    setTimeout(() => {
      rows.push({ metric: 'b', t: now - 200, seq: 0, value: true })
      rows.push({ metric: 'b', t: now + 60_000, seq: 0, value: 1 })
      rows.push({ metric: 'a', t: 9_000, seq: 0, value: 2.5 })
    }, 1_700)
    const events = await follow(`${url}/v1/stream?sensor=s`, ({ length }) => length >= 4)
    expect(events.map(({ metric, t, v }) => [metric, t, v]).sort()).toEqual(
      [
        ['a', 9_000, 2.5],
        ['b', now - 100, 'x'],
        ['b', now - 200, true],
        ['b', now + 60_000, 1],
      ].sort(),
    )
    await app.close()
  }, 15_000)

  test('goes on from the last event that a client has', async () => {
    const now = Date.now()
    const rows = [1, 2, 3].map((index) => ({
      metric: 'a',
      t: now - 60_000 + index,
      seq: 0,
      value: index,
    }))
    const { app, url } = await serve(createFakeStore({ rows }))
    const headers = { 'last-event-id': String(rows[1].t) }
    const enough = (/** @type {any[]} */ events) => events.length >= 2
    const events = await follow(`${url}/v1/stream?sensor=s`, enough, headers)
    expect(events.map(({ v }) => v)).toEqual([2, 3])
    await app.close()
  }, 15_000)

  test('says when the database goes and comes', async () => {
    const database = { isUp: true }
    const { app, url } = await serve(createFakeStore(), database)
    setTimeout(() => {
      database.isUp = false
    }, 300)
    await follow(`${url}/v1/stream?sensor=s`, (_, text) =>
      /"database":"up".*"database":"down"/s.test(text),
    )
    await app.close()
  }, 15_000)

  test('is refused to more clients than there may be, and ends with the server', async () => {
    const { app, url } = await serve(createFakeStore())
    const stream = `${url}/v1/stream?sensor=s`
    const open = [await fetch(stream), await fetch(stream)]
    expect((await fetch(stream)).status).toBe(503)
    expect((await fetch(`${url}/v1/stream`)).status).toBe(400)
    await app.close()
    for (const response of open) expect(await response.text()).toContain('retry:')
  }, 15_000)
})
