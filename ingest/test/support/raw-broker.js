/** A broker of MQTT 5 that does what a test says, packet by packet. */

import { once } from 'node:events'
import { createServer } from 'node:net'
import { generate, parser } from 'mqtt-packet'
import { until } from './ingest.js'

/** @typedef {import('mqtt-packet').Packet} Packet */

const V5 = { protocolVersion: 5 }

export class RawBroker {
  /** Of every connection, in the order in which they were made. @type {RawConnection[]} */
  connections = []
  /** What a SUBACK grants. @type {number} */
  granted = 1
  /** Whether a CONNACK says that there is a session. */
  hasSession = false
  /** Whether it sends PUBACKs. */
  acknowledges = true

  constructor() {
    this.server = createServer((socket) => {
      this.connections.push(new RawConnection(socket, this))
    })
  }

  async start() {
    this.server.listen(0, '127.0.0.1')
    await once(this.server, 'listening')
    const { port } = /** @type {import('node:net').AddressInfo} */ (this.server.address())
    this.url = `mqtt://127.0.0.1:${port}`
  }

  /** @returns {import('../../src/external/client.js').ClientOptions}  Of a client of it. */
  get clientOptions() {
    return {
      url: String(this.url),
      clientId: 'i',
      sessionS: 60,
      receiveMax: 10,
      packetBytesMax: 100_000,
      username: undefined,
      password: undefined,
      ca: undefined,
      cert: undefined,
      key: undefined,
    }
  }

  /** The newest connection, once it has subscribed. @param {number} [number]  From 1. */
  async subscribed(number = 1) {
    await until(() => this.connections[number - 1]?.of('subscribe').length)
    return this.connections[number - 1]
  }

  stop() {
    for (const { socket } of this.connections) socket.destroy()
    this.server.close()
  }
}

class RawConnection {
  /** @param {import('node:net').Socket} socket  @param {RawBroker} broker */
  constructor(socket, broker) {
    this.socket = socket
    /** @type {Packet[]} */
    this.packets = []
    this.isClosed = false
    const parse = parser(V5)
    parse.on('packet', (packet) => {
      this.packets.push(packet)
      this.answer(packet, broker)
    })
    socket.on('data', (chunk) => parse.parse(chunk))
    socket.on('error', () => {})
    socket.on('close', () => {
      this.isClosed = true
    })
  }

  /** @param {Packet} packet  @param {RawBroker} broker */
  answer(packet, { granted, hasSession, acknowledges }) {
    if (packet.cmd === 'connect') {
      this.send({ cmd: 'connack', reasonCode: 0, sessionPresent: hasSession })
    } else if (packet.cmd === 'subscribe') {
      const { messageId, subscriptions } = packet
      this.send({ cmd: 'suback', messageId, granted: subscriptions.map(() => granted) })
    } else if (packet.cmd === 'unsubscribe') {
      const { messageId, unsubscriptions } = packet
      this.send({ cmd: 'unsuback', messageId, granted: unsubscriptions.map(() => 0) })
    } else if (packet.cmd === 'publish' && packet.qos === 1 && acknowledges) {
      this.send({ cmd: 'puback', messageId: packet.messageId })
    } else if (packet.cmd === 'pingreq') {
      this.send({ cmd: 'pingresp' })
    }
  }

  /** @param {Packet} packet */
  send(packet) {
    this.socket.write(generate(packet, V5))
  }

  /** @param {number} messageId  @param {Partial<import('mqtt-packet').IPublishPacket>} [fields] */
  publish(messageId, fields = {}) {
    this.send({
      cmd: 'publish',
      topic: 'sensors/s/m',
      payload: `${messageId}`,
      qos: 1,
      dup: false,
      retain: false,
      messageId,
      ...fields,
    })
  }

  /** What arrived of a kind. @param {string} cmd @returns {any[]} */
  of(cmd) {
    return this.packets.filter((packet) => packet.cmd === cmd)
  }

  /** Ids of the PUBACKs that arrived, in order. */
  get acknowledged() {
    return this.of('puback').map(({ messageId }) => messageId)
  }
}
