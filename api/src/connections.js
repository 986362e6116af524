/** How long connections may take to become requests, and what those hear that are none. */

import { PROBLEM_TYPE, Problem } from '@sandglass/common/problem'

/** @typedef {import('./metrics.js').Metrics} Metrics */
/** @typedef {import('node:net').Socket} Socket */
/** @typedef {import('node:http').ServerResponse} ServerResponse */

/** How long a client may take for the handshake of TLS, in milliseconds. */
const HANDSHAKE_MS_MAX = 10_000

/**
 * What the server under the application is made with.
 *
 * @param {{ cert: Buffer, key: Buffer } | undefined} identity  For TLS.
 * @param {Readonly<import('@sandglass/common/pace').PaceLimits>} pace
 * @param {number} [handshakeMs]
 */
export function serverOptions(identity, { headersMs, sweepMs }, handshakeMs = HANDSHAKE_MS_MAX) {
  const patience = { headersTimeout: headersMs, connectionsCheckingInterval: sweepMs }
  if (!identity) return { http: patience }
  return { https: { ...identity, ...patience, handshakeTimeout: handshakeMs } }
}

/**
 * Ends connections whose handshake fails or takes too long: Node says that it does, and leaves them
 * open.
 *
 * @param {import('node:http').Server} server
 * @param {Metrics} metrics
 */
export function endFailedHandshakes(server, metrics) {
  server.on('tlsClientError', (_error, socket) => {
    metrics.cut.inc({ reason: 'tls' })
    socket.destroy()
  })
}

/**
 * Has every answer hear when its connection is gone. Node tells that only the one that is being
 * sent: those that wait behind it, as a client may send requests without waiting for answers, would
 * keep for ever what is given back when they close.
 *
 * @param {import('node:http').Server} server
 */
export function closeWaitingAnswers(server) {
  /** Those that are not over, by connection. @type {WeakMap<Socket, Set<ServerResponse>>} */
  const answersOf = new WeakMap()
  server.prependListener('request', ({ socket }, answer) => {
    const answers = answersOf.get(socket) ?? new Set()
    answers.add(answer)
    answer.once('close', () => answers.delete(answer))
    if (answersOf.has(socket)) return
    answersOf.set(socket, answers)
    socket.once('close', () => {
      for (const waiting of answers) {
        // The one that is being sent has its connection still, and hears it from Node.
        if (waiting.socket !== null) continue
        waiting.destroy()
        waiting.emit('close')
      }
    })
  })
}

/**
 * Answers what is no HTTP request, or too large or too slow a one.
 *
 * @param {NodeJS.ErrnoException} error
 * @param {Socket} socket
 * @param {Metrics} metrics
 */
export function answerClientError(error, socket, metrics) {
  const problem = explain(error)
  if (!problem || !socket.writable) {
    socket.destroy()
    return
  }
  if (problem.code === 'request-too-slow') metrics.cut.inc({ reason: 'headers' })
  const body = JSON.stringify(problem)
  const head = [
    `HTTP/1.1 ${problem.status} Refused`,
    `content-type: ${PROBLEM_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}

/** @param {NodeJS.ErrnoException} error  @returns {Problem | undefined}  If HTTP is spoken. */
function explain({ code = '' }) {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Problem('headers-too-large', 'the headers are larger than 16 KiB')
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request-too-slow', 'the headers did not come in time: send them at once')
  }
  if (code.startsWith('HPE_')) {
    return new Problem('invalid-request', 'this is not an HTTP/1.1 request')
  }
  return undefined
}
