/**
 * Cuts off clients that send or read too slowly: else a few that take a byte now and then hold
 * memory, and the slots of imports and exports, for ever. How long a transfer lasts is not limited,
 * as a file may be large; only the time in which we wait for its client is. Each transfer has a
 * credit of time: waiting uses it up, and bytes that pass earn it back.
 */

import { Problem } from './problem.js'

/** @typedef {import('node:http').IncomingMessage} IncomingMessage */
/** @typedef {import('node:http').ServerResponse} ServerResponse */

/**
 * @typedef {object} PaceLimits
 * @property {number} headersMs  Within which the headers of a request are there.
 * @property {number} bodyMs  For which a body may stand still.
 * @property {number} answerMs  For which an answer may not be read.
 * @property {number} bytesPerSMin  At which either passes otherwise, by the second.
 * @property {number} sweepMs  How often that is looked at.
 */

/** What a phone on a bad line, and a program that works on what it reads, keep to. */
export const PACE = Object.freeze({
  headersMs: 15_000,
  bodyMs: 20_000,
  answerMs: 60_000,
  bytesPerSMin: 1_024,
  sweepMs: 1_000,
})

/** How much of its credit a body has left when it was told that it is too slow. */
const LINGER_SHARE = 0.25

/**
 * What of a request is looked at.
 *
 * @typedef {Pick<IncomingMessage, 'complete' | 'destroyed' | 'readableFlowing' | 'readableLength' |
 *   'emit' | 'listenerCount' | 'destroy'> & { socket: { bytesRead: number } }} Body
 */

/**
 * What of an answer is looked at.
 *
 * @typedef {Pick<ServerResponse, 'destroy'> & { req: { complete: boolean },
 *   socket: { bytesWritten: number, writableLength: number } | null,
 *   once: (event: 'close', listener: () => void) => unknown }} Answer
 */

/**
 * @typedef {object} Transfer
 * @property {() => boolean} isOver
 * @property {() => boolean} isAwaited  Whether it is the client that we wait for.
 * @property {() => number} bytes  That have passed on its connection.
 * @property {() => void} onSlow  It has no credit any more.
 * @property {number} passed  Bytes when it was last looked at.
 * @property {number} bytesPerSMin
 * @property {number} creditMsMax
 * @property {number} creditMs
 */

export class Pace {
  #limits
  #nowMs
  /** @type {Map<object, Transfer>} */
  #transfers = new Map()
  #sweptMs
  /** @type {NodeJS.Timeout | undefined} */
  #timer

  /** Bodies, and answers, that were too slow. */
  bodiesCut = 0
  answersCut = 0

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
   * Watches all requests that a server is sent, and its answers.
   *
   * @param {import('node:http').Server} server
   */
  watchServer(server) {
    // Before anybody else, so that whoever finds its route can ask more of it.
    server.prependListener('request', (request, response) => {
      const { headers } = request
      this.watchAnswer(response)
      if (!('content-length' in headers || 'transfer-encoding' in headers)) return
      this.watchBody(request)
    })
  }

  /**
   * Asks more of a body that is watched already: its route is known only after that.
   *
   * @param {object} body
   * @param {number} bytesPerSMin
   */
  hasten(body, bytesPerSMin) {
    const transfer = this.#transfers.get(body)
    if (transfer) transfer.bytesPerSMin = bytesPerSMin
  }

  /**
   * Watches a request until it is there as a whole, or its connection is gone. If it is too slow
   * its stream fails with a problem, for whoever reads it to answer; a while later it is destroyed.
   *
   * @param {Body} body
   */
  watchBody(body) {
    const { bodyMs, bytesPerSMin } = this.#limits
    let isTold = false
    const transfer = this.#watch(body, bodyMs, bytesPerSMin, {
      isOver: () => body.complete || body.destroyed,
      // Where bytes lie there, or are not wanted yet, it is us who are slow.
      isAwaited: () => body.readableFlowing !== false && body.readableLength === 0,
      bytes: () => body.socket.bytesRead,
      onSlow: () => {
        if (!isTold) this.bodiesCut += 1
        if (isTold || body.listenerCount('error') === 0) {
          body.destroy()
          return
        }
        isTold = true
        transfer.creditMs = bodyMs * LINGER_SHARE
        // Not destroyed: that would destroy the connection, and the answer with it.
        body.emit('error', tooSlow(transfer.bytesPerSMin, bodyMs))
      },
    })
  }

  /**
   * Watches an answer until it is sent, or its connection is gone. If it is not read it is
   * destroyed.
   *
   * @param {Answer} answer
   */
  watchAnswer(answer) {
    const { answerMs, bytesPerSMin } = this.#limits
    this.#watch(answer, answerMs, bytesPerSMin, {
      isOver: () => false,
      // Many a client reads only when it has sent everything.
      isAwaited: () => answer.req.complete && (answer.socket?.writableLength ?? 0) > 0,
      bytes: () => (answer.socket ? answer.socket.bytesWritten - answer.socket.writableLength : 0),
      onSlow: () => {
        this.answersCut += 1
        this.#transfers.delete(answer)
        answer.destroy()
      },
    })
    // There are many, and most are short: they do not wait to be looked at.
    answer.once('close', () => this.#transfers.delete(answer))
  }

  /**
   * @param {object} key
   * @param {number} creditMs
   * @param {number} bytesPerSMin
   * @param {Pick<Transfer, 'isOver' | 'isAwaited' | 'bytes' | 'onSlow'>} what
   */
  #watch(key, creditMs, bytesPerSMin, what) {
    if (this.#transfers.size === 0) {
      this.#sweptMs = this.#nowMs()
      this.#timer ??= setInterval(() => this.sweep(), this.#limits.sweepMs).unref()
    }
    const passed = what.bytes()
    const transfer = { ...what, passed, bytesPerSMin, creditMs, creditMsMax: creditMs }
    this.#transfers.set(key, transfer)
    return transfer
  }

  /** Looks at all transfers. */
  sweep() {
    const nowMs = this.#nowMs()
    // Time in which this process itself stood still is nobody's fault.
    const elapsedMs = Math.min(nowMs - this.#sweptMs, 2 * this.#limits.sweepMs)
    this.#sweptMs = nowMs
    for (const [key, transfer] of this.#transfers) {
      if (transfer.isOver()) this.#transfers.delete(key)
      else charge(transfer, elapsedMs)
    }
    if (this.#transfers.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** @param {Transfer} transfer  @param {number} elapsedMs */
function charge(transfer, elapsedMs) {
  const bytes = transfer.bytes()
  const earnedMs = ((bytes - transfer.passed) / transfer.bytesPerSMin) * 1_000
  transfer.passed = bytes
  const waitedMs = transfer.isAwaited() ? elapsedMs : 0
  transfer.creditMs = Math.min(transfer.creditMsMax, transfer.creditMs + earnedMs - waitedMs)
  if (transfer.creditMs < 0) transfer.onSlow()
}

/** @param {number} bytesPerSMin  @param {number} graceMs */
function tooSlow(bytesPerSMin, graceMs) {
  return new Problem(
    'request-too-slow',
    `the body came with less than ${bytesPerSMin} bytes a second for ${graceMs / 1_000} s: ` +
      'send it again, in smaller pieces if the line is slow',
  )
}
