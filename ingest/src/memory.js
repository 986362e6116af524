/**
 * What clients can make this process hold in memory, in one budget. Each kind has a share of its
 * own, so that no kind of client starves another; together the shares are the whole.
 *
 * Bytes are real cost as far as it can be said: payloads and the objects that stand for them.
 */

import { MemoryShare } from '@sandglass/common/memory-share'

/** Size of the budget where nobody says otherwise, in bytes. */
export const MEMORY_BYTES_MAX = 512 * 2 ** 20

/**
 * What is held, and which part of the budget it may take.
 *
 * ```text
 * sensors    what is remembered of sensors, their series and their topics
 * edgeNodes  what births of Sparkplug B said
 * inFlight   messages of QoS 1 and 2, and items of HTTP bodies, that are not durable yet
 * qos0       messages of QoS 0 that are not durable yet
 * packets    MQTT packets that have not arrived whole
 * bodies     bodies of HTTP requests, while they arrive, are unpacked and taken apart
 * fanout     messages on their way to subscribers
 * outgoing   bytes that were written to MQTT clients and have not left
 * retained   retained messages
 * queues     messages for subscribers that are away
 * sessions   sessions and subscriptions, and what is remembered to recognise redeliveries
 * ```
 */
const SHARES = Object.freeze({
  sensors: 13 / 32,
  edgeNodes: 1 / 32,
  inFlight: 1 / 8,
  qos0: 1 / 32,
  packets: 1 / 16,
  bodies: 1 / 8,
  fanout: 1 / 32,
  outgoing: 1 / 32,
  retained: 3 / 64,
  queues: 3 / 64,
  sessions: 1 / 16,
})

/** @typedef {keyof typeof SHARES} ShareName */

export class MemoryBudget {
  /** @type {Readonly<Record<ShareName, MemoryShare>>} */
  shares

  /**
   * @param {number} [bytesMax]
   * @param {Partial<Record<ShareName, number | undefined>>} [own]  Shares that have a size of their
   *   own, in bytes.
   */
  constructor(bytesMax = MEMORY_BYTES_MAX, own = {}) {
    this.shares = /** @type {Record<ShareName, MemoryShare>} */ (
      Object.fromEntries(
        Object.entries(SHARES).map(([name, part]) => {
          const size = own[/** @type {ShareName} */ (name)] ?? Math.floor(bytesMax * part)
          return [name, new MemoryShare(size)]
        }),
      )
    )
  }
}
