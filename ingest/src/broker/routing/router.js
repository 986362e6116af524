/**
 * Subscriptions of clients, alone or shared, what they get, and their wills. What they publish has
 * come and been stored before it is given to anybody here.
 */

import { setImmediate } from 'node:timers/promises'
import { Framer, TYPE } from '../frame.js'
import { expiresMs, PACKET_BYTES_MAX } from '../v5/dialect.js'
import { REASON } from '../v5/reason.js'
import { FilterTree } from './filter-tree.js'
import { SharedGroup } from './shared-group.js'
import { Subscriber } from './subscriber.js'
import { Subscription } from './subscription.js'
import { PendingWill } from './wills.js'
import { wireOf } from './wire.js'

const NO_BYTES = Buffer.alloc(0)

/** Filters that are subscribed to in one turn. */
const FILTERS_PER_TURN = 256

/** What a packet takes besides topic and payload, about. */
const PACKET_BYTES = 16

/** @typedef {import('../port.js').Port} Port */
/** @typedef {import('../port.js').Served} Served */
/** @typedef {import('../v5/packets.js').Filter} Filter */
/** @typedef {import('./subscriber.js').Item} Item */
/** @typedef {import('./subscriber.js').Terms} Terms */

/**
 * @typedef {object} Heard  A message that is published.
 * @property {string} topic
 * @property {Buffer} payload
 * @property {0 | 1 | 2} qos
 * @property {boolean} retain
 * @property {import('../v5/dialect.js').Delivery} [delivery]  Where its client spoke MQTT 5.
 */

/**
 * A client with a connection.
 *
 * @typedef {object} Visit
 * @property {Port} port
 * @property {Subscriber} subscriber
 * @property {import('./wire.js').Wire} wire
 * @property {Terms['will']} will
 */

export class Router {
  /** By the name of the session. @type {Map<string, Subscriber>} */
  #subscribers = new Map()
  /** @type {Map<string, Visit>} */
  #visits = new Map()
  /** @type {Map<string, PendingWill>} */
  #wills = new Map()
  /** @type {FilterTree<Subscription | SharedGroup>} */
  #tree = new FilterTree()
  /** By name and filter. @type {Map<string, SharedGroup>} */
  #groups = new Map()
  #queues
  #retainedFor
  #publish
  #clockMs

  /**
   * @param {object} parts
   * @param {import('./offline-queues.js').OfflineQueues} parts.queues
   * @param {(filter: string) => Iterable<import('./retained.js').Retained | undefined>
   *   } parts.retainedFor
   * @param {(message: Heard) => void} parts.publish  To subscribers of any version.
   * @param {() => number} parts.clockMs  By the clock that only goes forward.
   */
  constructor({ queues, retainedFor, publish, clockMs }) {
    this.#queues = queues
    this.#retainedFor = retainedFor
    this.#publish = publish
    this.#clockMs = clockMs
  }

  /** Whether anybody subscribed to anything. */
  get hasSubscribers() {
    return this.#tree.size > 0
  }

