// What is remembered of clients: to whom it belongs, what it may take, and who loses when it is too
// much.

import { MemoryShare } from '@sandglass/common/memory-share'
import { RECEIPT_MS_MAX } from '../src/broker/receipts.js'
import { OfflineQueues, QUEUE_MESSAGES_MAX } from '../src/broker/routing/offline-queues.js'
import { RetainedMessages } from '../src/broker/routing/retained.js'
import { subscriptionBytes, UNRELEASED_BYTES } from '../src/broker/session.js'
import {
  ABSENT_MS_MAX,
  CLIENT_SUBSCRIPTION_BYTES_MAX,
  DEVICE_ABSENT_MAX,
  DEVICE_SUBSCRIPTION_BYTES_MAX,
  Sessions,
} from '../src/broker/sessions.js'

/** @param {string} keyId  @param {object} [fields] */
const grant = (keyId, fields) => ({
  keyId,
  name: 'n',
  scopes: new Set(['write']),
  sensorId: undefined,
  expiresMs: undefined,
  ...fields,
})

/** @param {string} keyId */
const device = (keyId) => grant(keyId, { sensorId: keyId })

/** @param {number} [bytesMax] */
function build(bytesMax = 1e9) {
  const share = new MemoryShare(bytesMax)
  /** @type {string[]} */
  const ended = []
  const sessions = new Sessions({ share, onEnd: ({ name }) => ended.push(name) })
  return { share, sessions, ended }
}

/** A connection that says why it was closed. */
function connection() {
  const one = { reason: '', close: (/** @type {string} */ reason) => (one.reason = reason) }
  return one
}

/**
 * A session whose client is away.
 *
 * @param {Sessions} sessions
 * @param {ReturnType<typeof grant> | undefined} key
 * @param {string} id
 */
function keep(sessions, key, id, nowMs = 0) {
  const one = connection()
  const session = sessions.enter(key, id, false, one, nowMs)
  sessions.leave(session, one, nowMs, nowMs)
  return session
}

describe('a session', () => {
  test('belongs to the key that made it', () => {
    const { sessions } = build()
    const [mine, others] = [connection(), connection()]
    const session = sessions.enter(grant('a'), 'c', false, mine, 0)
    expect(sessions.connectionOf(grant('b'), 'c')).toBeUndefined()
    const other = sessions.enter(grant('b'), 'c', false, others, 0)
    expect(other).not.toBe(session)
    expect(other.name).not.toBe(session.name)
    expect([mine.reason, session.connection === mine]).toEqual(['', true])
    expect(sessions.enter(grant('a'), 'c', false, others, 0)).toBe(session)
  })

  test('is the same for all where no key is required', () => {
    const { sessions } = build()
    const session = sessions.enter(undefined, 'c', false, connection(), 0)
    expect(sessions.enter(undefined, 'c', false, connection(), 0)).toBe(session)
    expect(session.name).toBe('c')
  })

  test('ends when its key allows something else', () => {
    const { sessions, ended } = build()
    const one = connection()
    const session = sessions.enter(grant('a'), 'c', false, one, 0)
    const changed = grant('a', { scopes: new Set(['read']) })
    expect(sessions.enter(changed, 'c', false, connection(), 0)).not.toBe(session)
    expect(one.reason).toBe('what its key allows was changed')
    expect(ended).toEqual(['a/c'])
  })

  test('that is clean ends with its connection, unless a redelivery may come', () => {
    const { sessions, ended, share } = build()
    const one = connection()
    const session = sessions.enter(undefined, 'c', true, one, 0)
    session.subscribe('a/b')
    session.noteUnreleased(5)
    sessions.leave(session, one, 0, 0)
    expect(ended).toEqual(['c'])
    expect([sessions.count, share.bytes]).toEqual([0, 0])
    const message = { packetId: 1, qos: 1, dup: false, topic: 't', payload: Buffer.from('5') }
    const again = sessions.enter(undefined, 'c', true, one, 0)
    again.firstReceipt(/** @type {any} */ ({ ...message, receivedMs: 0, arrivedMs: 0 }))
    again.subscribe('a/b')
    sessions.leave(again, one, 0, 0)
    expect(sessions.count).toBe(1)
    // What is kept is for its redeliveries: the broker forgets it.
    expect(ended).toEqual(['c', 'c'])
    sessions.age(RECEIPT_MS_MAX + 1)
    expect([sessions.count, share.bytes]).toEqual([0, 0])
  })

  test('that its client does not want any more is forgotten by the broker, too', () => {
    const { sessions, ended, share } = build()
    const session = keep(sessions, undefined, 'c')
    session.subscribe('a/b')
    const { bytes } = share
    expect(sessions.enter(undefined, 'c', true, connection(), 0)).toBe(session)
    expect(share.bytes).toBeLessThan(bytes)
    expect(ended).toEqual(['c'])
    // One that is new is not known there.
    sessions.enter(undefined, 'd', true, connection(), 0)
    expect(ended).toEqual(['c'])
  })

  test('that is kept waits for a week', () => {
    const { sessions, share } = build()
    const session = keep(sessions, undefined, 'c')
    sessions.age(ABSENT_MS_MAX)
    expect(sessions.enter(undefined, 'c', false, connection(), 0)).toBe(session)
    const other = keep(sessions, undefined, 'd')
    sessions.age(ABSENT_MS_MAX + 1)
    expect(sessions.byName('d')).toBeUndefined()
    expect(sessions.enter(undefined, 'd', false, connection(), 0)).not.toBe(other)
    expect(share.bytes).toBe(0)
  })

  test('that expires soon recognises redeliveries for as long as others', () => {
    const { sessions, ended, share } = build()
    const one = connection()
    const session = sessions.enter(undefined, 'c', true, one, 0, { version: 5, keptMs: 1_000 })
    session.subscribe('a/b')
    const message = { packetId: 1, qos: 1, topic: 't', payload: Buffer.from('5'), arrivedMs: 0 }
    session.firstReceipt(/** @type {any} */ ({ ...message, dup: false, receivedMs: 7 }))
    sessions.leave(session, one, 0, 0)
    sessions.age(1_001)
    expect([ended, session.filters, session.isKept]).toEqual([['c'], [], false])
    const again = sessions.enter(undefined, 'c', false, one, 2_000, { version: 5, keptMs: 1_000 })
    expect(again.isPresent).toBe(false)
    const dup = /** @type {any} */ ({ ...message, dup: true, receivedMs: 9 })
    expect(again.firstReceipt(dup)).toEqual({ receivedMs: 7, isRedelivery: true })
    sessions.leave(again, one, 2_000, 2_000)
    sessions.age(2_000 + RECEIPT_MS_MAX + 1)
    expect([sessions.count, share.bytes]).toEqual([0, 0])
  })

  test('is not taken away by a connection that was replaced', () => {
    const { sessions } = build()
    const [first, second] = [connection(), connection()]
    const session = sessions.enter(undefined, 'c', false, first, 0)
    session.noteUnreleased(5)
    sessions.enter(undefined, 'c', false, second, 0)
    sessions.leave(session, first, 0, 0)
    expect(session.connection).toBe(second)
    expect(session.isUnreleased(5)).toBe(true)
    sessions.enter(undefined, 'c', true, first, 0)
    expect(session.isUnreleased(5)).toBe(false)
  })
})

