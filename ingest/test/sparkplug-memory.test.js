// What is remembered of edge nodes is bounded in bytes, and births are asked for at a bounded pace.
import { readPayload } from '@sandglass/common/formats/sparkplug/payload'
import { REBIRTH_AGAIN_MS, step, unknownSession } from '@sandglass/common/formats/sparkplug/session'
import { writePayload } from '@sandglass/common/formats/sparkplug/write'
import { MemoryShare } from '@sandglass/common/memory-share'
import { parseTopics } from '@sandglass/common/topics'
import { Message } from '../src/message/message.js'
import { EdgeNodes, SILENT_MS } from '../src/sparkplug/edge-nodes.js'
import { REBIRTHS_AT_ONCE, REBIRTHS_PER_S, RebirthPace } from '../src/sparkplug/rebirth-pace.js'
import { heapBytes } from './support/garbage.js'

const T = Date.UTC(2026, 0, 1)
const FORMAT = 30
const DOUBLE = 10
const TOPICS = parseTopics('spBv1.0/{group}/{type}/{node}[/{device}] in sparkplug-b')

/** @typedef {import('@sandglass/common/formats/sparkplug/write').Written} Written */

/** @param {number} seq  @param {Written[]} metrics */
const bytes = (seq, ...metrics) => writePayload({ timeMs: T + seq, seq, metrics })

/** @param {string} name  @param {number} alias  @param {number} double */
const born = (name, alias, double) => ({ name, alias, datatype: DOUBLE, double })

