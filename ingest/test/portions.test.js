// What one client sends at once costs a portion of it at a time.
import { describe, expect, test } from '@jest/globals'
import { deliver } from '../src/http/delivery.js'
import { PORTION, takeInPortions } from '../src/message/portions.js'
import { until } from './support/ingest.js'
import { build } from './support/pipeline.js'

const T = Date.UTC(2026, 0, 1)

/** Rows of one measurement besides itself: of its series, its hour, its newest value. */
const ROWS_BESIDES_MAX = 8

/**
 * A pipeline whose database answers when it is told to.
 *
 * @param {Parameters<typeof build>[0]} [limits]
 */
function slow(limits) {
  const parts = build(limits)
  parts.storage.isManual = true
  let waitingMax = 0
  /** Answers everything that was asked. */
  const answer = () => {
    waitingMax = Math.max(waitingMax, parts.batcher.waiting)
    for (const request of parts.storage.requests.splice(0)) request.end()
  }
  return { ...parts, answer, waitingMax: () => waitingMax }
}

describe('a message of very many values', () => {
  test('has a portion of its rows under way, and all of them in the end', async () => {
    const { accept, answer, waitingMax, storage } = slow({ heldBytesMax: 1e9 })
    const readings = Array.from({ length: 20 * PORTION }, (_, at) => ({ t: T + at, v: at }))
    const message = accept('sensors/s/m', readings)
    await until(() => {
      answer()
      return message.isSettled
    })
    expect(waitingMax()).toBeLessThanOrEqual(PORTION + ROWS_BESIDES_MAX)
    const rows = storage.rowsOf('measurement_30d')
    expect(rows.map(({ ts, v }) => ts - T - v)).toEqual(readings.map(() => 0))
  })

  test('is counted at what it costs, and by its sender, until it is durable', async () => {
    const { accept, answer, inFlight, memory } = slow({ heldBytesMax: 1e6 })
    const sender = { bytesInFlight: 0 }
    const message = accept('sensors/s/m', Array(20_000).fill(1), { sender })
    expect(message.payload.length).toBeLessThan(50_000)
    expect(memory.shares.inFlight.bytes).toBeGreaterThan(2e6)
    expect(sender.bytesInFlight).toBe(memory.shares.inFlight.bytes)
    expect(inFlight.isFull).toBe(true)
    await until(() => {
      answer()
      return message.isSettled
    })
    expect([memory.shares.inFlight.bytes, sender.bytesInFlight]).toEqual([0, 0])
  })

  test('goes to the spool, or back, at any portion without a row too few', async () => {
    const { accept, answer, storage, pipeline } = slow({ heldBytesMax: 1e9 })
    const message = accept(
      'sensors/s/m',
      Array.from({ length: 3 * PORTION }, (_, at) => at),
    )
    await until(() => storage.requests.length > 0)
    message.move('spooling')
    for (let turn = 0; turn < 20; turn++) {
      answer()
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(storage.rowsOf('measurement_30d')).toHaveLength(PORTION)
    pipeline.notSpooled([message])
    await until(() => {
      answer()
      return message.isSettled
    })
    expect(storage.rowsOf('measurement_30d')).toHaveLength(3 * PORTION)
  })
})

test('lines are messages a portion at a time', async () => {
  const { accept, answer, inFlight, counts, memory } = slow({ heldBytesMax: 1e9 })
  const count = 10 * PORTION
  const lines = Array.from({ length: count }, (_, at) => `m,sensor=s value=${at} ${T + at}000000`)
  const message = accept('telegraf/x', lines.join('\n'))
  let heldMax = 0
  await until(() => {
    heldMax = Math.max(heldMax, inFlight.count)
    answer()
    return message.isSettled
  })
  // What is taken in one turn ends with its time, too.
  expect(heldMax).toBeLessThanOrEqual(PORTION)
  expect([counts.received, counts.storedMessages]).toEqual([count, count])
  expect(memory.shares.inFlight.bytes).toBe(0)
})

test('parts that are settled at once leave time to others between them', async () => {
  const count = 20
  /** @type {number[]} */
  const settled = []
  const turnMs = 3
  const done = new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
    takeInPortions({
      count,
      make: (_, origin) => /** @type {any} */ ({ origin }),
      accept(message) {
        const endMs = performance.now() + turnMs
        while (performance.now() < endMs);
        message.origin.settled(message)
      },
      onSettled: (_, at) => settled.push(at),
      onDone: resolve,
    })
  })
  // Each takes longer than a turn may.
  expect(settled).toEqual([0])
  await done
  expect(settled).toEqual(Array.from({ length: count }, (_, at) => at))
})

test('items of a body are, and wait while too much is in flight', async () => {
  const { pipeline, answer, inFlight, storage } = slow({ heldBytesMax: 100_000 })
  const count = 5 * PORTION
  const items = Array.from({ length: count }, (_, at) => ({
    format: 1,
    payload: Buffer.from(JSON.stringify({ sensor: 's', t: T + at, m: at % 7 === 0 ? null : at })),
  }))
  let bytesMax = 0
  /** @type {import('../src/http/delivery.js').Delivered | undefined} */
  let delivered
  void deliver(pipeline, items, { path: '/v1/measurements', client: 'c' }).then((answered) => {
    delivered = answered
  })
  await until(() => {
    bytesMax = Math.max(bytesMax, inFlight.bytes)
    answer()
    return delivered !== undefined
  })
  const refused = items.flatMap((_, item) => (item % 7 === 0 ? [item] : []))
  expect(delivered?.refused.map(({ item }) => item)).toEqual(refused)
  expect(delivered).toMatchObject({ received: count, stored: count - refused.length })
  expect(storage.rowsOf('measurement_30d')).toHaveLength(count - refused.length)
  expect(bytesMax).toBeLessThan(100_000 + 2_000)
})
