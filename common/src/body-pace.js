/**
 * Cuts off requests that come too slowly: else a few that send a byte now and then hold memory, and
 * the slots of imports, for ever. How long a body lasts is not limited, as a file may be large;
 * only the time in which we wait for its client is. Each body has a credit of time: waiting uses it
 * up, and bytes that arrive earn it back.
 */

import { Problem } from './problem.js'

/**
 * @typedef {object} PaceLimits
 * @property {number} headersMs  Within which the headers of a request are there.
 * @property {number} graceMs  For which a body may stand still.
 * @property {number} bytesPerSMin  At which it comes otherwise, by the second.
 * @property {number} sweepMs  How often that is looked at.
 */

/** What a phone on a bad line keeps to. @type {Readonly<PaceLimits>} */
export const PACE = Object.freeze({
  headersMs: 15_000,
  graceMs: 20_000,
  bytesPerSMin: 1_024,
  sweepMs: 1_000,
})

/** How much of its credit a body has left when it was told that it is too slow. */
const LINGER_SHARE = 0.25

/**
 * What of a request is looked at.
 *
 * @typedef {Pick<import('node:http').IncomingMessage, 'complete' | 'destroyed' |
 *   'readableFlowing' | 'readableLength' | 'emit' | 'listenerCount' | 'destroy'> &
 *   { socket: { bytesRead: number } }} Body
 */

/**
 * @typedef {object} State
 * @property {number} bytesPerSMin
 * @property {number} bytesRead  By the connection, when it was last looked at.
 * @property {number} creditMs
 * @property {boolean} isTold  The client was told that it is too slow.
 */

export class BodyPace {
  #limits
  #nowMs
  /** @type {Map<Body, State>} */
  #bodies = new Map()
  #sweptMs
  /** @type {NodeJS.Timeout | undefined} */
  #timer

  /** Bodies that were too slow. */
  cut = 0

  /**
   * @param {Readonly<PaceLimits>} [limits]
   * @param {() => number} [nowMs]  Of a clock that nobody sets.
   */
  constructor(limits = PACE, nowMs = () => performance.now()) {
    this.#limits = limits
    this.#nowMs = nowMs
    this.#sweptMs = nowMs()
  }

  /**
   * Watches all requests with a body that a server is sent.
   *
   * @param {import('node:http').Server} server
   * @param {ReadonlyMap<string, number>} [faster]  Paths that want more bytes a second.
   */
  watchServer(server, faster = new Map()) {
    server.on('request', (request) => {
      const { url = '', headers } = request
      if (!('content-length' in headers || 'transfer-encoding' in headers)) return
      this.watch(request, faster.get(url.split('?')[0]))
    })
  }

  /**
   * Watches a request until it is there as a whole, or its connection is gone. If it is too slow
   * its stream fails with a problem, for whoever reads it to answer; a while later it is destroyed.
   *
   * @param {Body} body
   * @param {number} [bytesPerSMin]
   */
  watch(body, bytesPerSMin = this.#limits.bytesPerSMin) {
    if (body.complete) return
    if (this.#bodies.size === 0) {
      this.#sweptMs = this.#nowMs()
      this.#timer = setInterval(() => this.sweep(), this.#limits.sweepMs).unref()
    }
    const { bytesRead } = body.socket
    const creditMs = this.#limits.graceMs
    this.#bodies.set(body, { bytesPerSMin, bytesRead, creditMs, isTold: false })
  }

  /** Looks at all bodies. */
  sweep() {
    const nowMs = this.#nowMs()
    // Time in which this process itself stood still is nobody's fault.
    const elapsedMs = Math.min(nowMs - this.#sweptMs, 2 * this.#limits.sweepMs)
    this.#sweptMs = nowMs
    for (const [body, state] of this.#bodies) {
      if (body.complete || body.destroyed) this.#bodies.delete(body)
      else this.#charge(body, state, elapsedMs)
    }
    if (this.#bodies.size === 0) clearInterval(this.#timer)
  }

  /** @param {Body} body  @param {State} state  @param {number} elapsedMs */
  #charge(body, state, elapsedMs) {
    const { graceMs } = this.#limits
    const { bytesRead } = body.socket
    const earnedMs = ((bytesRead - state.bytesRead) / state.bytesPerSMin) * 1_000
    state.bytesRead = bytesRead
    // Where bytes lie there, or are not wanted yet, it is us who are slow.
    const isAwaited = body.readableFlowing !== false && body.readableLength === 0
    state.creditMs = Math.min(graceMs, state.creditMs + earnedMs - (isAwaited ? elapsedMs : 0))
    if (state.creditMs >= 0) return
    if (state.isTold || body.listenerCount('error') === 0) {
      this.#bodies.delete(body)
      body.destroy()
    }
    if (!state.isTold) {
      this.cut += 1
      state.isTold = true
      state.creditMs = graceMs * LINGER_SHARE
      // Not destroyed: that would destroy the connection, and the answer with it.
      if (body.listenerCount('error') > 0) body.emit('error', tooSlow(state, graceMs))
    }
  }
}

/** @param {State} state  @param {number} graceMs */
function tooSlow({ bytesPerSMin }, graceMs) {
  return new Problem(
    'request-too-slow',
    `the body came with less than ${bytesPerSMin} bytes a second for ${graceMs / 1_000} s: ` +
      'send it again, in smaller pieces if the line is slow',
  )
}
