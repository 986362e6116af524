// What a subscriber is given of what can wait: a little at a time, and as it can take it.

import { setImmediate } from 'node:timers/promises'
import { MemoryShare } from '@sandglass/common/memory-share'
import { Topics } from '@sandglass/common/topics'
import { Port } from '../src/broker/port.js'
import { Fanout } from '../src/broker/routing/fanout.js'
import { OfflineQueues } from '../src/broker/routing/offline-queues.js'
import { ownBytes } from '../src/broker/routing/own-bytes.js'
import { RetainedMessages } from '../src/broker/routing/retained.js'
import { Router } from '../src/broker/routing/router.js'
import { Subscriber } from '../src/broker/routing/subscriber.js'
import { brokerTerms, PLAIN_TERMS, receivedTerms, sentTerms } from '../src/broker/routing/terms.js'
import { externalBytes } from './support/garbage.js'
import { until } from './support/ingest.js'

const KIB = 1_024

/** A connection whose client takes what it is sent when it is told to. */
function slowConnection() {
  return {
    grant: undefined,
    server: { topics: new Topics() },
    outgoingBytes: 0,
    sent: 0,
    send(/** @type {Buffer} */ { length }) {
      this.outgoingBytes += length
      this.sent++
    },
    subscribe: (/** @type {string[]} */ filters) => filters.map(() => 0),
    unsubscribe: () => {},
    answered: () => {},
    mayPublishWill: () => true,
    close: () => {},
  }
}

/** @param {Partial<import('../src/broker/routing/subscriber.js').Terms>} [terms] */
function build(terms) {
  const queues = new OfflineQueues(new MemoryShare(1e9))
  const connection = slowConnection()
  const subscriber = new Subscriber('c', queues, () => 0)
  const all = { ...PLAIN_TERMS, receiveMax: 1_000, packetBytesMax: 2 ** 28, name: 'c', ...terms }
  const open = () => subscriber.opened(connection, { ...all, version: 4 })
  open()
  return { queues, connection, subscriber, open }
}

/** @param {0 | 1} qos  @param {number} bytes  @returns {any} */
const item = (qos, bytes) => ({
  cmd: 'publish',
  topic: 'room/a',
  payload: Buffer.alloc(bytes),
  qos,
  retain: true,
  passOn: Buffer.alloc(0),
  expiresMs: Number.POSITIVE_INFINITY,
  ids: [],
  group: undefined,
  messageId: undefined,
})

/** Steps without end. */
function endless() {
  return {
    count: 0,
    next() {
      this.count++
      return { done: false, value: undefined }
    },
  }
}

describe('retained messages', () => {
  test('are looked for a few steps a turn, filter by filter', async () => {
    const { subscriber } = build()
    const [one, two] = [endless(), endless()]
    subscriber.deliverRetained('a', /** @type {any} */ (one))
    subscriber.deliverRetained('b', /** @type {any} */ (two))
    expect(one.count).toBe(0)
    await setImmediate()
    await setImmediate()
    const { count } = one
    expect(count).toBeGreaterThan(0)
    expect(count).toBeLessThanOrEqual(3 * 64)
    subscriber.dropRetained('a')
    await setImmediate()
    await setImmediate()
    expect([one.count, two.count > 0]).toEqual([count, true])
    subscriber.closed()
    const after = two.count
    await setImmediate()
    await setImmediate()
    expect(two.count).toBe(after)
  })

  test('of a filter that is subscribed to again are looked for once', async () => {
    const { subscriber } = build()
    const all = Array.from({ length: 100 }, endless)
    for (const one of all) subscriber.deliverRetained('a', /** @type {any} */ (one))
    for (let turn = 0; turn < 5; turn++) await setImmediate()
    expect(all.filter(({ count }) => count > 0)).toEqual([all[99]])
    subscriber.closed()
  })

  test.each([0, 1])('of QoS %i wait until the client has taken those before', async (qos) => {
    const { subscriber, connection } = build()
    const items = Array.from({ length: 100 }, () => item(/** @type {0 | 1} */ (qos), 100 * KIB))
    subscriber.deliverRetained('a', items.values())
    let most = 0
    for (let turn = 0; turn < 200 && connection.sent < 100; turn++) {
      await setImmediate()
      most = Math.max(most, connection.outgoingBytes)
      if (turn % 10 === 9) {
        connection.outgoingBytes = 0
        subscriber.hasTaken()
      }
    }
    expect(most).toBeGreaterThan(2 ** 20 - 100 * KIB)
    expect(most).toBeLessThan(2 ** 20 + 200 * KIB)
    // Those of one turn leave together.
    expect(connection.sent).toBeGreaterThan(8)
    subscriber.closed()
  })
})

