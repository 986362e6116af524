/**
 * Follows the edge nodes of Sparkplug B: what their births said is remembered, and written into
 * the data that come after. A message means the same from then on to whoever takes it, whenever:
 * the spool, a dead letter, the next process.
 *
 * What births said holds for the connection by which they came. On another one messages may have
 * been missed, so nothing is believed until the next birth, which is asked for.
 */

import { completed } from '@sandglass/common/formats/sparkplug/complete'
import { readPayload } from '@sandglass/common/formats/sparkplug/payload'
import { lostSession, step, unknownSession } from '@sandglass/common/formats/sparkplug/session'
import { sortOf, sparkplugB } from '@sandglass/common/formats/sparkplug-b'
import { PayloadError } from '@sandglass/common/payload'
import { sensorId } from '@sandglass/common/sensor'
import { ownText } from '@sandglass/common/text'
import { RebirthPace } from './rebirth-pace.js'

/** What an edge node takes in memory besides its name and what births said, in bytes. */
const NODE_BYTES = 1_000

/** So many edge nodes share the memory at least: one alone cannot fill it. */
const NODES_AT_LEAST = 4

/** An edge node that was silent for so long makes room for another one, in milliseconds. */
export const SILENT_MS = 60_000

/** Stands for the connection of what comes without one. */
const NOBODY = {}

/** @typedef {import('@sandglass/common/formats/sparkplug/session').Session} Session */
/** @typedef {import('@sandglass/common/formats/sparkplug/session').MessageType} MessageType */
/** @typedef {import('@sandglass/common/formats/sparkplug/session').Outcome} Outcome */
/** @typedef {import('@sandglass/common/memory-share').MemoryShare} MemoryShare */
/** @typedef {import('../message/message.js').Message} Message */

/**
 * @typedef {object} EdgeNode
 * @property {string} sensorId  Of its own sensor: whose device may speak for it.
 * @property {Session} session
 * @property {number} bytes  That are taken for it.
 * @property {number} heardMs  By the clock that only goes forward.
 * @property {Connection | undefined} connection  By which it was heard last, and
 * @property {number} visit  which of that session.
 */

/** @typedef {{ nodes: Set<EdgeNode> }} Connection  With those that were heard by it last. */

export class EdgeNodes {
  /** By the topic of their commands, the one that was silent for longest first. */
  #nodes = /** @type {Map<string, EdgeNode>} */ (new Map())
  /** @type {WeakMap<object, Connection>} */
  #connections = new WeakMap()
  #topics
  #share
  #pace
  #now

  /**
   * @param {object} parts
   * @param {import('@sandglass/common/topics').Topics} parts.topics
   * @param {MemoryShare} parts.share
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   */
  constructor({ topics, share, now = () => performance.now() }) {
    this.#topics = topics
    this.#share = share
    this.#now = now
    this.#pace = new RebirthPace(now())
    this.counts = {
      /** Births of edge nodes and devices. */
      births: 0,
      /** Sequence numbers that did not follow the one before. */
      gaps: 0,
      /** Metrics whose name no birth told. */
      unnamed: 0,
      /** Births that were asked for. */
      rebirths: 0,
    }
    /** Asks the edge node that listens to a topic for its births. */
    this.askRebirth = (/** @type {string} */ _topic) => {}
  }

  /**
   * A connection is gone: what came by it is not believed any more, and its memory is free.
   *
   * @param {object} connection  Of a client, or the session at a broker that exists already.
   * @param {'offline' | 'unknown'} state  Of its edge nodes from now on; who is dead stays so.
   */
  closed(connection, state) {
    for (const node of this.#connections.get(connection)?.nodes ?? []) {
      if (node.session.state === 'offline') continue
      this.#keep(node, { ...lostSession(node.session), state })
    }
  }

