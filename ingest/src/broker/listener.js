/** Where clients connect: plainly, with TLS, or by WebSocket with or without it. */

import { createServer as createHttp } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { createServer as createTcp } from 'node:net'
import { createServer as createTls } from 'node:tls'
import { isLoopback, isLoopbackHost } from '@sandglass/common/options'
import { isOwnOrigin } from '@sandglass/common/origin'
import { createWebSocketStream, WebSocketServer } from 'ws'

/** How long a client may take for the handshake of TLS, in milliseconds. */
const HANDSHAKE_MS_MAX = 10_000

/** Largest frame of a WebSocket, in bytes; one may hold several packets. */
const FRAME_BYTES_MIN = 2 ** 20

/** @typedef {'mqtt' | 'mqtts' | 'ws' | 'wss'} Kind */
/** @typedef {import('@sandglass/common/options').Address} Address */
/** @typedef {{ cert: Buffer, key: Buffer }} Identity  PEM. */
/** @typedef {{ kind: Kind, listen: Address }} Listen */

/**
 * What a connection reads and writes.
 *
 * @typedef {import('node:stream').Duplex & {
 *   destroySoon: () => void, remoteAddress?: string }} Line
 */

/**
 * @param {Listen} what
 * @param {object} parts
 * @param {Identity | undefined} parts.identity  Of this server, for TLS.
 * @param {number} parts.packetBytesMax
 * @param {boolean} parts.asksForKeys
 * @param {(line: Line) => void} parts.onLine  A client has connected.
 * @returns {import('node:net').Server}  It does not listen yet.
 */
export function createListener({ kind, listen }, parts) {
  const { identity, packetBytesMax, asksForKeys, onLine } = parts
  const open = { allowHalfOpen: true, noDelay: true }
  const tls = { ...identity, handshakeTimeout: HANDSHAKE_MS_MAX }
  if (kind === 'mqtt') return createTcp(open, onLine)
  if (kind === 'mqtts') return createTls({ ...tls, ...open }, onLine)
  const server = kind === 'wss' ? createHttps(tls) : createHttp()
  server.on('request', (_request, response) => {
    response.writeHead(426, { upgrade: 'websocket', 'content-type': 'text/plain' })
    response.end('MQTT is spoken here, by WebSocket\n')
  })
  const sockets = new WebSocketServer({
    server,
    maxPayload: Math.max(FRAME_BYTES_MIN, packetBytesMax),
    handleProtocols: (offered) => ['mqtt', 'mqttv3.1'].find((name) => offered.has(name)) ?? false,
    verifyClient: (/** @type {{ req: import('node:http').IncomingMessage }} */ { req }) =>
      isWelcome(req.headers, isLoopback(listen), asksForKeys),
  })
  sockets.on('connection', (socket, request) => onLine(lineOf(socket, request.socket)))
  return server
}

/**
 * Whether a WebSocket may be opened: a browser says whose page asks for it. A page of another host
 * must not reach a broker that asks nobody for a key; where keys are required, it has to have one.
 *
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @param {boolean} isLocal  Only this machine can connect.
 * @param {boolean} asksForKeys
 */
function isWelcome({ host, origin }, isLocal, asksForKeys) {
  const isOwn = isOwnOrigin({ host, origin }, true)
  return isLocal ? isLoopbackHost(host) && isOwn : asksForKeys || isOwn
}

/**
 * @param {import('ws').WebSocket} socket
 * @param {import('node:net').Socket} below  What the WebSocket is spoken on.
 * @returns {Line}
 */
function lineOf(socket, { remoteAddress }) {
  const stream = createWebSocketStream(socket)
  const destroySoon = () => {
    stream.end(() => stream.destroy())
  }
  return Object.assign(stream, { destroySoon, remoteAddress })
}