test('what waited while a client was away comes as it can take it', async () => {
  const { subscriber, connection, open, queues } = build({ isKept: true })
  subscriber.closed()
  for (let count = 0; count < 100; count++) {
    const one = item(1, 100 * KIB)
    subscriber.deliver(one, queues.sharedOf(one))
  }
  open()
  await setImmediate()
  const once = connection.outgoingBytes
  expect(once).toBeGreaterThan(2 ** 20 - 100 * KIB)
  expect(once).toBeLessThan(2 ** 20 + 200 * KIB)
  let bytes = 0
  for (let turn = 0; turn < 20; turn++) {
    bytes += connection.outgoingBytes
    connection.outgoingBytes = 0
    subscriber.hasTaken()
    await setImmediate()
  }
  expect(bytes).toBeGreaterThan(100 * 100 * KIB)
})

test('a message that waits in the fan-out is its own, and not the chunk that it came in', async () => {
  /** @type {unknown[]} */
  const given = []
  /** @param {string} name  @returns {any} */
  const message = (name) => ({ name, qos: 1, bytes: 1 })
  const give = (/** @type {{ name: string }} */ { name }) => {
    given.push(name)
    return 2 ** 30
  }
  const own = (/** @type {{ name: string }} */ { name }) => message(`own ${name}`)
  const fanout = new Fanout(new MemoryShare(1e9), /** @type {any} */ (give), own)
  for (const name of ['a', 'b']) fanout.add(message(name))
  await setImmediate()
  expect(given).toEqual(['a', 'own b'])
})

describe('the bytes of what is kept are its own', () => {
  /** As it comes: views of something larger. */
  const view = () => Buffer.alloc(60_000).subarray(10, 30)
  const delivery = () => ({ passOn: view(), expiresMs: Number.POSITIVE_INFINITY, from: 'c' })
  /** @param {Buffer[]} all  Of 20 bytes each. */
  const areOwn = (...all) => {
    for (const { length, buffer } of all) expect([length, buffer.byteLength]).toEqual([20, 20])
  }

  test('if it is retained', () => {
    const retained = new RetainedMessages(new MemoryShare(1e9), () => 0)
    retained.store({ topic: 'a', payload: view(), qos: 1, delivery: delivery() })
    const [kept] = retained.matching('a')
    areOwn(...[kept?.payload, kept?.delivery?.passOn].flatMap((one) => one ?? []))
    expect.assertions(2)
  })

  test('if it waits for a subscriber', () => {
    const { subscriber, queues } = build({ isKept: true })
    subscriber.closed()
    const one = { ...item(1, 0), payload: view(), passOn: view() }
    subscriber.deliver(one, queues.sharedOf(one))
    const [kept] = queues.packets('c')
    areOwn(kept.payload, /** @type {Buffer} */ (kept.passOn))
  })

  test('if it waits in the fan-out', () => {
    const own = ownBytes({ payload: view(), delivery: delivery() })
    areOwn(own.payload, own.delivery.passOn)
  })

  test('if it is a will, also of a client of another process', () => {
    const session = /** @type {any} */ ({ name: 'c', version: 5, isPresent: false, isKept: true })
    const properties = { passOn: view() }
    const will = { topic: 'w', payload: view(), qos: 1, retain: false, properties }
    const terms = brokerTerms(session, /** @type {any} */ ({ will, properties: {} }))
    const sent = receivedTerms(JSON.parse(JSON.stringify(sentTerms(terms))))
    for (const { will: kept } of [terms, sent]) if (kept) areOwn(kept.payload, kept.passOn)
    expect.assertions(4)
  })
})

test('a router keeps no chunk of bytes in which a packet came', async () => {
  const router = new Router({
    queues: new OfflineQueues(new MemoryShare(1e9)),
    retainedFor: () => [],
    publish: () => {},
    clockMs: () => 0,
  })
  const before = externalBytes()
  for (let count = 0; count < 50; count++) {
    const terms = { ...PLAIN_TERMS, receiveMax: 10, packetBytesMax: 1_000, name: `c${count}` }
    const port = new Port(slowConnection(), { ...terms, version: 4 })
    router.open(port)
    const chunk = Buffer.alloc(2 ** 20)
    Buffer.from([0x82, 6, 0, 1, 0, 1, 0x61, 0]).copy(chunk)
    port.push(chunk.subarray(0, 8))
  }
  expect(router.hasSubscribers).toBe(true)
  // Buffers that nobody needs are freed by a thread of its own.
  await until(() => externalBytes() - before < 5 * 2 ** 20)
})
