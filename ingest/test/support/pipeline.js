/** A pipeline over a database in memory, and what a test does with it. */

import pino from 'pino'
import { Sessions } from '../../src/broker/sessions.js'
import { buildIngest } from '../../src/ingest.js'
import { Message } from '../../src/message/message.js'
import { FakeStorage } from './fake-storage.js'
import { until } from './ingest.js'

/** @typedef {ConstructorParameters<typeof Message>[0]} MessageParts */

/**
 * @param {Partial<import('../../src/ingest.js').IngestLimits>} [limits]
 * @param {FakeStorage} [storage]
 * @param {import('../../src/write/recent.js').Recent} [recent]
 */
export function build(limits = {}, storage = new FakeStorage(), recent = undefined) {
  const ingest = buildIngest({
    storage,
    recent,
    keyspace: 'k',
    logger: pino({ level: 'silent' }),
    limits: {
      sensorsMax: 1_000,
      heldBytesMax: 1e6,
      qos0BytesMax: 1e6,
      retentionClass: '30d',
      deadLettersMax: 1e6,
      deadLetterBytesMax: 1e9,
      lineTopic: 'telegraf',
      spoolDir: '',
      spoolBytesMax: 0,
      spoolAfterMs: 1_000,
      ...limits,
    },
  })
  /** @type {Message[]} */
  const settled = []
  const origin = { settled: (/** @type {Message} */ message) => settled.push(message) }
  const session = new Sessions({ share: ingest.memory.shares.sessions }).enter(
    undefined,
    'c',
    true,
    { ...origin, close() {} },
    0,
  )
  /** @param {string} topic  @param {unknown} payload  @param {Partial<MessageParts>} [parts] */
  const accept = (topic, payload, parts = {}) => {
    const text = typeof payload === 'string' ? payload : JSON.stringify(payload)
    const message = new Message({
      origin,
      clientId: 'c',
      session,
      visit: session.visit,
      topic,
      qos: 1,
      dup: false,
      payload: Buffer.from(text),
      retain: false,
      packetId: settled.length + 1,
      receivedMs: Date.now(),
      arrivedMs: performance.now(),
      ...parts,
    })
    ingest.pipeline.accept(message)
    return message
  }
  /** @param {string} topic  @param {unknown} payload  @param {Partial<MessageParts>} [parts] */
  const settle = async (topic, payload, parts) => {
    const message = accept(topic, payload, parts)
    await until(() => message.isSettled)
    return message
  }
  return { ...ingest, storage, accept, settle, settled, session }
}
