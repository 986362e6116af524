/**
 * Messages on disk, for as long as the database is away: written in groups with one fsync each,
 * read back oldest first, removed file by file. Bounded in bytes.
 *
 * Appending and reading do not wait for each other. What is appended is durable when it is said to
 * be; what was read stays on disk until it is said to be done, and is read again after a crash.
 */

import { rename } from 'node:fs/promises'
import { setImmediate as turn } from 'node:timers/promises'
import { allocateBlock, sealBlock } from './block.js'
import { lockDirectory, readSegments, syncDirectory } from './directory.js'
import { recordBytes, writeRecord } from './record.js'
import { Segment } from './segment.js'

/** Size from which on a segment is not added to, in bytes; smaller where the cap is small. */
const SEGMENT_BYTES = 16 * 2 ** 20
const SEGMENTS_OF_CAP = 8

/** Size of a block from which on no further message is put into it, in bytes. */
const BLOCK_BYTES = 2 ** 20

/** How long nothing is appended after an attempt failed, in milliseconds. */
const PAUSE_MS = 1_000

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('./block.js').Block} Block */

/**
 * @typedef {object} Taken  A block that was read.
 * @property {Segment} segment
 * @property {Block} block
 * @property {Buffer | undefined} payload  Nothing if it is damaged.
 */

/**
 * @typedef {object} Outcome
 * @property {(messages: Message[]) => void} durable
 * @property {(messages: Message[]) => void} failed  They are not in the spool.
 */

export class Spool {
  /** @private @type {Segment[]} Oldest first. */
  segments = []
  /** The segment that is added to. @private @type {Segment | undefined} */
  active
  /** @private @type {Message[]} */
  queue = []
  /** @private */
  queueBytes = 0
  /** @private */
  isAppending = false
  /** @private */
  pausedUntilMs = Number.NEGATIVE_INFINITY
  /** @private @type {(() => void) | undefined} */
  wakeReader
  /** @private */
  isClosed = false
  /** @private @type {import('node:fs/promises').FileHandle | undefined} */
  lock
  /** @private */
  nextNumber = 0

  /** On disk, in bytes. */
  bytes = 0
  /** Appends that failed. */
  failures = 0
  /** Segments of which a part cannot be read. */
  damaged = 0

  /**
   * @param {object} parts
   * @param {string} parts.directory
   * @param {number} parts.bytesMax
   * @param {import('pino').Logger} parts.logger
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   */
  constructor({ directory, bytesMax, logger, now = () => performance.now() }) {
    this.directory = directory
    this.bytesMax = bytesMax
    /** The pipeline sets it. @type {Outcome} */
    this.outcome = { durable: () => {}, failed: () => {} }
    /** @private */
    this.logger = logger
    /** @private */
    this.now = now
    /** @private */
    this.segmentBytes = Math.min(SEGMENT_BYTES, bytesMax / SEGMENTS_OF_CAP)
  }

  /**
   * Takes the directory and finds what an earlier run left there.
   *
   * @returns {Promise<number>}  Messages that were found.
   */
  async open() {
    this.lock = await lockDirectory(this.directory)
    let messages = 0
    for await (const { segment, isDamaged } of readSegments(this.directory)) {
      this.segments.push(segment)
      this.bytes += segment.bytes
      this.nextNumber = segment.number + 1
      if (isDamaged) this.noteDamage(segment)
      for (const block of segment.blocks) messages += block.messages
    }
    for (const segment of [...this.segments]) if (segment.isDone) await this.drop(segment)
    if (messages > 0) {
      this.logger.info({ messages, bytes: this.bytes }, 'the spool holds what was not stored yet')
    }
    return messages
  }

  /** When the oldest message in it was received, milliseconds since the Unix epoch. */
  get oldestMs() {
    return this.segments.find(({ isDone }) => !isDone)?.oldestMs
  }

  /** Whether a message can be added. @param {Message} message */
  hasRoom(message) {
    const bytes = this.bytes + this.queueBytes + recordBytes(message)
    return bytes <= this.bytesMax && !this.isClosed && this.now() >= this.pausedUntilMs
  }

  /** Adds a message; the outcome hears of it. @param {Message} message */
  add(message) {
    this.queue.push(message)
    this.queueBytes += recordBytes(message)
    if (!this.isAppending) void this.appendAll()
  }

