/**
 * The broker of several processes, in the first one: sessions, subscriptions, retained messages,
 * wills and queues are here, once. The others have the connections, and give it what only it can do
 * for a client: each has a port here in the place of its connection.
 *
 * What a process that dies leaves behind ends with it, as it does where there is one process: the
 * sessions of its clients, which come back to it. Their wills are published.
 */

import { once } from 'node:events'
import { createServer } from 'node:net'
import { followed } from '@sandglass/common/expressions/decoder'
import { LINE_TOPIC_DEFAULT } from '@sandglass/common/topics'
import { mayPublish } from '../broker/entrance/access.js'
import { Port } from '../broker/port.js'
import { receivedTerms } from '../broker/routing/terms.js'
import { REASON } from '../broker/v5/reason.js'
import { heard, KIND, Link, parsePublishBody } from './link.js'

/** Memory that a message on its way takes besides its bytes. */
const MESSAGE_BYTES = 512

/** How often it is looked whether anybody still subscribes, in milliseconds. */
const LOOK_MS = 1_000

/** How long after the last SUBSCRIBE at least. */
const QUIET_MS = 10_000

/** @typedef {import('@sandglass/common/keys').Grant} Grant */
/** @typedef {import('@sandglass/common/topics').Topics} Topics */
/** @typedef {Omit<Grant, 'scopes'> & { scopes: string[] }} SentGrant */
/** @typedef {{ name: string, grant?: SentGrant, terms: object }} Introduction */

/** The connection of a client to another process, as the broker sees it. */
class Client {
  /** Who waits for an answer about filters. @type {(codes: number[]) => void} */
  #answer = () => {}
  #sentBytes = 0
  #takenBytes = 0
  /** Whether its key is good no more. */
  isOver = false
  #id
  #link
  #hub

  /**
   * @param {number} id
   * @param {Link} link
   * @param {Hub} hub
   * @param {Introduction} introduction
   */
  constructor(id, link, hub, { name, grant }) {
    this.#id = id
    this.#link = link
    this.#hub = hub
    this.name = name
    this.grant = grant && /** @type {Grant} */ ({ ...grant, scopes: new Set(grant.scopes) })
    /** What rights depend on. */
    this.server = { topics: hub.topics }
  }

  get outgoingBytes() {
    return this.#sentBytes - this.#takenBytes
  }

  /** @param {Buffer} bytes */
  send(bytes) {
    this.#sentBytes += bytes.length
    this.#link.send(KIND.data, this.#id, bytes)
  }

  /** @param {string} [reason] */
  close(reason = 'closed') {
    this.#answer([])
    this.#link.tell(KIND.closed, this.#id, reason)
  }

  /** Asks the process of the client. @param {string[]} filters  @returns {Promise<number[]>} */
  async subscribe(filters) {
    this.#link.tell(KIND.ask, this.#id, filters)
    /** @type {number[]} */
    const codes = await new Promise((resolve) => {
      this.#answer = resolve
    })
    if (codes.includes(REASON.success)) await this.#hub.hear()
    return codes
  }

  /** @param {string[]} filters */
  unsubscribe(filters) {
    this.#link.tell(KIND.unsubscribed, this.#id, filters)
  }

  answered() {
    this.#link.send(KIND.answered, this.#id)
  }

  /** @param {number[]} codes  A reason for each filter. */
  hasAnswered(codes) {
    this.#answer(codes)
  }

  /** @param {number} bytes  Of what was sent, from the beginning. */
  hasTaken(bytes) {
    this.#takenBytes = bytes
  }

  /** @param {string} topic */
  mayPublishWill(topic) {
    return !this.isOver && mayPublish(this.grant, topic, this.server.topics)
  }
}

/** Another process. */
class Process {
  /** By the number that it gave. @type {Map<number, { port: Port, client: Client }>} */
  ports = new Map()
  /** Sessions that the broker may know. @type {Set<string>} */
  names = new Set()
  /** Settles when it knows whether anybody subscribed. @type {Promise<void>} */
  knows = Promise.resolve()
  /** @type {(() => void)[]} */
  #told = []

  /** @param {Link} link */
  constructor(link) {
    this.link = link
  }

