/** The sensor that a connection stands for: whether it is there, and what it may publish. */

import { sensorOfPublisher } from '../sensors/statuses.js'
import { mayPublish } from './entrance/access.js'

/** @typedef {import('./connection.js').Connection} Connection */

export class Presence {
  /** @type {string | undefined} */
  #sensorId
  /** The topic it published on last, and whether it may. */
  #lastTopic = ''
  #mayPublishLast = false
  #connection
  /** Whether the client was ever let in. */
  isOpen = false

  /** @param {Connection} connection */
  constructor(connection) {
    this.#connection = connection
  }

  /** What its key or its will says. @param {string | undefined} sensorId */
  isOf(sensorId) {
    this.#sensorId = sensorId
  }

  /** It is let in. */
  opened() {
    this.isOpen = true
    this.note('online', 'connected')
  }

  /** Whether it may publish on a topic, most often the one of before. @param {string} topic */
  mayPublish(topic) {
    if (topic === this.#lastTopic) return this.#mayPublishLast
    const { grant, server } = this.#connection
    this.#lastTopic = topic
    this.#mayPublishLast = mayPublish(grant, topic, server.topics)
    this.#learn(topic)
    return this.#mayPublishLast
  }

  /** What it publishes tells whose it is. @param {string} topic */
  #learn(topic) {
    const { session, server } = this.#connection
    if (this.#sensorId !== undefined || !session) return
    this.#sensorId = sensorOfPublisher(session.clientId, topic, server.topics)
    this.note('online', 'published')
  }

  /** @param {import('../sensors/statuses.js').State} state  @param {string} reason */
  note(state, reason) {
    const { session, server } = this.#connection
    if (this.#sensorId === undefined || !session || !this.isOpen) return
    server.noteStatus({ id: this.#sensorId, state, clientId: session.clientId, reason })
  }
}
