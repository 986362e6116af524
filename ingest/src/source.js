/**
 * Where MQTT messages come from: devices that connect to the broker inside, or a broker that exists
 * already and whose client we are.
 */

import { rebirthCommand } from '@sandglass/common/formats/sparkplug/command'
import { Broker } from './broker/broker.js'
import { MqttServer } from './broker/server.js'
import { Sessions } from './broker/sessions.js'
import { External } from './external/external.js'
import { NoRoom } from './sensors/desired.js'
import { HostState } from './sparkplug/host-state.js'

/** @typedef {import('./broker/server.js').Sink} Sink */
/** @typedef {import('./memory.js').MemoryBudget} MemoryBudget */
/** @typedef {import('./sparkplug/edge-nodes.js').EdgeNodes} EdgeNodes */
/** @typedef {import('pino').Logger} Logger */

/** @typedef {Pick<import('./message/message.js').Message,
 *   'topic' | 'payload' | 'qos' | 'retain' | 'bytes'> &
 *   { delivery?: import('./broker/v5/dialect.js').Delivery }} Published */

/**
 * The broker: in this process, or in the first one of several.
 *
 * @typedef {object} AnyBroker
 * @property {() => Promise<void>} [start]
 * @property {() => unknown} stop
 * @property {(port: import('./broker/port.js').Port) => unknown} handle
 * @property {(name: string, isOver?: boolean) => void} forget  A session: of a key that is good no
 *   more.
 * @property {(message: Published) => void} publish
 * @property {(message: Published) => boolean | Promise<boolean>} retain  False if there was no
 *   room.
 * @property {boolean} isFull
 * @property {number} dropped
 * @property {() => void} onRoom
 */

/**
 * @typedef {object} Source
 * @property {() => Promise<string>} start  Begins to take messages; resolves to where.
 * @property {(holdMsMax: number) => Promise<void>} stop  Takes no more, and waits so many
 *   milliseconds at most for what is held.
 * @property {(topic: string, payload: Buffer) => Promise<void>} retain  Publishes what is retained.
 * @property {(call: () => void) => void} onReady  Has something called whenever the broker may have
 *   forgotten what is retained: when it begins, or we are connected to it.
 * @property {(topic: string, payload: Buffer) => Promise<void>} publish  A message of our own, at
 *   QoS 1; rejects if the broker does not have it.
 * @property {MqttServer} [server]
 * @property {AnyBroker} [broker]
 * @property {External} [external]
 */

/**
 * The broker inside.
 *
 * @param {object} parts
 * @param {Sink} parts.sink
 * @param {MemoryBudget} parts.memory
 * @param {import('./broker/server.js').ServerLimits} parts.limits
 * @param {import('./broker/listener.js').Listen[]} parts.listens  The first is told.
 * @param {import('./broker/listener.js').Identity} [parts.identity]  For TLS.
 * @param {import('./broker/entrance/access.js').Access} [parts.access]
 * @param {import('./sensors/statuses.js').Statuses} parts.statuses
 * @param {EdgeNodes} [parts.edgeNodes]
 * @param {string} [parts.host]  Id of a primary host of Sparkplug.
 * @param {import('@sandglass/common/topics').Topics} parts.topics
 * @param {Logger} parts.logger
 * @param {import('./broker/server.js').Clock} [parts.clock]
 * @param {AnyBroker} [parts.broker]
 * @param {number} [parts.doors]  By how many connections come in.
 * @param {import('./processes/member.js').Member} [parts.member]  Of several processes.
 */
export function inside({ memory, listens, identity, member, edgeNodes, host, ...parts }) {
  const { shares } = memory
  const { clock } = parts
  /** @type {AnyBroker} */
  const broker = parts.broker ?? new Broker({ shares, clockMs: clock?.clockMs })
  const onGone = (/** @type {object} */ connection) => edgeNodes?.closed(connection, 'offline')
  const server = new MqttServer({ ...parts, broker, shares, member, onGone })
  /** @param {Omit<Published, 'bytes'>} what */
  const tell = (what) => broker.publish(counted(what))
  if (edgeNodes) {
    edgeNodes.askRebirth = (topic) =>
      tell({ topic, payload: rebirthCommand(Date.now()), qos: 0, retain: false })
  }
  // The broker of several processes hears it from one. When it stops, all connections end.
  const state = (member?.index ?? 0) === 0 ? stateOf(host) : undefined
  state?.begin(Date.now())
  /** @type {() => void} */
  let ready = () => {}
  return {
    broker,
    server,
    async retain(/** @type {string} */ topic, /** @type {Buffer} */ payload) {
      const message = counted({ topic, payload, qos: 1, retain: true })
      if (!(await broker.retain(message))) throw new NoRoom()
    },
    onReady(/** @type {() => void} */ call) {
      ready = call
    },
    /** @type {Source['publish']} */
    async publish(topic, payload) {
      // It would wait in memory for subscribers that are slow.
      if (broker.isFull) throw new Error('subscribers are too slow')
      tell({ topic, payload, qos: 1, retain: false })
    },
    async start() {
      await broker.start?.()
      if (state) tell(state.online)
      if ((member?.index ?? 0) === 0) ready()
      /** @type {string[]} */
      const places = []
      for (const one of listens) {
        const port = await server.start(one, identity)
        places.push(`${one.kind}://${one.listen.host}:${port}`)
      }
      await member?.start((line, bytes) => server.take(line, bytes))
      return places.join(' ')
    },
    /** @param {number} holdMsMax */
    async stop(holdMsMax) {
      member?.stop()
      await server.stop(holdMsMax)
      await broker.stop()
    },
  }
}

/** @param {Omit<Published, 'bytes'>} what */
const counted = (what) => ({ ...what, bytes: what.topic.length + what.payload.length })

/** @param {string} [host] */
const stateOf = (host) => (host === undefined ? undefined : new HostState(host))

/**
 * One that exists already.
 *
 * @param {object} parts
 * @param {Sink} parts.sink
 * @param {MemoryBudget} parts.memory
 * @param {import('./external/client.js').ClientOptions} parts.client
 * @param {import('./external/external.js').ExternalOptions} parts.options
 * @param {EdgeNodes} [parts.edgeNodes]
 * @param {string} [parts.host]  Id of a primary host of Sparkplug.
 * @param {Logger} parts.logger
 */
export function outside({ sink, memory, client, options, edgeNodes, host, logger }) {
  const sessions = new Sessions({ share: memory.shares.sessions })
  // A broker does not say who published: its messages have its address for a client.
  const session = sessions.create(undefined, client.url, performance.now())
  const state = stateOf(host)
  const external = new External({ sink, session, client, options, state, logger })
  if (edgeNodes) {
    edgeNodes.askRebirth = (topic) => external.publish(topic, rebirthCommand(Date.now()))
    external.onClosed = () => edgeNodes.closed(session, 'unknown')
  }
  return {
    external,
    retain: (/** @type {string} */ topic, /** @type {Buffer} */ payload) =>
      external.retain(topic, payload),
    onReady(/** @type {() => void} */ call) {
      external.onSubscribed = call
    },
    publish: /** @type {Source['publish']} */ (
      (topic, payload) => external.deliver(topic, payload)
    ),
    async start() {
      external.start()
      return client.url
    },
    /** @param {number} holdMsMax */
    stop: (holdMsMax) => external.stop(holdMsMax),
  }
}
