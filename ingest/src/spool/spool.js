/**
 * Messages on disk, for as long as the database is away: written in groups with one sync each, read
 * back oldest first, removed file by file. Bounded in bytes.
 *
 * Appending and reading do not wait for each other. What is appended is durable when it is said to
 * be; what was read stays on disk until it is said to be done, and is read again after a crash.
 */

import { setImmediate as turn } from 'node:timers/promises'
import { openDirectory } from './directory.js'
import { realDisk } from './disk.js'
import { recordBytes, writeRecord } from './record.js'
import { Segments } from './segments.js'

/** Size from which on a segment is not added to, in bytes; smaller where the cap is small. */
const SEGMENT_BYTES = 16 * 2 ** 20
const SEGMENTS_OF_CAP = 8

/** Size of a block from which on no further message is put into it, in bytes. */
const BLOCK_BYTES = 2 ** 20

/** How long is waited after an attempt to write, to read or to remove failed, in milliseconds. */
const PAUSE_MS = 1_000

/** How often a file is read in vain when the spool is opened. */
const OPEN_READS_MAX = 10

/** How often it is logged that files cannot be read, in milliseconds. */
const LOG_EVERY_MS = 10_000

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('./segment.js').Segment} Segment */

/**
 * @typedef {object} Block  What was read.
 * @property {number} messages
 * @property {1 | 2} version
 * @property {Buffer | undefined} payload  Nothing if it is damaged.
 * @property {number | undefined} firstReceivedMs
 */

/**
 * @typedef {object} Taken
 * @property {Segment} segment
 * @property {1 | 2} version
 * @property {number} messages
 * @property {Buffer} payload
 * @property {number | undefined} firstReceivedMs
 */

/**
 * @typedef {object} Outcome
 * @property {(messages: Message[]) => void} durable
 * @property {(messages: Message[]) => void} failed  They are not in the spool.
 * @property {(messages: number) => void} lost  So many were durable, and cannot be read any more.
 */

/**
 * @typedef {object} Clock
 * @property {() => number} now  Only goes forward, in milliseconds.
 * @property {(ms: number, call: () => void) => () => void} after  Gives what cancels it.
 */

/** @type {Clock} */
const realClock = {
  now: () => performance.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms)
    return () => clearTimeout(timer)
  },
}

export class Spool {
  #disk
  #clock
  #logger
  /** @type {Segments | undefined} */
  #opened
  /** @type {{ close: () => Promise<void> } | undefined} */
  #lock
  /** @type {Message[]} */
  #queue = []
  #queueBytes = 0
  /** Messages of which no record can be made. @type {WeakSet<Message>} */
  #unfit = new WeakSet()
  #isAppending = false
  #appended = Promise.resolve()
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  /** The last removal of files. @type {Promise<void>} */
  #tidied = Promise.resolve()
  #isTidyDue = false
  #loggedMs = Number.NEGATIVE_INFINITY
  /** @type {(() => void) | undefined} */
  #wakeReader
  #isClosed = false

  /** Attempts to write or to remove that failed. */
  failures = 0
  /** Attempts to read that failed. */
  readFailures = 0
  /** Files that are damaged, cut or missing. */
  damaged = 0

  /**
   * @param {object} parts
   * @param {string} parts.directory
   * @param {number} parts.bytesMax
   * @param {import('pino').Logger} parts.logger
   * @param {import('./disk.js').Disk} [parts.disk]
   * @param {Clock} [parts.clock]
   */
  constructor({ directory, bytesMax, logger, disk = realDisk, clock = realClock }) {
    this.directory = directory
    this.bytesMax = bytesMax
    /** The pipeline sets it. @type {Outcome} */
    this.outcome = { durable: () => {}, failed: () => {}, lost: () => {} }
    this.#logger = logger
    this.#disk = disk
    this.#clock = clock
  }