describe('sessions that wait for their clients', () => {
  test('take bytes; of the key that has most of them the longest gone ends', () => {
    const { sessions, share } = build(2 ** 20)
    const honest = keep(sessions, grant('honest'), 'old')
    for (let n = 0; n < 5_000; n++) keep(sessions, grant('attacker'), `c${n}`, n)
    expect(share.bytes).toBeLessThanOrEqual(2 ** 18)
    expect(sessions.count).toBeGreaterThan(100)
    expect(sessions.evicted).toBe(5_001 - sessions.count)
    expect(sessions.byName(honest.name)).toBe(honest)
    expect(sessions.byName('attacker/c4999')).toBeDefined()
    expect(sessions.byName('attacker/c0')).toBeUndefined()
  })

  test('of one device are few', () => {
    const { sessions } = build()
    for (let n = 0; n < 50; n++) keep(sessions, device('d'), `c${n}`)
    expect(sessions.count).toBe(DEVICE_ABSENT_MAX)
    expect(sessions.byName('d/c49')).toBeDefined()
  })
})

describe('subscriptions', () => {
  test('of one client are bounded by what they cost, and given back', () => {
    const { sessions, share } = build()
    const session = sessions.enter(undefined, 'c', true, connection(), 0)
    let count = 0
    while (session.subscribe(`${count}${'/x'.repeat(99)}`)) count++
    expect(count).toBe(
      Math.floor(CLIENT_SUBSCRIPTION_BYTES_MAX / subscriptionBytes('00/'.padEnd(200, 'x/'), false)),
    )
    expect(sessions.subscriptionsRefused).toBe(1)
    // One that is there already costs nothing more.
    expect(session.subscribe(`0${'/x'.repeat(99)}`)).toBe(true)
    for (const filter of session.filters) session.unsubscribe(filter)
    expect([session.subscriptionBytes, share.bytes]).toEqual([0, 0])
  })

  test('of one device are bounded over all of its clients, wills too', () => {
    const { sessions, share } = build()
    const all = Array.from({ length: 8 }, (_, n) =>
      sessions.enter(device('d'), `c${n}`, true, connection(), 0),
    )
    for (const [n, one] of all.entries()) one.setWill(100_000 + n)
    for (const one of all) for (let n = 0; n < 500; n++) one.subscribe(`f${n}`)
    expect(share.bytes).toBeLessThanOrEqual(DEVICE_SUBSCRIPTION_BYTES_MAX)
    expect(share.bytes).toBeGreaterThan(DEVICE_SUBSCRIPTION_BYTES_MAX - 2_000)
    const other = sessions.enter(device('e'), 'c', true, connection(), 0)
    expect([other.setWill(1_000), other.subscribe('f')]).toEqual([true, true])
  })

  test('of all are bounded, and leave the room of others alone', () => {
    const { sessions, share } = build(2 ** 20)
    for (let n = 0; n < 100; n++) {
      const session = sessions.enter(undefined, `c${n}`, true, connection(), 0)
      for (let at = 0; at < 10; at++) session.subscribe(`f${at}`)
    }
    expect(share.bytes).toBeLessThanOrEqual((3 / 8) * 2 ** 20)
    expect(sessions.subscriptionsRefused).toBeGreaterThan(0)
    expect(keep(sessions, undefined, 'kept').connection).toBeUndefined()
    expect(sessions.byName('kept')).toBeDefined()
  })
})

