/** Ingest on a port of its own, with a fake database; and a client that speaks raw packets. */

import { connect } from 'node:net'
import { Topics } from '@sandglass/common/topics'
import { generate, parser } from 'mqtt-packet'
import pino from 'pino'
import { buildIngest } from '../../src/ingest.js'
import { inside } from '../../src/source.js'
import { FakeStorage } from './fake-storage.js'

/** @typedef {import('mqtt-packet').Packet} Packet */

export const KEYSPACE = 'k'

export const LIMITS = {
  packetBytesMax: 256 * 1024,
  clientMessagesMax: 1_000,
  connectionsMax: 100,
  heldBytesMax: 64 * 2 ** 20,
  qos0BytesMax: 2 ** 20,
  sensorsMax: 1_000,
  retentionClass: '30d',
  lineTopic: 'telegraf',
  deadLettersMax: 10_000,
  deadLetterBytesMax: 1e9,
  spoolDir: '',
  spoolBytesMax: 0,
  spoolAfterMs: 1_000,
}

/**
 * @param {Partial<typeof LIMITS & { memoryBytesMax: number }>} [limits]
 * @param {Partial<Parameters<typeof inside>[0]>} [more]
 * @param {FakeStorage} [storage]
 */
export async function startIngest(limits = {}, more = {}, storage = new FakeStorage()) {
  const logger = pino({ level: 'silent' })
  const { topics = new Topics() } = more
  const all = { ...LIMITS, topicTemplates: topics, ...limits }
  const parts = buildIngest({ storage, keyspace: KEYSPACE, limits: all, logger })
  const listens = [{ kind: /** @type {const} */ ('mqtt'), listen: { host: '127.0.0.1', port: 0 } }]
  const { pipeline: sink, statuses, memory, edgeNodes } = parts
  const source = inside({
    sink,
    memory,
    statuses,
    edgeNodes,
    limits: all,
    listens,
    logger,
    ...more,
    topics,
  })
  const ports = (await source.start()).split(' ').map((place) => Number(place.split(':').at(-1)))
  return {
    ...parts,
    ...source,
    storage,
    port: ports[0],
    ports,
    async stop() {
      parts.writer.stop()
      await source.stop(0)
      parts.registry.stop()
    },
  }
}

/** A socket with an MQTT parser behind it. */
export class RawClient {
  /** @param {number} port */
  constructor(port) {
    this.socket = connect(port, '127.0.0.1')
    /** @type {Packet[]} */
    this.packets = []
    this.isClosed = false
    const parse = parser()
    parse.on('packet', (packet) => this.packets.push(packet))
    this.socket.on('data', (chunk) => parse.parse(chunk))
    this.socket.on('error', () => {})
    this.socket.on('close', () => {
      this.isClosed = true
    })
  }

  /** @param {Packet} packet */
  send(packet) {
    this.socket.write(generate(packet))
  }

  /** @param {Partial<import('mqtt-packet').IConnectPacket>} [fields] */
  async connect(fields = {}) {
    this.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 4,
      clean: true,
      clientId: 'raw',
      keepalive: 0,
      ...fields,
    })
    await until(() => this.packets.some(({ cmd }) => cmd === 'connack'))
    this.packets.length = 0
    return this
  }

  /**
   * @param {number} messageId
   * @param {Partial<import('mqtt-packet').IPublishPacket>} [fields]
   */
  publish(messageId, fields = {}) {
    this.send(publish(messageId, fields))
  }

  /** Ids of the packets of a kind that arrived, in order. @param {string} cmd */
  ids(cmd) {
    return this.packets.filter((packet) => packet.cmd === cmd).map(({ messageId }) => messageId)
  }

  end() {
    this.socket.destroy()
  }
}

/**
 * @param {number} messageId
 * @param {Partial<import('mqtt-packet').IPublishPacket>} [fields]
 * @returns {import('mqtt-packet').IPublishPacket}
 */
export function publish(messageId, fields = {}) {
  return {
    cmd: 'publish',
    topic: 'sensors/s/m',
    payload: `${messageId}`,
    qos: 1,
    dup: false,
    retain: false,
    messageId,
    ...fields,
  }
}

/**
 * Waits until something holds.
 *
 * @param {() => unknown} holds
 * @param {number} [msMax]
 */
export async function until(holds, msMax = 15_000) {
  const untilMs = performance.now() + msMax
  while (!holds()) {
    if (performance.now() > untilMs) throw new Error(`did not happen in ${msMax} ms: ${holds}`)
    await pause(2)
  }
}

/** @param {number} ms */
export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