  /**
   * Takes the directory and finds what an earlier run left there.
   *
   * @returns {Promise<{ messages: number, lost: number }>}  Messages that were left, and how many
   *   of these are missing.
   */
  async open() {
    const { directory } = this
    const opened = await openDirectory({
      disk: this.#disk,
      directory,
      logger: this.#logger,
      patiently: (path, read) => this.#patiently(path, read),
    })
    this.#lock = opened.lock
    this.#opened = new Segments({
      disk: this.#disk,
      directory,
      opened,
      segmentBytes: Math.min(SEGMENT_BYTES, this.bytesMax / SEGMENTS_OF_CAP),
      onFailure: (error, what) => this.#noteFailure(error, what),
    })
    this.damaged += opened.damaged
    await this.#tidy()
    const { messages, lost } = opened
    if (messages > 0) {
      this.#logger.info({ messages, bytes: this.bytes }, 'the spool holds what was not stored yet')
    }
    return { messages, lost }
  }

  get #segments() {
    if (!this.#opened) throw new Error('the spool is not open')
    return this.#opened
  }

  /** On disk, in bytes. */
  get bytes() {
    return this.#opened?.bytes ?? 0
  }

  /** When the oldest message in it was received, milliseconds since the Unix epoch. */
  get oldestMs() {
    return this.#opened?.oldestMs
  }

  /** Whether a message can be added. @param {Message} message */
  hasRoom(message) {
    if (this.#isClosed || this.#clock.now() < this.#pausedUntilMs) return false
    const bytes = this.bytes + this.#queueBytes + recordBytes(message)
    return bytes <= this.bytesMax && !this.#unfit.has(message)
  }

  /** Adds a message; the outcome hears of it. @param {Message} message */
  add(message) {
    this.#queue.push(message)
    this.#queueBytes += recordBytes(message)
    if (!this.#isAppending) this.#appended = this.#appendAll()
  }

  async #appendAll() {
    this.#isAppending = true
    // What arrives in one turn goes together.
    await turn()
    while (this.#queue.length > 0) {
      const messages = this.#takeQueue()
      const { fit, records } = this.#recordsOf(messages)
      try {
        if (fit.length > 0) await this.#segments.append(records, fit[0].receivedMs)
        this.outcome.durable(fit)
        this.#wakeReader?.()
      } catch (error) {
        await this.#giveUp(/** @type {Error} */ (error), fit)
      }
      for (const message of messages) this.#queueBytes -= recordBytes(message)
    }
    this.#isAppending = false
    await this.#tidy()
  }

  /** As many as go into one block. */
  #takeQueue() {
    let bytes = 0
    let count = 0
    while (count < this.#queue.length && bytes < BLOCK_BYTES) {
      bytes += recordBytes(this.#queue[count])
      count++
    }
    return this.#queue.splice(0, count)
  }

  /** One that has no record fails by itself: the others of its group are written. */
  /** @param {Message[]} messages */
  #recordsOf(messages) {
    const fit = []
    const records = []
    for (const message of messages) {
      try {
        records.push(writeRecord(message))
        fit.push(message)
      } catch (error) {
        const { message: reason } = /** @type {Error} */ (error)
        const { clientId, topic } = message
        this.#unfit.add(message)
        this.failures++
        this.#logger.error({ reason, clientId, topic }, 'a message does not fit into the spool')
        this.outcome.failed([message])
      }
    }
    return { fit, records }
  }

  /** Nothing can be appended now. @param {Error} error  @param {Message[]} messages */
  async #giveUp(error, messages) {
    this.#pausedUntilMs = this.#clock.now() + PAUSE_MS
    this.#noteFailure(error, 'the spool cannot be written: messages are held meanwhile')
    await this.#segments.abandonActive()
    const rest = this.#queue.splice(0)
    for (const message of rest) this.#queueBytes -= recordBytes(message)
    this.outcome.failed([...messages, ...rest])
  }

  /**
   * The oldest block that was not read yet; waits for one.
   *
   * @returns {Promise<Taken | undefined>}  Nothing when the spool is closed.
   */
  async next() {
    while (!this.#isClosed) {
      const nowMs = this.#clock.now()
      const { unread } = this.#segments
      const segment = unread.find(({ retryAtMs }) => retryAtMs <= nowMs)
      if (!segment) {
        await this.#readable(Math.min(...unread.map(({ retryAtMs }) => retryAtMs)) - nowMs)
        continue
      }
      const block = await this.#read(segment)
      if (this.#isClosed || !block) continue
      await this.#segments.closeRead(segment)
      const { payload, messages } = block
      if (payload) return { ...block, payload, segment }
      await this.#lose(segment, messages)
    }
    return undefined
  }

  /** Resolves when there may be something to read. @param {number} ms  After this at the latest. */
  async #readable(ms) {
    await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      const cancel = Number.isFinite(ms) ? this.#clock.after(ms, () => resolve()) : undefined
      this.#wakeReader = () => {
        cancel?.()
        resolve()
      }
    })
    this.#wakeReader = undefined
  }

  /**
   * Damaged is only what was read and is wrong. What cannot be read now is kept and read again.
   *
   * @param {Segment} segment
   */
  async #read(segment) {
    try {
      return await segment.readNext()
    } catch (error) {
      segment.retryAtMs = this.#clock.now() + PAUSE_MS
      if (!this.#isClosed) this.#noteReadFailure(segment.path, /** @type {Error} */ (error))
      return undefined
    }
  }

  /** @param {Segment} segment  @param {number} lost  Messages of a block of it. */
  async #lose(segment, lost) {
    if (!segment.isDamaged) this.damaged++
    await this.#segments.lose(segment, lost)
    this.#logger.error(
      { file: segment.path, lost },
      'a block of the spool is damaged: the rest is stored, and the file is kept as .damaged',
    )
    this.outcome.lost(lost)
    segment.outstanding--
    await this.#tidy()
  }

  /** All messages of a block are durable in the database. @param {Taken} taken */
  async finish({ segment, firstReceivedMs }) {
    segment.outstanding--
    segment.oldestMs = firstReceivedMs ?? segment.oldestMs
    await this.#tidy()
  }

  /** Removes what is not needed; one attempt at a time, and one more if something changed. */
  #tidy() {
    if (!this.#isTidyDue) {
      this.#isTidyDue = true
      this.#tidied = this.#tidied.then(() => this.#removeDone())
    }
    return this.#tidied
  }

  async #removeDone() {
    this.#isTidyDue = false
    if (this.#isClosed) return
    try {
      await this.#segments.removeDone(this.#isAppending || this.#queue.length > 0)
    } catch (error) {
      this.#noteFailure(/** @type {Error} */ (error), 'files of the spool cannot be removed')
      this.#clock.after(PAUSE_MS, () => void this.#tidy())
    }
  }

  /** @param {Error} error  @param {string} what */
  #noteFailure(error, what) {
    this.failures++
    const { directory } = this
    this.#logger.error({ reason: error.message, directory, retryMs: PAUSE_MS }, what)
  }

  /** @param {string} file  @param {Error} error */
  #noteReadFailure(file, error) {
    this.readFailures++
    const nowMs = this.#clock.now()
    if (nowMs < this.#loggedMs + LOG_EVERY_MS) return
    this.#loggedMs = nowMs
    this.#logger.error(
      { reason: error.message, file, retryMs: PAUSE_MS },
      'a file of the spool cannot be read now: it is kept, and read again',
    )
  }

  /**
   * Reads something when the spool is opened.
   *
   * @template Result
   * @param {string} path
   * @param {() => Promise<Result>} read
   */
  async #patiently(path, read) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await read()
      } catch (error) {
        this.#noteReadFailure(path, /** @type {Error} */ (error))
        if (attempt === OPEN_READS_MAX) {
          throw new Error(
            `${path} of the spool cannot be read: ${/** @type {Error} */ (error).message}. Nothing ` +
              'was removed. Mend the disk, or move that file away: what is in it counts as lost then',
          )
        }
      }
      await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
        this.#clock.after(PAUSE_MS, () => resolve())
      })
    }
  }

  /** Ends reading; what is being appended is finished first. */
  async close() {
    while (this.#isAppending) await this.#appended
    this.#isClosed = true
    this.#wakeReader?.()
    await this.#tidied
    await this.#opened?.close()
    await this.#lock?.close()
  }
}