  /** A client connects. @param {Port} port */
  open(port) {
    const { terms } = port
    const { name } = terms
    const before = this.#visits.get(name)
    if (before) this.#leave(before, true)
    this.#wills.get(name)?.[terms.clean ? 'publish' : 'drop']()
    this.#wills.delete(name)
    if (terms.clean || this.#subscribers.get(name)?.isOver) this.#end(name)
    const subscriber =
      this.#subscribers.get(name) ?? new Subscriber(name, this.#queues, this.#clockMs)
    this.#subscribers.set(name, subscriber)
    /** @type {Visit} */
    const visit = {
      port,
      subscriber,
      wire: wireOf(terms.version),
      will: terms.will,
    }
    this.#visits.set(name, visit)
    const framer = new Framer(PACKET_BYTES_MAX)
    port.on('data', (packet) => {
      framer.push(packet)
      while (framer.next()) this.#take(visit, framer)
      // The chunk in which it came must not be kept.
      framer.compact()
    })
    port.on('taken', () => subscriber.hasTaken())
    port.on('end', () => port.destroy())
    port.on('close', () => this.#leave(visit, false))
    subscriber.opened(port.connection, terms)
  }

  /**
   * The connection of a client is gone, or another one takes over.
   *
   * @param {Visit} visit
   * @param {boolean} isTakenOver
   */
  #leave(visit, isTakenOver) {
    const { subscriber, will, port } = visit
    const { name } = subscriber
    if (this.#visits.get(name) !== visit) return
    this.#visits.delete(name)
    subscriber.closed()
    if (will) {
      const { connection } = port
      const publish = () => {
        if (!connection.mayPublishWill(will.topic)) return
        const { topic, payload, qos, retain, passOn, expiryS } = will
        const delivery = { passOn, expiresMs: expiresMs(expiryS, this.#clockMs()), from: name }
        this.#publish({ topic, payload, qos, retain, delivery })
      }
      const isDue = will.delayMs === 0 || subscriber.isOver
      // [MQTT-3.1.3-9]
      if (isDue) publish()
      else this.#wills.set(name, new PendingWill(will.delayMs, publish))
    }
    if (subscriber.isOver && !isTakenOver) this.#end(name)
  }

  /**
   * A session has ended.
   *
   * @param {string} name
   * @param {boolean} isOver  Because its key is good no more: there will be no will.
   * @returns {boolean}  False: it is not known here.
   */
  forget(name, isOver) {
    if (isOver) this.#wills.get(name)?.drop()
    if (isOver) this.#wills.delete(name)
    const subscriber = this.#subscribers.get(name)
    if (!subscriber) return false
    subscriber.isOver = true
    // While it is connected, whether its will is due is not known yet.
    if (!this.#visits.has(name)) this.#end(name)
    return true
  }

  /** @param {string} name */
  #end(name) {
    this.#wills.get(name)?.publish()
    this.#wills.delete(name)
    const subscriber = this.#subscribers.get(name)
    if (!subscriber) return
    this.#subscribers.delete(name)
    for (const filter of [...subscriber.subscriptions.keys()]) this.#remove(subscriber, filter)
    const left = /** @type {Item[]} */ (/** @type {any} */ (this.#queues.packets(name)))
    this.#queues.forget(name)
    for (const item of left) if (item.group && mayGoElsewhere(item)) this.#deliverAgain(item)
  }

  /** Another member of the group gets it. @param {Item} item */
  #deliverAgain(item) {
    const { topic, payload, qos, retain, passOn } = item
    const delivery = { passOn, expiresMs: item.expiresMs, from: '' }
    const message = { topic, payload, qos, retain, delivery }
    const member = item.group?.choose()
    if (member) this.#deliver(member.subscriber, [member], message, this.#queues.sharedOf(item))
  }

  /** @param {Visit} visit  @param {Framer} framer */
  #take(visit, { buffer, packetStart, bodyStart, packetEnd }) {
    const type = buffer[packetStart] >> 4
    const { subscriber, wire, port } = visit
    if (type === TYPE.disconnect) {
      visit.will = undefined
      port.destroy()
    } else if (type === TYPE.subscribe) {
      const asked = wire.parseSubscribe(buffer, bodyStart, packetEnd)
      void this.#subscribe(visit, asked)
    } else if (type === TYPE.unsubscribe) {
      const { packetId, filters } = wire.parseUnsubscribe(buffer, bodyStart, packetEnd)
      const were = filters.map((filter) => this.#remove(subscriber, filter))
      port.connection.unsubscribe(filters)
      subscriber.write(wire.unsuback(packetId, were))
      port.connection.answered()
    } else {
      const { packetId, code } = wire.parseAcknowledgement(buffer, bodyStart, packetEnd)
      subscriber.acknowledged(type, packetId, code)
    }
  }

  /**
   * At once, unless there are many, or a process has to be asked.
   *
   * @param {Visit} visit
   * @param {ReturnType<import('./wire.js').Wire['parseSubscribe']>} asked
   */
  async #subscribe(visit, { packetId, id, filters }) {
    const { subscriber, wire, port } = visit
    /** @type {number[]} */
    const granted = []
    /** @type {{ filter: Filter, subscription: Subscription, isNew: boolean }[]} */
    const added = []
    while (granted.length < filters.length) {
      if (granted.length > 0) await setImmediate()
      const some = filters.slice(granted.length, granted.length + FILTERS_PER_TURN)
      const said = port.connection.subscribe(some.map(({ filter }) => filter))
      const codes = said instanceof Promise ? await said : said
      if (this.#visits.get(subscriber.name) !== visit || subscriber.isOver) return
      for (const [at, filter] of some.entries()) {
        const isGranted = codes[at] === REASON.success
        if (isGranted) added.push(this.#add(subscriber, filter, id))
        granted.push(isGranted ? filter.qos : codes[at])
      }
    }
    subscriber.write(wire.suback(packetId, granted))
    for (const { filter, subscription, isNew } of added) {
      const isWished = filter.retainHandling === 0 || (filter.retainHandling === 1 && isNew)
      // [MQTT-3.3.1-9], [MQTT-3.3.1-10]
      if (isWished && !subscription.group) {
        subscriber.deliverRetained(filter.filter, this.#retained(subscription))
      }
    }
    port.connection.answered()
  }

  /** @param {Subscription} subscription  @returns {Iterator<Item | undefined>} */
  *#retained({ pattern, qos, noLocal, id, subscriber }) {
    for (const message of this.#retainedFor(pattern)) {
      if (!message) {
        yield undefined
        continue
      }
      const { delivery } = message
      if (noLocal && delivery?.from === subscriber.name) continue
      const wish = { qos: min(qos, message.qos), retain: true, ids: id > 0 ? [id] : [] }
      yield itemOf(message, wish)
    }
  }

  /** @param {Subscriber} subscriber  @param {Filter} filter  @param {number} id */
  #add(subscriber, filter, id) {
    const isNew = !this.#remove(subscriber, filter.filter)
    const group = filter.group === undefined ? undefined : this.#groupOf(filter.filter)
    const subscription = new Subscription(subscriber, filter, id, group)
    group?.add(subscription)
    this.#tree.add(filter.pattern, group ?? subscription)
    subscriber.subscriptions.set(filter.filter, subscription)
    return { filter, subscription, isNew }
  }

  /** @param {string} filter  With the name of the group. */
  #groupOf(filter) {
    const group = this.#groups.get(filter) ?? new SharedGroup()
    this.#groups.set(filter, group)
    return group
  }

  /** @param {Subscriber} subscriber  @param {string} filter  @returns {boolean}  Whether it was. */
  #remove(subscriber, filter) {
    const subscription = subscriber.subscriptions.get(filter)
    if (!subscription) return false
    subscriber.subscriptions.delete(filter)
    // [MQTT-3.10.4-2]
    subscriber.dropRetained(filter)
    const { group, pattern } = subscription
    group?.remove(subscription)
    if (!group || group.isEmpty) this.#tree.remove(pattern, group ?? subscription)
    if (group?.isEmpty) this.#groups.delete(filter)
    return true
  }

  /**
   * Gives a message to whoever subscribed.
   *
   * @param {Heard} message
   * @returns {number}  Bytes of all packets, about.
   */
  publish(message) {
    const targets = this.#tree.match(message.topic)
    if (targets.length === 0) return 0
    if (message.delivery && message.delivery.expiresMs <= this.#clockMs()) return 0
    const shared = this.#queues.sharedOf({
      ...message,
      passOn: message.delivery?.passOn ?? NO_BYTES,
    })
    /** @type {Map<Subscriber, Subscription[]>} */
    const alone = new Map()
    for (const target of targets) {
      if (target instanceof SharedGroup) {
        const member = target.choose()
        if (member) this.#deliver(member.subscriber, [member], message, shared)
      } else {
        const known = alone.get(target.subscriber)
        if (known) known.push(target)
        else alone.set(target.subscriber, [target])
      }
    }
    for (const [subscriber, subscriptions] of alone) {
      this.#deliver(subscriber, subscriptions, message, shared)
    }
    return targets.length * (message.topic.length + message.payload.length + PACKET_BYTES)
  }

  /**
   * Gives a message to a subscriber, once, for all of its subscriptions [MQTT-3.3.4-2].
   *
   * @param {Subscriber} subscriber
   * @param {Subscription[]} subscriptions
   * @param {Heard} message
   * @param {import('./offline-queues.js').Shared} shared
   */
  #deliver(subscriber, subscriptions, message, shared) {
    const isOwn = message.delivery?.from === subscriber.name
    /** @type {number[]} */
    const ids = []
    let qos = -1
    let retain = false
    for (const subscription of subscriptions) {
      if (isOwn && subscription.noLocal) continue
      qos = Math.max(qos, subscription.qos)
      retain ||= subscription.retainAsPublished && message.retain
      if (subscription.id > 0) ids.push(subscription.id)
    }
    if (qos < 0) return
    const item = itemOf(message, { qos: min(qos, message.qos), retain, ids })
    item.group = subscriptions[0].group
    subscriber.deliver(item, shared)
  }

  /** Wills that wait are dropped: those who left them are not gone, we are. */
  stop() {
    for (const will of this.#wills.values()) will.drop()
    this.#wills.clear()
  }
}

/** @param {number} a  @param {number} b */
const min = (a, b) => /** @type {0 | 1 | 2} */ (Math.min(a, b))

/**
 * @param {Omit<Heard, 'retain'>} message
 * @param {Pick<Item, 'qos' | 'retain' | 'ids'>} wish
 * @returns {Item}
 */
function itemOf({ topic, payload, delivery }, { qos, retain, ids }) {
  return {
    cmd: 'publish',
    topic,
    payload,
    qos,
    retain,
    passOn: delivery?.passOn ?? NO_BYTES,
    expiresMs: delivery?.expiresMs ?? Number.POSITIVE_INFINITY,
    ids,
    group: undefined,
    messageId: undefined,
  }
}

/** [MQTT-4.8.2-4]: what was begun at QoS 2 is for its subscriber alone. @param {Item} item */
function mayGoElsewhere({ cmd, qos, messageId }) {
  return cmd === 'publish' && (qos === 1 || messageId === undefined)
}
