/** A client that speaks raw packets of MQTT, or bytes that are none. */

import { connect } from 'node:net'
import { generate, parser } from 'mqtt-packet'
import { publish, until } from './ingest.js'

/** @typedef {import('mqtt-packet').Packet} Packet */

/** Of every client that a test has begun. @type {PacketClient[]} */
let all = []

/** Closes them. */
export function endAll() {
  for (const { socket } of all) socket.destroy()
  all = []
}

export class PacketClient {
  #version

  /** @param {number} port  @param {4 | 5} version */
  constructor(port, version) {
    this.#version = version
    all.push(this)
    this.socket = connect(port, '127.0.0.1')
    /** @type {any[]} */
    this.packets = []
    this.isClosed = false
    /** Whether it acknowledges what it gets. */
    this.acknowledges = true
    const parse = parser({ protocolVersion: version })
    parse.on('packet', (packet) => {
      this.packets.push(packet)
      if (this.acknowledges) this.#answer(/** @type {any} */ (packet))
    })
    this.socket.on('data', (chunk) => parse.parse(chunk))
    this.socket.on('error', () => {})
    this.socket.on('close', () => {
      this.isClosed = true
    })
  }

  /** @param {any} packet */
  #answer({ cmd, qos, messageId }) {
    if (cmd === 'publish' && qos === 1) this.send({ cmd: 'puback', messageId })
    if (cmd === 'publish' && qos === 2) this.send({ cmd: 'pubrec', messageId })
    if (cmd === 'pubrel') this.send({ cmd: 'pubcomp', messageId })
  }

  /** @param {Packet} packet */
  send(packet) {
    this.socket.write(generate(packet, { protocolVersion: this.#version }))
  }

  /** @param {number[]} bytes */
  bytes(bytes) {
    this.socket.write(Buffer.from(bytes))
  }

  /**
   * @param {Partial<import('mqtt-packet').IConnectPacket>} [fields]
   * @returns {Promise<any>}  The CONNACK.
   */
  async connect(fields = {}) {
    this.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: this.#version,
      clean: true,
      clientId: 'raw',
      keepalive: 0,
      ...fields,
    })
    return this.next('connack')
  }

  /** The first packet of a kind that was not taken yet. */
  /** @param {string} cmd  @returns {Promise<any>} */
  async next(cmd) {
    const isIt = (/** @type {any} */ packet) => packet.cmd === cmd
    await until(() => this.packets.some(isIt) || this.isClosed)
    const at = this.packets.findIndex(isIt)
    if (at < 0) throw new Error(`closed without ${cmd}: ${JSON.stringify(this.packets)}`)
    return this.packets.splice(at, 1)[0]
  }

  /**
   * The reason for which it was closed.
   *
   * @returns {Promise<number | undefined>}  Undefined where none was told.
   */
  async reason() {
    await until(() => this.isClosed)
    return this.packets.find(({ cmd }) => cmd === 'disconnect')?.reasonCode
  }

  /**
   * @param {number} messageId
   * @param {Partial<import('mqtt-packet').IPublishPacket>} [fields]
   */
  publish(messageId, fields = {}) {
    this.send(publish(messageId, fields))
  }

  /**
   * @param {string | object | object[]} what  A filter, or filters with options.
   * @param {object} [properties]
   * @returns {Promise<number[]>}  What the SUBACK says.
   */
  async subscribe(what, properties) {
    const list = Array.isArray(what) ? what : [what]
    const subscriptions = list.map((one) => ({
      qos: 2,
      ...(typeof one === 'string' ? { topic: one } : one),
    }))
    this.send(/** @type {any} */ ({ cmd: 'subscribe', messageId: 999, subscriptions, properties }))
    return (await this.next('suback')).granted
  }

  /** Payloads of the messages that it got. */
  get heard() {
    return this.packets.filter(({ cmd }) => cmd === 'publish').map(({ payload }) => `${payload}`)
  }

  /** Says that it leaves, and waits until it is closed. @param {object} [fields] */
  async leave(fields) {
    this.send({ cmd: 'disconnect', ...fields })
    await until(() => this.isClosed)
  }

  /** Is gone without a word. */
  async vanish() {
    this.socket.destroy()
    await until(() => this.isClosed)
  }
}