describe('the memory for births', () => {
  /** @param {number} bytesMax */
  function edgeNodesOf(bytesMax) {
    const share = new MemoryShare(bytesMax)
    const clock = { nowMs: 0 }
    const edgeNodes = new EdgeNodes({ topics: TOPICS, share, now: () => clock.nowMs })
    /** @param {string} node  @param {string} type  @param {Buffer} payload */
    const take = (node, type, payload) => {
      const message = new Message({
        origin: { settled() {} },
        clientId: 'c',
        topic: `spBv1.0/g/${type}/${node}`,
        payload,
        format: FORMAT,
        receivedMs: T,
        arrivedMs: 0,
      })
      edgeNodes.take(message)
      return message
    }
    return { edgeNodes, share, clock, take }
  }

  /** @param {number} count */
  const birth = (count) =>
    bytes(0, ...Array.from({ length: count }, (_, at) => born(`metric ${at}`, at, at)))
  const data = bytes(1, { alias: 0, double: 1 })
  const of = (/** @type {number} */ at) => readPayload(bytes(at % 256))

  /** Whether a message got a name. @param {Message} message */
  const isNamed = ({ payload }) => readPayload(payload).metrics[0].name === 'metric 0'

  test('is bounded: who comes when it is full is not followed, and those before are', () => {
    const { edgeNodes, share, take } = edgeNodesOf(100_000)
    for (const node of ['a', 'b', 'c', 'd', 'e', 'f']) take(node, 'NBIRTH', birth(80))
    expect(share.bytes).toBeLessThanOrEqual(100_000)
    expect(share.refused).toBeGreaterThan(0)
    const named = ['a', 'b', 'c', 'd', 'e', 'f'].map((node) => isNamed(take(node, 'NDATA', data)))
    expect(named).toEqual([true, true, true, true, false, false])
    expect([edgeNodes.countOf('online'), edgeNodes.countOf('unknown')]).toEqual([4, 2])
  })

  test('takes no birth that is larger than a quarter of it, and asks seldom', () => {
    const { share, take, clock, edgeNodes } = edgeNodesOf(100_000)
    take('a', 'NBIRTH', birth(90))
    expect(share.refused).toBe(0)
    take('b', 'NBIRTH', birth(110))
    expect(share.refused).toBe(1)
    for (let at = 0; at < 3; at++) expect(isNamed(take('b', 'NDATA', data))).toBe(false)
    expect(edgeNodes.counts.rebirths).toBe(0)
    clock.nowMs += REBIRTH_AGAIN_MS
    take('b', 'NDATA', data)
    expect(edgeNodes.counts.rebirths).toBe(1)
  })

  test('is made free by those who are silent, the longest first', () => {
    const { share, take, clock } = edgeNodesOf(100_000)
    for (const node of ['a', 'b', 'c', 'd']) take(node, 'NBIRTH', birth(80))
    clock.nowMs += SILENT_MS - 1
    take('a', 'NDATA', data)
    clock.nowMs += 1
    take('e', 'NBIRTH', birth(80))
    const next = bytes(2, { alias: 0, double: 1 })
    expect(isNamed(take('a', 'NDATA', next))).toBe(true)
    expect(['e', 'c', 'd'].map((node) => isNamed(take(node, 'NDATA', data)))).toEqual([
      true,
      true,
      true,
    ])
    expect(isNamed(take('b', 'NDATA', data))).toBe(false)
    expect(share.bytes).toBeLessThanOrEqual(100_000)
  })

  test('is kept by those who are heard, however long ago they were born', () => {
    const { take, clock } = edgeNodesOf(100_000)
    const nodes = ['a', 'b', 'c', 'd']
    for (const node of nodes) take(node, 'NBIRTH', birth(80))
    clock.nowMs += SILENT_MS - 1
    for (const node of nodes) take(node, 'NDATA', data)
    clock.nowMs += SILENT_MS - 1
    take('e', 'NBIRTH', birth(80))
    const next = bytes(2, { alias: 0, double: 1 })
    expect(nodes.map((node) => isNamed(take(node, 'NDATA', next)))).toEqual(nodes.map(() => true))
    expect(isNamed(take('e', 'NDATA', data))).toBe(false)
  })

  test('is given back by deaths, by smaller births, and by gaps', () => {
    const { share, take } = edgeNodesOf(100_000)
    take('a', 'NBIRTH', birth(1))
    const { bytes: small } = share
    for (const end of [
      () => take('a', 'NBIRTH', birth(1)),
      () => take('a', 'NDEATH', bytes(0)),
      () => take('a', 'NDATA', bytes(9)),
      () => take('a', 'NDATA', Buffer.from('ff')),
    ]) {
      take('a', 'NBIRTH', birth(80))
      expect(share.bytes).toBeGreaterThan(small + 10_000)
      end()
      expect(share.bytes).toBeLessThanOrEqual(small)
      take('a', 'NBIRTH', birth(1))
      expect(share.bytes).toBe(small)
    }
  })

  test('is not taken by names that no metric can have', () => {
    const { share, take } = edgeNodesOf(100_000)
    const message = take('a', 'NBIRTH', bytes(0, born('x'.repeat(10_000), 1, 1)))
    expect(message.original).toBeUndefined()
    expect(share.bytes).toBeLessThan(5_000)
    // What is left of one is too long all the same.
    const { payload } = take('a', 'NDATA', bytes(1, { alias: 1, double: 1 }))
    expect(readPayload(payload).metrics[0].name).toBe('x'.repeat(129))
  })

  test('is taken by devices without metrics, too, and given back by their deaths', () => {
    const { share, take, edgeNodes } = edgeNodesOf(100_000)
    take('a', 'NBIRTH', birth(1))
    const { bytes: before } = share
    for (const at of [1, 2, 3]) take(`a/device ${at}`, 'DBIRTH', bytes(at))
    const { bytes: three } = share
    expect(three - before).toBeGreaterThan(1_200)
    take('a/device 1', 'DBIRTH', bytes(4))
    expect(share.bytes).toBe(three)
    for (const at of [1, 2, 3]) take(`a/device ${at}`, 'DDEATH', bytes(4 + at))
    expect(share.bytes).toBe(before)
    for (let at = 8; at < 200; at++) take(`a/device ${at}`, 'DBIRTH', bytes(at))
    // It has its quarter, and begins anew with the next birth.
    expect([share.refused, edgeNodes.countOf('online')]).toEqual([1, 0])
    expect(share.bytes).toBeLessThan(5_000)
  })

  test('is not taken by devices that can have no sensor, nor are births asked of them', () => {
    const { share, take, edgeNodes } = edgeNodesOf(100_000)
    take('a', 'NBIRTH', birth(1))
    const { bytes: before } = share
    const beforeBytes = heapBytes()
    for (let seq = 1; seq < 100; seq++) {
      take(`a/${'x'.repeat(60_000)}${seq}`, seq % 2 ? 'DBIRTH' : 'DDATA', bytes(seq))
    }
    expect([share.bytes, edgeNodes.counts.rebirths]).toEqual([before, 0])
    expect(heapBytes() - beforeBytes).toBeLessThan(10 * 60_000)
    expect(isNamed(take('a', 'NDATA', bytes(100, { alias: 0, double: 1 })))).toBe(true)
  })

  test('is counted by what changes: a birth of one device costs no more where there are many', () => {
    let session = step(unknownSession(), { type: 'NBIRTH', device: '', payload: of(0) }, 0).session
    const { scopes } = session
    for (let at = 1; at < 1_000; at++) {
      const message = { type: /** @type {const} */ ('DBIRTH'), device: `${at}`, payload: of(at) }
      session = step(session, message, 0).session
    }
    expect([session.scopes === scopes, scopes.size]).toEqual([true, 1_000])
    expect(session.scopeBytes).toBeGreaterThan(400_000)
  })
})

test('what came is kept by itself, not as a part of what was read', () => {
  const read = Buffer.from('what was read')
  const parts = { origin: { settled() {} }, clientId: 'c', topic: 't', receivedMs: T, arrivedMs: 0 }
  const copyOf = (/** @type {Buffer} */ part) => Buffer.from(part)
  const plain = new Message({ ...parts, payload: read.subarray(0, 4) })
  plain.detach(copyOf)
  const more = Buffer.from('what was read, and more')
  const completed = new Message({ ...parts, payload: read.subarray(0, 4) })
  completed.complete(more)
  completed.detach(copyOf)
  expect(completed.payload).toBe(more)
  read.fill('x')
  expect([plain.payload, completed.original].map(String)).toEqual(['what', 'what'])
})

describe('rebirths', () => {
  test('are asked for at a bounded pace', () => {
    const pace = new RebirthPace(0)
    const ask = (/** @type {number} */ nowMs) => {
      let asked = 0
      for (; pace.isDue(nowMs); asked++) pace.asked(nowMs)
      return asked
    }
    expect(ask(0)).toBe(REBIRTHS_AT_ONCE)
    expect(ask(1_000)).toBe(REBIRTHS_PER_S)
    expect(ask(1_020)).toBe(0)
    expect(ask(3_600_000)).toBe(REBIRTHS_AT_ONCE)
  })
})
