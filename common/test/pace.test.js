import { expect, test } from '@jest/globals'
import { Pace } from '../src/pace.js'

const LIMITS = {
  headersMs: 1,
  bodyMs: 20_000,
  answerMs: 60_000,
  bytesPerSMin: 1_000,
  sweepMs: 1_000,
}

/** A body that is awaited, of which nothing has come yet. */
function build() {
  const clock = { nowMs: 5_000 }
  const pace = new Pace(LIMITS, () => clock.nowMs)
  /** @type {any} */
  const body = {
    complete: false,
    destroyed: false,
    readableFlowing: true,
    readableLength: 0,
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
  pace.watchBody(body)
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
  expect([body.errors.length, pace.bodiesCut]).toEqual([0, 0])
  pass(1, 0)
  expect(body.errors).toMatchObject([{ code: 'request-too-slow', status: 408 }])
  expect(body.errors[0].message).toContain('less than 1000 bytes a second for 20 s')
  expect([body.destroyed, pace.bodiesCut]).toEqual([false, 1])
  pass(5, 0)
  expect(body.destroyed).toBe(false)
  pass(1, 0)
  expect([body.destroyed, body.errors.length, pace.bodiesCut]).toEqual([true, 1, 1])
})

test('a body that keeps the pace lasts for ever, one a little slower does not', () => {
  const { body, pass } = build()
  pass(100_000, 1_000)
  expect(body.errors).toEqual([])
  pass(201, 900)
  expect(body.errors).toHaveLength(1)
})

test('a body of which more is asked has to come faster from then on', () => {
  const { pace, body, pass } = build()
  pass(100, 1_000)
  pace.hasten(body, 2_000)
  pass(40, 1_000)
  expect(body.errors).toEqual([])
  pass(1, 1_000)
  expect(body.errors[0].message).toContain('less than 2000 bytes a second')
  expect(() => pace.hasten({}, 2_000)).not.toThrow()
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
    expect([body.errors, pace.bodiesCut]).toEqual([[], 0])
  }
})

test('an answer that is not read is destroyed after the grace, one that is read is not', () => {
  const clock = { nowMs: 5_000 }
  const pace = new Pace(LIMITS, () => clock.nowMs)
  /** @type {any} */
  const answer = {
    socket: null,
    req: { complete: false },
    isDestroyed: false,
    once: (/** @type {string} */ _event, /** @type {() => void} */ listener) => {
      answer.close = listener
    },
    destroy: () => {
      answer.isDestroyed = true
    },
  }
  /** @param {number} seconds  @param {number} bytes  That are read in each. */
  const pass = (seconds, bytes) => {
    for (let n = 0; n < seconds; n++) {
      clock.nowMs += 1_000
      if (answer.socket) answer.socket.writableLength -= bytes
      pace.sweep()
    }
  }
  pace.watchAnswer(answer)
  // It is not this one's turn yet, or nothing is to be sent: a quiet stream, a long question.
  pass(1_000, 0)
  answer.socket = { bytesWritten: 1e9, writableLength: 0 }
  pass(1_000, 0)
  answer.socket.writableLength = 1e8
  answer.socket.bytesWritten += 1e8
  // The client still sends.
  pass(1_000, 0)
  answer.req.complete = true
  pass(10_000, 1_000)
  pass(60, 0)
  expect([answer.isDestroyed, pace.answersCut]).toEqual([false, 0])
  pass(1, 0)
  expect([answer.isDestroyed, pace.answersCut]).toEqual([true, 1])
  pass(100, 0)
  expect(pace.answersCut).toBe(1)

  answer.isDestroyed = false
  pace.watchAnswer(answer)
  answer.close()
  pass(100, 0)
  expect([answer.isDestroyed, pace.answersCut]).toEqual([false, 1])
})
