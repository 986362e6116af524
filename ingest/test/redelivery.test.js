// Which messages without a time are redeliveries, by MQTT 3.1.1, 4.3 and 4.4: none is stored twice
// that need not be, and none is taken for another that was stored before.

import { MemoryShare } from '@sandglass/common/memory-share'
import {
  ACK_MS_MAX,
  AllReceipts,
  CLIENT_RECEIPTS_MAX,
  isRedelivery,
  RECEIPT_BYTES,
  RECEIPT_MS_MAX,
  Receipts,
} from '../src/broker/receipts.js'
import { seeded } from './support/random.js'

/** @param {number} [bytesMax] */
function build(bytesMax = 1e9) {
  const share = new MemoryShare(bytesMax)
  const all = new AllReceipts(share)
  return { share, all, receipts: new Receipts(all) }
}

/** @param {object} [fields]  @returns {any} */
const message = (fields) => ({
  packetId: 1,
  qos: 1,
  dup: false,
  topic: 't',
  payload: Buffer.from('5'),
  receivedMs: 1_000,
  arrivedMs: 0,
  ...fields,
})

const both = [false, true]
const table = [1, 2].flatMap((qos) =>
  both.flatMap((isSame) =>
    both.flatMap((isHere) =>
      both.flatMap((isAcknowledged) =>
        both.map((dup) => ({ qos, isSame, isHere, isAcknowledged, dup })),
      ),
    ),
  ),
)

/** What the standard says, clause by clause. @param {typeof table[number]} row */
function byTheStandard({ qos, isSame, isHere, isAcknowledged, dup }) {
  // The same packet again is the same packet.
  if (!isSame) return false
  // [MQTT-4.3.2-2]: after its PUBACK the id is of a new publication, irrespective of the flag.
  // At QoS 2 the id is free again after its PUBREL; before it the connection answers by itself.
  if (isHere && isAcknowledged) return false
  // [MQTT-4.3.3-2]: up to the PUBREL any PUBLISH with the id is the same.
  if (isHere && qos === 2) return true
  // [MQTT-3.3.1-1]: whatever is sent again has the flag, on this connection or, as [MQTT-4.4.0-1]
  // demands, on the next.
  return dup
}

test.each(table)('%j', (row) => {
  const { qos, isSame, isHere, isAcknowledged, dup } = row
  const expected = byTheStandard(row)
  const known = { qos, hash: 1, isAcknowledged, isHere }
  expect(isRedelivery(known, { qos, hash: isSame ? 1 : 2, dup })).toBe(expected)
  expect(isRedelivery(known, { qos: 3 - qos, hash: 1, dup })).toBe(false)

  const { receipts } = build()
  receipts.note(message({ qos }))
  if (isAcknowledged) receipts.acknowledged(1, 0)
  if (!isHere) receipts.closed()
  const payload = Buffer.from(isSame ? '5' : '6')
  const again = receipts.note(message({ qos, dup, payload, receivedMs: 2_000, arrivedMs: 1_000 }))
  expect(again).toEqual({ receivedMs: expected ? 1_000 : 2_000, isRedelivery: expected })
})

describe('an acknowledgement that has arrived', () => {
  const later = { dup: true, receivedMs: 9_000 }

  test('is one whose packet id is used again, and so are those before it', () => {
    const { receipts } = build()
    for (const packetId of [1, 2, 3]) receipts.note(message({ packetId }))
    for (const packetId of [1, 2, 3]) receipts.acknowledged(packetId, 10)
    receipts.note(message({ packetId: 2, arrivedMs: 20 }))
    receipts.closed()
    const isRedelivered = [1, 2, 3].map(
      (packetId) => receipts.note(message({ packetId, ...later, arrivedMs: 30 })).isRedelivery,
    )
    // Of 2 the newer one was not acknowledged.
    expect(isRedelivered).toEqual([false, true, true])
  })

  test('is one whose client is heard long afterwards', () => {
    for (const [heardMs, expected] of /** @type {const} */ ([
      [ACK_MS_MAX, true],
      [ACK_MS_MAX + 1, false],
    ])) {
      const { receipts } = build()
      receipts.note(message())
      receipts.acknowledged(1, 0)
      receipts.heard(heardMs)
      receipts.closed()
      expect(receipts.note(message({ ...later, arrivedMs: 9_000 })).isRedelivery).toBe(expected)
    }
  })

  test('is none that was not written, however long its client is heard', () => {
    const { receipts } = build()
    receipts.note(message())
    receipts.heard(60_000)
    receipts.closed()
    expect(receipts.note(message({ ...later, arrivedMs: 61_000 })).isRedelivery).toBe(true)
  })
})