describe('QoS 2 packet ids that are not released', () => {
  test('cost whoever holds most of them its session, and nobody else', () => {
    const { sessions, share } = build(16 * 2 ** 20)
    const good = connection()
    const honest = sessions.enter(grant('honest'), 'c', false, good, 0)
    for (let id = 1; id <= 1_000; id++) expect(honest.noteUnreleased(id)).toBe(true)
    const attackers = Array.from({ length: 16 }, (_, n) => {
      const one = connection()
      return { one, session: sessions.enter(grant('bad'), `c${n}`, false, one, 0) }
    })
    for (const { session } of attackers) {
      for (let id = 1; id <= 65_535; id++) if (!session.noteUnreleased(id)) break
    }
    expect(good.reason).toBe('')
    for (let id = 1_001; id <= 2_000; id++) expect(honest.noteUnreleased(id)).toBe(true)
    expect(attackers.filter(({ one }) => one.reason !== '').length).toBeGreaterThan(10)
    expect(share.bytes).toBeLessThanOrEqual(2 * 2 ** 20)
    expect(honest.unreleasedBytes).toBe(2_000 * UNRELEASED_BYTES)
  })

  test('are given back when they are released, and when their session ends', () => {
    const { sessions, share } = build()
    const session = sessions.enter(undefined, 'c', false, connection(), 0)
    for (const id of [1, 2, 3, 3]) session.noteUnreleased(id)
    expect(share.bytes).toBe(3 * UNRELEASED_BYTES)
    session.release(1)
    session.release(1)
    expect(share.bytes).toBe(2 * UNRELEASED_BYTES)
    sessions.end(session)
    expect([share.bytes, sessions.count]).toEqual([0, 0])
  })
})

/** @param {string} topic  @param {number} bytes  @returns {any} */
const packet = (topic, bytes) => ({
  cmd: 'publish',
  topic,
  payload: Buffer.alloc(bytes),
  qos: 1,
})

/** @param {OfflineQueues} all  @param {string[]} names  @param {ReturnType<typeof packet>} one */
function add(all, names, one) {
  const shared = all.sharedOf(one)
  for (const name of names) all.addOne(name, shared, () => ({ ...one }))
}

