import { beforeEach, describe, expect, test } from '@jest/globals'
import { Semaphore } from '@sandglass/common/semaphore'
import { sensorId } from '@sandglass/common/sensor'
import { Follower } from '../src/follower.js'
import { MeasurementReader } from '../src/measurements.js'
import { decodeWatermark } from '../src/watermark.js'
import { createFakeStore } from './support/fake-store.js'

const NOW = Date.now()
const SENSOR = { id: sensorId('s'), name: 's' }

/** @typedef {import('../src/merge.js').Row} Row */

/** @param {number} from  @param {number} to  @param {number} [t]  @returns {Row[]} */
const rowsOf = (from, to, t = NOW - 1_000_000) =>
  Array.from({ length: to - from }, (_, index) => ({
    metric: 'a',
    t: t + from + index,
    seq: 0,
    value: from + index,
  }))

/** A client that takes what it is told when the test says so. */
class FakeClient {
  /** @type {number[]} */
  values = []
  /** @type {string | undefined} */
  id
  isFull = false
  isCut = false
  events = 0
  /** @type {() => void} */
  take = () => {}

  /** The bytes of text of each event. @type {number[]} */
  lengths = []

  /** @param {{ row: Row }[]} rows  @param {string | undefined} id */
  tell(rows, id) {
    this.events += 1
    this.values.push(...rows.map(({ row }) => Number(row.value)))
    this.lengths.push(rows.reduce((sum, { row }) => sum + `${row.value}`.length, 0))
    this.id = id
  }

  isBehind() {
    return this.isFull
  }

  async drained() {
    await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      this.take = resolve
    })
  }

  cut() {
    this.isCut = true
  }
}

/** @type {Row[]} */
let rows
/** What the hub would tell. @type {import('../src/live.js').Listener} */
let hear
/** @type {FakeClient} */
let client
/** @type {AbortController} */
let controller

beforeEach(() => {
  rows = []
  client = new FakeClient()
  controller = new AbortController()
})

/** @param {import('../src/watermark.js').Watermark | undefined} after */
function follower(after) {
  const store = createFakeStore({ rows })
  const hub = {
    now: () => NOW,
    watch: (/** @type {any} */ _id, /** @type {any} */ _metrics, /** @type {any} */ tell) => {
      hear = tell
      return () => {}
    },
  }
  return new Follower({
    sensors: [SENSOR],
    metrics: ['a'],
    after,
    store,
    client,
    reader: new MeasurementReader({ store, gate: new Semaphore(8), now: () => NOW }),
    hub: /** @type {any} */ (hub),
    signal: controller.signal,
  })
}

const since = (/** @type {number} */ sinceMs) => ({ sinceMs, series: new Map() })
const turn = () => new Promise((resolve) => setTimeout(resolve, 5))

/** @param {() => boolean} isSo */
async function until(isSo) {
  for (let tries = 0; !isSo(); tries++) {
    expect(tries).toBeLessThan(2_000)
    await turn()
  }
}