describe('receipts', () => {
  test('are kept for ten minutes', () => {
    for (const [arrivedMs, expected] of /** @type {const} */ ([
      [RECEIPT_MS_MAX, true],
      [RECEIPT_MS_MAX + 1, false],
    ])) {
      const { receipts } = build()
      receipts.note(message())
      receipts.closed()
      expect(receipts.note(message({ dup: true, arrivedMs })).isRedelivery).toBe(expected)
    }
  })

  test('of one client are bounded; the oldest are forgotten', () => {
    const { receipts, share, all } = build()
    for (let packetId = 1; packetId <= CLIENT_RECEIPTS_MAX + 1; packetId++) {
      receipts.note(message({ packetId }))
    }
    expect(all.count).toBe(CLIENT_RECEIPTS_MAX)
    expect(share.bytes).toBe(CLIENT_RECEIPTS_MAX * RECEIPT_BYTES)
    receipts.closed()
    expect(receipts.note(message({ packetId: 1, dup: true })).isRedelivery).toBe(false)
    expect(receipts.note(message({ packetId: 9, dup: true })).isRedelivery).toBe(true)
  })

  test('of all clients are bounded; the oldest are forgotten, whoever they are of', () => {
    const { all, share } = build(1_000 * RECEIPT_BYTES)
    const [old, young] = [new Receipts(all), new Receipts(all)]
    for (let packetId = 1; packetId <= 1_000; packetId++) old.note(message({ packetId }))
    young.note(message())
    expect(share.bytes).toBe(share.bytesMax)
    old.closed()
    young.closed()
    expect(old.note(message({ packetId: 1, dup: true })).isRedelivery).toBe(false)
    expect(old.note(message({ packetId: 1_000, dup: true })).isRedelivery).toBe(true)
    expect(young.note(message({ dup: true })).isRedelivery).toBe(true)
    for (const one of [old, young]) one.clear()
    expect([all.count, share.bytes]).toEqual([0, 0])
  })
})

/**
 * A client that keeps to the standard, over a network that loses what is on its way when it breaks.
 * Its values are all different, so that the rows tell which message each of them is.
 */
class Client {
  receipts = build().receipts
  nowMs = 0
  /** Rows by value. @type {Map<number, Set<number>>} */
  rows = new Map()
  /** What is not acknowledged, as the client knows, by packet id. @type {Map<number, number>} */
  pending = new Map()
  /** What the server has received and not acknowledged. @type {number[]} */
  received = []
  value = 0

  /** @param {() => number} random */
  constructor(random) {
    this.random = random
  }

  /** @param {number} packetId  @param {boolean} dup */
  arrive(packetId, dup) {
    const value = this.pending.get(packetId) ?? 0
    const payload = Buffer.from(String(value))
    this.nowMs++
    const { receivedMs } = this.receipts.note(
      message({ packetId, dup, payload, receivedMs: this.nowMs, arrivedMs: this.nowMs }),
    )
    this.rows.set(value, (this.rows.get(value) ?? new Set()).add(receivedMs))
    this.received.push(packetId)
  }

  publish() {
    const packetId = [1, 2, 3, 4].find((id) => !this.pending.has(id))
    if (packetId === undefined) return
    this.pending.set(packetId, this.value++)
    if (this.random() < 0.8) this.arrive(packetId, false)
    else this.reconnect()
  }

  acknowledge() {
    const packetId = this.received.shift()
    if (packetId === undefined) return
    this.receipts.acknowledged(packetId, ++this.nowMs)
    if (this.random() < 0.8) this.pending.delete(packetId)
    else this.reconnect()
  }

  reconnect() {
    this.receipts.closed()
    this.received = []
    for (const packetId of this.pending.keys()) this.arrive(packetId, true)
  }
}

test.each([1, 2, 3, 4, 5])('each message of a client is one row, run %i', (seed) => {
  const client = new Client(seeded(seed))
  for (let step = 0; step < 20_000; step++) {
    const choice = client.random()
    if (choice < 0.45) client.publish()
    else if (choice < 0.95) client.acknowledge()
    else client.reconnect()
  }
  client.reconnect()
  expect(client.value).toBeGreaterThan(1_000)
  expect(client.rows.size).toBe(client.value)
  expect([...client.rows].filter(([, times]) => times.size !== 1)).toEqual([])
})

test('equal values on one connection are as many rows as messages, whatever the flag says', () => {
  const { receipts } = build()
  const times = new Set()
  for (let n = 1; n <= 5; n++) {
    times.add(receipts.note(message({ dup: n > 2, receivedMs: n, arrivedMs: n })).receivedMs)
    receipts.acknowledged(1, n)
  }
  expect(times.size).toBe(5)
})