  /** @param {boolean} has  Whether anybody subscribed to anything. */
  tell(has) {
    this.link.send(KIND.subscribers, Number(has))
    this.knows = new Promise((resolve) => this.#told.push(resolve))
  }

  known() {
    this.#told.shift()?.()
  }

  /** Nobody waits for it any more. */
  gone() {
    for (const resolve of this.#told.splice(0)) resolve()
  }
}

export class Hub {
  /** @type {Set<Process>} */
  #processes = new Set()
  #server = createServer((socket) => this.#serve(socket))
  #hasSubscribers = false
  #heardMs = Number.NEGATIVE_INFINITY
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  #broker
  #lineTopic
  /** Of the decoders that it knows. */
  #revision = -1

  /**
   * @param {object} parts
   * @param {import('../broker/broker.js').Broker} parts.broker
   * @param {Topics} parts.topics
   * @param {string} [parts.lineTopic]
   */
  constructor({ broker, topics, lineTopic = LINE_TOPIC_DEFAULT }) {
    this.#broker = broker
    this.topics = topics
    this.#lineTopic = lineTopic
    broker.onRoom = () => this.#readOn()
  }

  /** @param {string} path  Of a socket, where the other processes find it. */
  async start(path) {
    this.#server.listen(path)
    await once(this.#server, 'listening')
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
  }

  async stop() {
    clearInterval(this.#timer)
    this.#server.close()
    for (const { link } of this.#processes) void link.end()
    this.#broker.stop()
  }

  /** Resolves when all processes send what is published: somebody subscribes. */
  async hear() {
    this.#heardMs = performance.now()
    this.#tell(true)
    await Promise.all(Array.from(this.#processes, ({ knows }) => knows))
  }

  /** Has the processes keep to themselves what nobody hears. */
  #look() {
    const isQuiet = performance.now() - this.#heardMs > QUIET_MS
    if (isQuiet && !this.#broker.hasSubscribers) this.#tell(false)
  }

  /** @param {boolean} has */
  #tell(has) {
    if (has === this.#hasSubscribers) return
    this.#hasSubscribers = has
    for (const one of this.#processes) one.tell(has)
  }

  /** @param {import('node:net').Socket} socket */
  #serve(socket) {
    /** @type {Process} */
    const one = new Process(
      new Link(socket, (kind, port, body) => this.#take(one, kind, port, body)),
    )
    one.link.onRoom = () => this.#readOn()
    this.#processes.add(one)
    one.tell(this.#hasSubscribers)
    socket.on('error', () => {})
    socket.on('close', () => this.#lost(one))
  }

  /** @param {Process} one  It has stopped, or was killed. */
  #lost(one) {
    this.#processes.delete(one)
    one.gone()
    for (const { port } of one.ports.values()) port.destroy()
    for (const name of one.names) this.#broker.forget(name)
    this.#readOn()
  }

  /** Takes no publishes while subscribers, or the processes of subscribers, are behind. */
  get #isFull() {
    return this.#broker.isFull || Array.from(this.#processes).some(({ link }) => link.isFull)
  }

  #readOn() {
    if (this.#isFull) return
    for (const { link } of this.#processes) link.resume()
  }

  /** @param {Process} one  @param {number} kind  @param {number} id  @param {Buffer} body */
  #take(one, kind, id, body) {
    switch (kind) {
      case KIND.publish:
      case KIND.retain: {
        const message = { ...parsePublishBody(body), bytes: body.length + MESSAGE_BYTES }
        if (kind === KIND.publish) this.#broker.publish(message)
        else one.link.send(KIND.retained, Number(this.#broker.retain(message)))
        if (this.#isFull) for (const { link } of this.#processes) link.pause()
        break
      }
      case KIND.open:
        this.#open(one, id, heard(body))
        break
      case KIND.forget: {
        const { name, isOver } = heard(body)
        one.names.delete(name)
        this.#broker.forget(name, isOver)
        break
      }
      case KIND.known:
        one.known()
        break
      case KIND.decoders:
        this.#follow(heard(body))
        break
      default:
        this.#takeOf(one, kind, id, body)
    }
  }

  /** Each process tells them. */
  /** @param {import('@sandglass/common/expressions/decoder-store').Stored} stored */
  #follow({ set, revision }) {
    if (revision <= this.#revision) return
    this.#revision = revision
    this.topics.own = followed(set, this.topics, this.#lineTopic).templates
  }

  /** @param {Process} one  @param {number} id  @param {Introduction} introduction */
  #open(one, id, introduction) {
    const client = new Client(id, one.link, this, introduction)
    const port = new Port(client, receivedTerms(introduction.terms))
    one.ports.set(id, { port, client })
    one.names.add(client.name)
    port.on('close', () => one.ports.delete(id))
    this.#broker.handle(port)
  }

  /** Takes what concerns one client. */
  /** @param {Process} one  @param {number} kind  @param {number} id  @param {Buffer} body */
  #takeOf(one, kind, id, body) {
    const known = one.ports.get(id)
    if (!known) return
    const { port, client } = known
    if (kind === KIND.data) {
      port.push(body)
    } else if (kind === KIND.end) {
      port.push(null)
    } else if (kind === KIND.answer) {
      client.hasAnswered(heard(body))
    } else if (kind === KIND.taken) {
      client.hasTaken(heard(body))
      port.emit('taken')
    } else if (kind === KIND.gone) {
      client.isOver = heard(body)
      port.destroy()
    }
  }
}
