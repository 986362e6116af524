/**
 * The broker, where it is in another process (`hub.js`): what a server has in its place. Frames
 * leave in order, so what a client published is there before what it asks for next.
 */

import { once } from 'node:events'
import { connect } from 'node:net'
import { sentTerms } from '../broker/routing/terms.js'
import { heard, KIND, Link, publishBody } from './link.js'

/** Bytes that a client has taken before the broker is told, each time. */
const TOLD_BYTES = 64 * 1_024

/** @typedef {import('../broker/port.js').Port} Port */

export class RemoteBroker {
  /** With the bytes that came for each. @type {Map<number, { port: Port, bytes: number }>} */
  #ports = new Map()
  #nextPort = 1
  #hasSubscribers = false
  #isStopping = false
  #path
  /** @type {Link | undefined} */
  #link
  /** What it knew of decoders before there was a link. @type {object | undefined} */
  #decoders
  /** @type {() => void} */
  #onSubscribers = () => {}
  /** Who waits to hear whether there was room, in order. @type {((is: boolean) => void)[]} */
  #retaining = []

  /** @param {string} path  Of the socket where it is found. */
  constructor(path) {
    this.#path = path
    /** Messages of QoS 0 that were not passed on, because too many are on their way. */
    this.dropped = 0
    /** Called when it has room again. @type {() => void} */
    this.onRoom = () => {}
  }

  /** Resolves when it is known whether anybody subscribed. */
  async start() {
    const socket = connect(this.#path)
    await once(socket, 'connect')
    socket.on('error', () => {})
    socket.on('close', () => {
      if (!this.#isStopping) throw new Error('the first process of ingest is gone')
    })
    this.#link = new Link(socket, (kind, port, body) => this.#take(kind, port, body))
    this.#link.onRoom = () => this.onRoom()
    if (this.#decoders) this.#link.tell(KIND.decoders, 0, this.#decoders)
    await new Promise((/** @type {(value: void) => void} */ resolve) => {
      this.#onSubscribers = resolve
    })
  }

  async stop() {
    this.#isStopping = true
    await this.#link?.end()
  }

  get isFull() {
    return this.#link?.isFull ?? false
  }

  /** A client connects. @param {Port} port */
  handle(port) {
    const id = this.#nextPort++
    const connection = /** @type {import('../broker/connection.js').Connection} */ (port.connection)
    const { grant, session } = connection
    const known = { port, bytes: 0 }
    this.#ports.set(id, known)
    const rights = grant && { ...grant, scopes: [...grant.scopes] }
    const terms = sentTerms(port.terms)
    this.#link?.tell(KIND.open, id, { name: session?.name, grant: rights, terms })
    let isEnded = false
    let toldBytes = 0
    port.on('taken', () => {
      const takenBytes = known.bytes - connection.outgoingBytes
      if (takenBytes - toldBytes < TOLD_BYTES) return
      toldBytes = takenBytes
      this.#link?.tell(KIND.taken, id, takenBytes)
    })
    port.on('data', (packet) => this.#link?.send(KIND.data, id, packet))
    port.on('end', () => {
      isEnded = true
      this.#link?.send(KIND.end, id)
    })
    port.on('close', () => {
      this.#ports.delete(id)
      // After a DISCONNECT the broker has to read that first: else it would publish the will.
      if (!isEnded) this.#link?.tell(KIND.gone, id, connection.session?.owner.isOver ?? true)
    })
  }

  /** A session has ended. @param {string} name  @param {boolean} [isOver]  With its key. */
  forget(name, isOver = false) {
    this.#link?.tell(KIND.forget, 0, { name, isOver })
  }

  /**
   * Which topics carry measurements decides who may publish a will there.
   *
   * @param {import('@sandglass/common/expressions/decoder-store').Stored} decoders
   */
  tellDecoders(decoders) {
    this.#decoders = decoders
    this.#link?.tell(KIND.decoders, 0, decoders)
  }

  /** @param {import('../source.js').Published} message */
  publish(message) {
    if (!message.retain && !this.#hasSubscribers) return
    if (message.qos === 0 && this.isFull) this.dropped++
    else this.#link?.send(KIND.publish, 0, ...publishBody(message))
  }

  /** @param {import('../source.js').Published} message  @returns {Promise<boolean>} */
  async retain(message) {
    this.#link?.send(KIND.retain, 0, ...publishBody(message))
    return new Promise((resolve) => {
      this.#retaining.push(resolve)
    })
  }

  /** @param {number} kind  @param {number} id  @param {Buffer} body */
  #take(kind, id, body) {
    if (kind === KIND.retained) {
      this.#retaining.shift()?.(id === 1)
      return
    }
    if (kind === KIND.subscribers) {
      this.#hasSubscribers = id === 1
      this.#link?.send(KIND.known, 0)
      this.#onSubscribers()
      return
    }
    const known = this.#ports.get(id)
    if (!known) return
    const { port } = known
    if (kind === KIND.data) {
      known.bytes += body.length
      port.connection.send(body)
    } else if (kind === KIND.closed) {
      port.destroy()
    } else if (kind === KIND.ask) {
      this.#link?.tell(KIND.answer, id, port.connection.subscribe(heard(body)))
    } else if (kind === KIND.unsubscribed) {
      port.connection.unsubscribe(heard(body))
    } else if (kind === KIND.answered) {
      port.connection.answered()
    }
  }
}