  /** @private */
  async appendAll() {
    this.isAppending = true
    // What arrives in one turn goes together.
    await turn()
    while (this.queue.length > 0) {
      const messages = this.takeQueue()
      try {
        await this.append(messages)
        this.outcome.durable(messages)
      } catch (error) {
        await this.giveUp(/** @type {Error} */ (error), messages)
      }
      for (const message of messages) this.queueBytes -= recordBytes(message)
    }
    this.isAppending = false
    await this.tidy()
  }

  /** As many as go into one block. @private */
  takeQueue() {
    let bytes = 0
    let count = 0
    while (count < this.queue.length && bytes < BLOCK_BYTES) {
      bytes += recordBytes(this.queue[count])
      count++
    }
    return this.queue.splice(0, count)
  }

  /** @private @param {Message[]} messages */
  async append(messages) {
    let payloadBytes = 0
    for (const message of messages) payloadBytes += recordBytes(message)
    const { block, payload } = allocateBlock(payloadBytes)
    let at = 0
    for (const message of messages) at = writeRecord(payload, at, message)
    const segment = await this.activeSegment()
    const about = { messages: messages.length, firstReceivedMs: messages[0].receivedMs }
    sealBlock(block, payloadBytes, { segment: segment.number, offset: segment.bytes, ...about })
    await segment.append(block, about)
    this.bytes += block.length
    this.wakeReader?.()
  }

  /** @private */
  async activeSegment() {
    if (this.active && this.active.bytes < this.segmentBytes) return this.active
    const segment = new Segment(this.directory, this.nextNumber++)
    await segment.create()
    await syncDirectory(this.directory)
    this.segments.push(segment)
    this.active = segment
    return segment
  }

  /**
   * Nothing can be appended now. What a write left behind the last whole block of the segment is
   * not known, so it is not added to again.
   *
   * @private
   * @param {Error} error
   * @param {Message[]} messages
   */
  async giveUp(error, messages) {
    this.failures++
    this.pausedUntilMs = this.now() + PAUSE_MS
    this.active = undefined
    this.logger.error(
      { reason: error.message, directory: this.directory, retryMs: PAUSE_MS },
      'the spool cannot be written: messages are held meanwhile',
    )
    const rest = this.queue.splice(0)
    for (const message of rest) this.queueBytes -= recordBytes(message)
    this.outcome.failed([...messages, ...rest])
  }

  /**
   * The oldest block that was not read yet; waits for one.
   *
   * @returns {Promise<Taken | undefined>}  Nothing when the spool is closed.
   */
  async next() {
    for (;;) {
      if (this.isClosed) return undefined
      const segment = this.segments.find(({ read, blocks }) => read < blocks.length)
      if (segment) {
        const taken = { segment, ...(await segment.readNext()) }
        if (this.isClosed) return undefined
        if (!taken.payload) this.noteDamage(segment)
        return taken
      }
      await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
        this.wakeReader = resolve
      })
    }
  }

  /** All messages of a block are durable in the database. @param {Taken} taken */
  async finish({ segment }) {
    segment.done++
    await this.tidy()
  }

  /** Removes the segments of which nothing is needed. @private */
  async tidy() {
    if (this.isClosed) return
    for (const segment of [...this.segments]) {
      const isAddedTo = segment === this.active && (this.isAppending || this.queue.length > 0)
      if (segment.isDone && !isAddedTo) await this.drop(segment)
    }
  }

  /** @private @param {Segment} segment */
  async drop(segment) {
    if (!this.segments.includes(segment)) return
    this.segments = this.segments.filter((other) => other !== segment)
    if (segment === this.active) this.active = undefined
    this.bytes -= segment.bytes
    try {
      if (segment.isDamaged) await this.setAside(segment)
      else await segment.remove()
    } catch (error) {
      const { message } = /** @type {Error} */ (error)
      this.logger.error({ reason: message, file: segment.path }, 'a file cannot be removed')
    }
  }

  /** @private @param {Segment} segment */
  async setAside(segment) {
    await segment.close()
    await rename(segment.path, `${segment.path}.damaged`)
  }

  /** @private @param {Segment} segment */
  noteDamage(segment) {
    if (segment.isDamaged) return
    segment.isDamaged = true
    this.damaged++
    this.logger.error(
      { file: segment.path },
      'a part of the spool cannot be read: the rest is stored, and the file kept as .damaged',
    )
  }

  /** Ends reading; what is being appended is finished first. */
  async close() {
    while (this.isAppending) await turn()
    this.isClosed = true
    this.wakeReader?.()
    for (const segment of this.segments) await segment.close()
    await this.lock?.close()
  }
}
