import { expect, test } from '@jest/globals'
import { BodyPace } from '../src/body-pace.js'

const LIMITS = { headersMs: 1, graceMs: 20_000, bytesPerSMin: 1_000, sweepMs: 1_000 }

/** A body that is awaited, of which nothing has come yet. */
function build() {
  const clock = { nowMs: 5_000 }
  const pace = new BodyPace(LIMITS, () => clock.nowMs)
  /** @type {any} */
  const body = {
    ...{ complete: false, destroyed: false, readableFlowing: true, readableLength: 0 },
    socket: { bytesRead: 300 },
    listeners: 1,
    /** @type {any[]} */
    errors: [],
    listenerCount: () => body.listeners,
    emit: (/** @type {string} */ _name, /** @type {Error} */ error) => body.errors.push(error),
    destroy: () => {
      body.destroyed = true
    },
  }
  pace.watch(body)
  /** @param {number} seconds  @param {number} bytes  Of each second. */
  const pass = (seconds, bytes) => {
    for (let n = 0; n < seconds; n++) {
      clock.nowMs += 1_000
      body.socket.bytesRead += bytes
      pace.sweep()
    }
  }
  return { clock, pace, body, pass }
}

test('a body that stands still is told so after the grace, and destroyed a while later', () => {
  const { pace, body, pass } = build()
  pass(20, 0)
  expect([body.errors.length, pace.cut]).toEqual([0, 0])
  pass(1, 0)
  expect(body.errors).toMatchObject([{ code: 'request-too-slow', status: 408 }])
  expect(body.errors[0].message).toContain('less than 1000 bytes a second for 20 s')
  expect([body.destroyed, pace.cut]).toEqual([false, 1])
  pass(5, 0)
  expect(body.destroyed).toBe(false)
  pass(1, 0)
  expect([body.destroyed, body.errors.length, pace.cut]).toEqual([true, 1, 1])
})

test('a body that keeps the pace lasts for ever, one a little slower does not', () => {
  const { body, pass } = build()
  pass(100_000, 1_000)
  expect(body.errors).toEqual([])
  pass(201, 900)
  expect(body.errors).toHaveLength(1)
})

test('what came fast earns no more than the grace', () => {
  const { body, pass } = build()
  pass(1, 1e9)
  pass(21, 0)
  expect(body.errors).toHaveLength(1)
})

test('time in which nobody reads is not the time of the client', () => {
  for (const busy of [{ readableFlowing: false }, { readableLength: 1 }]) {
    const { body, pass } = build()
    Object.assign(body, busy)
    pass(1_000, 0)
    expect(body.errors).toEqual([])
    Object.assign(body, { readableFlowing: true, readableLength: 0 })
    pass(21, 0)
    expect(body.errors).toHaveLength(1)
  }
})

test('time in which this process stood still is not the time of the client either', () => {
  const { clock, body, pass } = build()
  clock.nowMs += 3_600_000
  pass(19, 0)
  expect(body.errors).toEqual([])
  pass(1, 0)
  expect(body.errors).toHaveLength(1)
})

test('a body that nobody reads for an answer is destroyed at once', () => {
  const { body, pass } = build()
  Object.assign(body, { listeners: 0, readableFlowing: null })
  pass(21, 0)
  expect([body.destroyed, body.errors]).toEqual([true, []])
})

test('a body that is whole, or whose connection is gone, is looked at no more', () => {
  for (const end of ['complete', 'destroyed']) {
    const { body, pass, pace } = build()
    body[end] = true
    pass(1, 0)
    body[end] = false
    pass(100, 0)
    expect([body.errors, pace.cut]).toEqual([[], 0])
  }
})