describe('a follower', () => {
  test('reads no faster than its client takes', async () => {
    rows.push(...rowsOf(0, 5_000))
    client.isFull = true
    const following = follower(since(0)).follow()
    await until(() => client.events > 0)
    for (let turns = 0; turns < 20; turns++) await turn()
    expect(client.values).toHaveLength(64)
    client.isFull = false
    client.take()
    await following
    expect(client.values).toEqual(rows.map(({ value }) => value))
  })

  test('tells what came while it caught up, and what it has told already not again', async () => {
    rows.push(...rowsOf(0, 2_000))
    client.isFull = true
    const following = follower(since(0)).follow()
    await until(() => client.events > 0)
    const late = rowsOf(9_000, 9_010)
    hear([...rows.slice(500, 1_500), ...late], 0)
    client.isFull = false
    client.take()
    await following
    expect(client.values).toEqual([...rows, ...late].map(({ value }) => value))
  })

  test('reads what was thrown away because too much came while it caught up', async () => {
    rows.push(...rowsOf(0, 2_000))
    client.isFull = true
    const following = follower(since(0)).follow()
    await until(() => client.events > 0)
    const more = rowsOf(2_000, 24_000)
    rows.push(...more)
    for (let at = 0; at < more.length; at += 1_000) hear(more.slice(at, at + 1_000), 0)
    client.isFull = false
    client.take()
    await following
    expect(client.isCut).toBe(false)
    expect(client.values).toEqual(rows.map(({ value }) => value))
  })

  test('lets a client go that does not read, which misses nothing when it is back', async () => {
    rows.push(...rowsOf(0, 100))
    await follower(since(0)).follow()
    const live = rowsOf(100, 200)
    rows.push(...live)
    hear(live, NOW - 10_000)
    await until(() => client.values.length === 200)
    client.isFull = true
    for (let from = 200; !client.isCut; from += 1_000) {
      expect(from).toBeLessThan(30_000)
      const more = rowsOf(from, from + 1_000)
      rows.push(...more)
      hear(more, NOW - 10_000)
    }
    controller.abort()
    const { values, id } = client
    client = new FakeClient()
    controller = new AbortController()
    await follower(decodeWatermark('after', String(id))).follow()
    expect([...values, ...client.values]).toEqual(rows.map(({ value }) => value))
  })

  test('that begins now tells nothing of before, but what becomes visible late', async () => {
    rows.push(...rowsOf(0, 10, NOW - 5_000))
    const one = follower(undefined)
    expect(one.id).toBeUndefined()
    await one.follow()
    hear([...rows, ...rowsOf(20, 21, NOW - 5_000)], NOW - 10_000)
    await until(() => client.values.length > 0)
    expect(client.values).toEqual([20])
    expect(one.id).toBeDefined()
  })

  test('goes on where it was: what became visible meanwhile is told, with rows beside it', async () => {
    rows.push(...rowsOf(0, 2_000, NOW - 2_000))
    await follower(since(NOW - 10_000)).follow()
    const { id } = client
    const late = { ...rows[1_500], seq: 1, value: 7_000 }
    rows.push(late, ...rowsOf(2_000, 2_010, NOW - 2_000))
    client = new FakeClient()
    await follower(decodeWatermark('after', String(id))).follow()
    expect(client.values).toContain(7_000)
    expect(client.values.slice(-10)).toEqual(rows.slice(-10).map(({ value }) => value))
    expect(client.values.length).toBeLessThanOrEqual(11 + 64)
    expect(new Set(client.values).size).toBe(client.values.length)
  })

  test('is cut off when what waits for it has too many bytes, however few rows they are', async () => {
    await follower(since(0)).follow()
    client.isFull = true
    const text = 'x'.repeat(64 * 1024)
    let count = 0
    for (; !client.isCut; count += 1) {
      expect(count).toBeLessThan(100)
      hear([{ metric: 'a', t: NOW + count, seq: 0, value: text }], NOW - 10_000)
    }
    expect(count).toBeGreaterThan(10)
  })

  test('tells long texts in events that are not much longer than one of them', async () => {
    const text = '1'.repeat(60_000)
    rows.push(...rowsOf(0, 100).map((row) => ({ ...row, value: text })))
    const following = follower(since(0)).follow()
    await following
    expect(client.values).toHaveLength(100)
    expect(Math.max(...client.lengths)).toBeLessThan(5 * text.length)
    const live = rowsOf(100, 130).map((row) => ({ ...row, value: text }))
    client.lengths = []
    hear(live, NOW - 10_000)
    await until(() => client.values.length === 130)
    expect(Math.max(...client.lengths)).toBeLessThan(5 * text.length)
  })

  test('goes on with a device whose clock is behind from its last value, of any event', async () => {
    await follower(since(NOW - 5_000)).follow()
    const [told, missed] = rowsOf(1, 3)
    rows.push(told)
    hear([told], NOW - 10_000)
    await until(() => client.values.length === 1)
    rows.push(missed)
    const { id } = client
    client = new FakeClient()
    await follower(decodeWatermark('after', String(id))).follow()
    expect(client.values).toEqual([missed.value])
  })
})