  /** How many are in a state. @param {Session['state']} state */
  countOf(state) {
    let count = 0
    for (const { session } of this.#nodes.values()) if (session.state === state) count++
    return count
  }

  /**
   * Takes a message that has just arrived, before anything else is done with it: also one that is
   * dropped then may have been a birth. Its payload gets the names that births told.
   *
   * @param {Message} message
   */
  take(message) {
    if (message.format !== sparkplugB.number || message.arrival !== 'live') return
    const sender = this.#topics.senderOf(message.topic)
    if (!sender) return
    const { words, owner, commands } = sender
    const id = this.#nodes.get(commands)?.sensorId ?? sensorId(owner)
    // Who may not speak for an edge node does not change what is known of it.
    if (!message.rights.mayWrite(id)) return
    const node = this.#nodeOf(commands, id)
    if (!node) return
    const sort = sortOf(words)
    const isDeath = sort?.type === 'NDEATH'
    // The will of a connection comes by another one.
    const isBelieved = isDeath || this.#isSameConnection(node, message)
    const session = isBelieved ? node.session : lostSession(node.session)
    if (!isDeath) this.#bind(node, message)
    const outcome = sort && this.#step(session, sort, message)
    this.#keep(node, outcome?.session ?? lostSession(session))
    if (outcome) this.#note(outcome, sort.type, commands)
  }

  /**
   * @param {Session} session
   * @param {{ type: MessageType, device: string }} sort
   * @param {Message} message  Gets what is known.
   * @returns {Outcome | undefined}  Undefined where it cannot be read.
   */
  #step(session, sort, message) {
    try {
      const payload = readPayload(message.payload)
      const nowMs = this.#now()
      const outcome = step(session, { ...sort, payload }, nowMs, this.#pace.isDue(nowMs))
      message.complete(completed(message.payload, payload.metrics, outcome.metrics))
      return outcome
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error
      return undefined
    }
  }

  /** @param {Outcome} outcome  @param {MessageType} type  @param {string} commands */
  #note({ isGap, unnamed, asksRebirth }, type, commands) {
    if (type === 'NBIRTH' || type === 'DBIRTH') this.counts.births++
    if (isGap) this.counts.gaps++
    this.counts.unnamed += unnamed
    if (!asksRebirth) return
    this.counts.rebirths++
    this.#pace.asked(this.#now())
    this.askRebirth(commands)
  }

  /**
   * @param {string} commands
   * @param {string} id  Of its sensor.
   * @returns {EdgeNode | undefined}  Undefined where there is no room for one more.
   */
  #nodeOf(commands, id) {
    const known = this.#nodes.get(commands)
    if (known) {
      this.#nodes.delete(commands)
      this.#nodes.set(commands, known)
      known.heardMs = this.#now()
      return known
    }
    const bytes = NODE_BYTES + 4 * commands.length
    if (!this.#makeRoom(bytes) || !this.#share.take(bytes)) return undefined
    const session = unknownSession()
    const heardMs = this.#now()
    /** @type {EdgeNode} */
    const node = { sensorId: ownText(id), session, bytes, heardMs, connection: undefined, visit: 0 }
    this.#nodes.set(commands, node)
    return node
  }

  /** @param {EdgeNode} node  @param {Session} session */
  #keep(node, session) {
    const moreBytes = session.scopeBytes - node.session.scopeBytes
    const isLarge = session.scopeBytes > this.#share.bytesMax / NODES_AT_LEAST
    if (moreBytes <= 0) {
      this.#share.give(-moreBytes)
    } else if (isLarge || !this.#makeRoom(moreBytes)) {
      // Its values are stored as they come; what it says by alias cannot be.
      this.#share.refused++
      this.#keep(node, { ...lostSession(session), askedMs: this.#now() })
      return
    } else {
      this.#share.add(moreBytes)
    }
    node.bytes += moreBytes
    node.session = session
  }

  /** Forgets edge nodes that are silent until there is room. @param {number} bytes */
  #makeRoom(bytes) {
    const { bytesMax } = this.#share
    for (const [commands, node] of this.#nodes) {
      if (this.#share.bytes + bytes <= bytesMax) return true
      if (this.#now() - node.heardMs < SILENT_MS) return false
      this.#nodes.delete(commands)
      this.#share.give(node.bytes)
      node.connection?.nodes.delete(node)
    }
    return this.#share.bytes + bytes <= bytesMax
  }

  /** @param {EdgeNode} node  @param {Message} message */
  #isSameConnection({ connection, visit }, message) {
    return connection === this.#connectionOf(message) && visit === message.visit
  }

  /** @param {EdgeNode} node  @param {Message} message */
  #bind(node, message) {
    node.connection?.nodes.delete(node)
    node.connection = this.#connectionOf(message)
    node.connection.nodes.add(node)
    node.visit = message.visit
  }

  /** @param {Message} message  @returns {Connection} */
  #connectionOf({ sender, session }) {
    const connection = sender ?? session ?? NOBODY
    const known = this.#connections.get(connection)
    if (known) return known
    /** @type {Connection} */
    const added = { nodes: new Set() }
    this.#connections.set(connection, added)
    return added
  }
}