describe('messages for subscribers that are away', () => {
  const queues = (/** @type {number} */ bytesMax) => {
    const share = new MemoryShare(bytesMax)
    return { share, queues: new OfflineQueues(share) }
  }

  test('are bounded for each in number and in bytes', () => {
    const { queues: all } = queues(64 * 2 ** 20)
    for (let n = 0; n < 1_500; n++) add(all, ['a'], packet('t', 10))
    expect([all.packets('a').length, all.dropped]).toEqual([QUEUE_MESSAGES_MAX, 500])
    for (let n = 0; n < 100; n++) add(all, ['b'], packet('t', 2 ** 20))
    expect(all.packets('b').length).toBe(7)
  })

  test('cost their topics, too', () => {
    const { queues: all } = queues(64 * 2 ** 20)
    for (let n = 0; n < 100; n++) add(all, ['a'], packet('x'.repeat(65_535), 0))
    expect(all.packets('a').length).toBeLessThanOrEqual((8 * 2 ** 20) / 131_070)
  })

  test('that all together are too many are dropped from the longest queue', () => {
    const { queues: all, share } = queues(2 ** 20)
    const attackers = Array.from({ length: 20 }, (_, n) => `bad${n}`)
    for (let n = 0; n < 200; n++) for (const name of attackers) add(all, [name], packet('t', 1_000))
    expect(share.bytes).toBeLessThanOrEqual(2 ** 20)
    for (let n = 0; n < 20; n++) add(all, ['good'], packet('t', 1_000))
    expect(all.packets('good').length).toBe(20)
    expect(share.bytes).toBeLessThanOrEqual(2 ** 20)
  })

  test('are counted once, however many they wait for, and given back with the last', () => {
    const { queues: all, share } = queues(2 ** 24)
    const names = Array.from({ length: 100 }, (_, n) => `c${n}`)
    add(all, names, packet('t', 100_000))
    expect(share.bytes).toBeLessThan(150_000)
    for (const name of names) {
      for (const one of all.packets(name)) one.messageId = 7
      if (name === 'c99') expect(share.bytes).toBeGreaterThan(100_000)
      expect(all.remove(name, 8)).toBeUndefined()
      expect(all.remove(name, 7)).toMatchObject({ topic: 't' })
    }
    expect(share.bytes).toBe(0)
    add(all, names, packet('t', 100_000))
    for (const name of names) all.forget(name)
    expect(share.bytes).toBe(0)
  })
})

test('a message that is dropped so that it can wait elsewhere costs all that it is', () => {
  const last = packet('t', 7_000)
  const share = new MemoryShare(0)
  const all = new OfflineQueues(share)
  const shared = all.sharedOf(last)
  // Its queue may have an eighth of all, and has that; the others leave no room.
  const bytes = 256 + shared.bytes
  share.bytesMax = 8 * bytes
  const others = ['1', '2', '3', '4', '5', '6', '7']
  for (const name of others) add(all, [name], packet('t', 6_998))
  all.addOne('first', shared, () => ({ ...last }))
  expect(share.bytesMax - share.bytes).toBeLessThan(256)
  expect(all.addOne('second', shared, () => ({ ...last }))).toBe(true)
  expect([all.packets('first').length, all.packets('second').length]).toEqual([0, 1])
  expect(share.bytesMax - share.bytes).toBeLessThan(256)
  for (const name of ['second', ...others]) all.forget(name)
  expect(share.bytes).toBe(0)
})

describe('retained messages', () => {
  const build = (/** @type {number} */ bytesMax) => {
    const retained = new MemoryShare(bytesMax)
    return { retained, store: new RetainedMessages(retained, () => 0) }
  }

  test('cost their topics, and what stands for them; beyond that they are refused', () => {
    const { retained, store } = build(32 * 2 ** 20)
    for (let n = 0; n < 11_000; n++) {
      store.store(packet(`${n}/`.padEnd(65_535, 'x'), 1))
    }
    expect(retained.bytes).toBeLessThanOrEqual(32 * 2 ** 20)
    expect(store.refused).toBeGreaterThan(10_700)
    for (let n = 0; n < 100_000; n++) store.store(packet(`${n}`, 1))
    expect(retained.bytes).toBeLessThanOrEqual(32 * 2 ** 20)
  })

  test('cost each level of their topics', () => {
    const { retained, store } = build(32 * 2 ** 20)
    store.store(packet('/'.repeat(10_000), 1))
    expect(retained.bytes).toBeGreaterThan(10_000 * 230)
  })

  test('take the place of the last one of their topic, or take it away', () => {
    const { retained, store } = build(10_000)
    store.store(packet('a', 6_000))
    const { bytes } = retained
    expect(store.store(packet('a', 6_100))).toBe(true)
    expect(retained.bytes).toBe(bytes + 100)
    expect(store.store(packet('b', 1_000))).toBe(false)
    expect([retained.bytes, store.refused]).toEqual([bytes + 100, 1])
    expect(store.store(packet('a', 0))).toBe(true)
    expect(retained.bytes).toBe(0)
  })

  test('that there is no room for leave none on their topic that is true no more', () => {
    const { retained, store } = build(10_000)
    store.store(packet('a', 6_000))
    expect(store.store(packet('a', 10_000))).toBe(false)
    expect([...store.matching('a')].filter(Boolean)).toEqual([])
    expect(retained.bytes).toBe(0)
  })

  test('of clients leave room for what is desired of devices', () => {
    const { retained, store } = build(100_000)
    for (let n = 0; n < 100; n++) store.store(packet(`${n}`, 2_000))
    expect(store.refused).toBeGreaterThan(50)
    expect(store.store(packet('desired/s', 16_384))).toBe(true)
    expect(store.store(packet('desired/t', 16_384))).toBe(false)
    expect(retained.bytes).toBeLessThanOrEqual(100_000)
  })
})
