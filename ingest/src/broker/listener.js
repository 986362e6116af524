/** Where clients connect: plainly, with TLS, or by WebSocket with or without it. */

import { createServer as createHttp } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { createServer as createTcp } from 'node:net'
import { createServer as createTls } from 'node:tls'
import { isLoopback, isLoopbackHost } from '@sandglass/common/options'
import { isOwnOrigin } from '@sandglass/common/origin'
import { createWebSocketStream, WebSocketServer } from 'ws'

/** How long a client may take for the handshake of TLS, or for an upgrade, in milliseconds. */
export const HANDSHAKE_MS_MAX = 10_000

/** How often it is looked for upgrades that take longer, in milliseconds. */
const HANDSHAKE_LOOK_MS = 1_000

/** Largest frame of a WebSocket, in bytes; one may hold several packets. */
const FRAME_BYTES_MIN = 2 ** 20

/** @typedef {'mqtt' | 'mqtts' | 'ws' | 'wss'} Kind */
/** @typedef {import('@sandglass/common/options').Address} Address */
/** @typedef {{ cert: Buffer, key: Buffer }} Identity  PEM. */
/** @typedef {{ kind: Kind, listen: Address }} Listen */
/** @typedef {import('node:net').Socket} Socket */

/**
 * What a connection reads and writes. It emits `held` when `heldBytes` may have changed: what has
 * arrived of a frame that is not whole.
 *
 * @typedef {import('node:stream').Duplex & {
 *   destroySoon: () => void, remoteAddress?: string, heldBytes?: number }} Line
 */

/**
 * @param {Listen} what
 * @param {object} parts
 * @param {Identity | undefined} parts.identity  Of this server, for TLS.
 * @param {number} parts.packetBytesMax
 * @param {boolean} parts.asksForKeys
 * @param {number} [parts.handshakeMsMax]
 * @param {(socket: Socket) => void} parts.onSocket  Somebody has connected, and may not have said a
 *   word.
 * @param {(line: Line) => void} parts.onLine  A client has connected.
 * @param {() => void} parts.onFailed  One has not: it was too slow, or made no sense.
 * @returns {import('node:net').Server}  It does not listen yet.
 */
export function createListener({ kind, listen }, parts) {
  const { identity, packetBytesMax, asksForKeys, onSocket, onLine, onFailed } = parts
  const { handshakeMsMax = HANDSHAKE_MS_MAX } = parts
  const open = { allowHalfOpen: true, noDelay: true }
  const tls = { ...identity, handshakeTimeout: handshakeMsMax }
  /** @type {(error: Error, socket: import('node:stream').Duplex) => void} */
  const fail = (_error, socket) => {
    onFailed()
    socket.destroy()
  }
  /** @type {import('node:net').Server} */
  let server
  if (kind === 'mqtt') {
    server = createTcp(open, onLine)
  } else if (kind === 'mqtts') {
    server = createTls({ ...tls, ...open }, onLine)
    // Nobody else closes a connection whose handshake failed, or never ended.
    server.on('tlsClientError', fail)
  } else {
    const slow = {
      requestTimeout: handshakeMsMax,
      connectionsCheckingInterval: Math.min(HANDSHAKE_LOOK_MS, handshakeMsMax),
    }
    const http = kind === 'wss' ? createHttps({ ...tls, ...slow }) : createHttp(slow)
    serveWebSockets(http, { packetBytesMax, onLine }, ({ host, origin }) =>
      isWelcome({ host, origin }, isLoopback(listen), asksForKeys),
    )
    // Failures of TLS come this way, too.
    http.on('clientError', fail)
    server = http
  }
  server.on('connection', onSocket)
  return server
}

/**
 * @param {import('node:http').Server} server
 * @param {{ packetBytesMax: number, onLine: (line: Line) => void }} parts
 * @param {(headers: import('node:http').IncomingHttpHeaders) => boolean} mayEnter
 */
function serveWebSockets(server, { packetBytesMax, onLine }, mayEnter) {
  server.on('request', (_request, response) => {
    response.writeHead(426, {
      upgrade: 'websocket',
      connection: 'close',
      'content-type': 'text/plain',
    })
    response.end('MQTT is spoken here, by WebSocket\n')
  })
  const sockets = new WebSocketServer({
    server,
    maxPayload: Math.max(FRAME_BYTES_MIN, packetBytesMax),
    handleProtocols: (offered) => ['mqtt', 'mqttv3.1'].find((name) => offered.has(name)) ?? false,
    verifyClient: (/** @type {{ req: import('node:http').IncomingMessage }} */ { req }) =>
      mayEnter(req.headers),
  })
  sockets.on('connection', (socket, { socket: below }) => onLine(lineOf(socket, below)))
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

/** @param {import('ws').WebSocket} socket  @param {Socket} below  @returns {Line} */
function lineOf(socket, below) {
  const stream = createWebSocketStream(socket)
  const destroySoon = () => {
    stream.end(() => stream.destroy())
  }
  const { remoteAddress } = below
  const own = { destroySoon, remoteAddress, heldBytes: 0 }
  const line = /** @type {Line} */ (Object.assign(stream, own))
  // What has arrived since the last whole message is kept by the WebSocket.
  let wholeBytes = below.bytesRead
  socket.on('message', (_data, isBinary) => {
    // [MQTT-6.0.0-1]
    if (!isBinary) stream.destroy()
    wholeBytes = below.bytesRead
    line.heldBytes = 0
  })
  below.on('data', () => {
    line.heldBytes = below.bytesRead - wholeBytes
    line.emit('held')
  })
  return line
}
