/** One file of the spool: blocks one after another, written once, read once, and removed. */

import { join } from 'node:path'
import { makeBlock, readHeader, readPayload } from './block.js'
import { openBlock1 } from './format-1.js'

/** @typedef {import('./disk.js').Disk} Disk */
/** @typedef {import('./disk.js').SpoolFile} SpoolFile */

const NAME = /^spool-(\d{10})(\.damaged(?:-(\d+))?)?$/

/**
 * @param {string} name  Of a file.
 * @returns {{ number: number, isSetAside: boolean, copy: number } | undefined}  Nothing if it is no
 *   segment's.
 */
export function segmentName(name) {
  const match = NAME.exec(name)
  if (!match) return undefined
  return {
    number: Number(match[1]),
    isSetAside: match[2] !== undefined,
    copy: Number(match[3] ?? 1),
  }
}

/** @param {string} directory  @param {number} number */
export function segmentPath(directory, number) {
  return join(directory, `spool-${String(number).padStart(10, '0')}`)
}

export class Segment {
  #disk
  #spoolId
  #version
  /** @type {SpoolFile | undefined} */
  #file
  /** Of the blocks. @type {number[]} */
  #offsets
  /** Their messages. @type {number[]} */
  #counts
  /** Where the blocks end. */
  #blocksEnd
  /** The next block to be read. */
  #next = 0
  /** Blocks whose reading failed. @type {number[]} */
  #again = []

  /** Blocks that were read, and whose messages are not all durable in the database. */
  outstanding = 0
  /** Nothing is read before this time. */
  retryAtMs = Number.NEGATIVE_INFINITY

  /**
   * @param {Disk} disk
   * @param {string} path
   * @param {string} spoolId
   * @param {import('./survey.js').Found} found
   */
  constructor(disk, path, spoolId, { scan, startPosition, lost, isDamaged }) {
    this.#disk = disk
    this.path = path
    this.#spoolId = spoolId
    this.#version = scan.version
    this.#offsets = scan.offsets
    this.#counts = scan.counts
    this.#blocksEnd = scan.blocksEnd
    this.number = scan.number
    /** Of its first message. */
    this.startPosition = startPosition
    /** Messages in it that were counted as lost. */
    this.lost = lost
    this.isDamaged = isDamaged
    /** Of the file. */
    this.bytes = scan.bytes
    /** About when its oldest message that is still needed was received. */
    this.oldestMs = scan.oldestMs
  }

  /** Whether nothing in it was ever made durable. */
  get isEmpty() {
    return this.#offsets.length === 0
  }

  get isRead() {
    return this.#next === this.#offsets.length && this.#again.length === 0
  }

  get isDone() {
    return this.isRead && this.outstanding === 0
  }

  /** Creates the file; whoever does so syncs the directory. */
  async create() {
    this.#file = await this.#disk.open(this.path, 'create')
  }

  /**
   * Writes a block at the end; it is durable when this resolves. After a failure nothing more may
   * be written: what is behind the last durable block is not known.
   *
   * @param {Buffer[]} records
   * @param {{ position: number, firstReceivedMs: number }} about
   */
  async append(records, { position, firstReceivedMs }) {
    const offset = this.#blocksEnd
    const place = { spoolId: this.#spoolId, segment: this.number, offset }
    const about = { position, segmentPosition: this.startPosition, firstReceivedMs }
    const block = makeBlock(records, place, about)
    const file = /** @type {SpoolFile} */ (this.#file)
    this.bytes += block.length
    await file.write(block, offset)
    await file.datasync()
    this.#blocksEnd += block.length
    this.#offsets.push(offset)
    this.#counts.push(records.length)
    this.oldestMs ??= firstReceivedMs
  }

  /** Cuts off what an append that failed left, which nobody was promised. */
  async cut() {
    if (!this.#file && this.isEmpty && this.bytes === 0) return
    this.#file ??= await this.#disk.open(this.path, 'update')
    await this.#file.truncate(this.#blocksEnd)
    await this.#file.datasync()
  }

  /**
   * The next block that was not read.
   *
   * @returns {Promise<import('./spool.js').Block>}
   * @throws {Error}  If the file cannot be read now. The block is kept, and read again after the
   *   others.
   */
  async readNext() {
    const isFirst = this.#next < this.#offsets.length
    const index = isFirst ? this.#next++ : /** @type {number} */ (this.#again.shift())
    // From now on it is needed: while it is being read the file must not seem to be done with.
    this.outstanding++
    const offset = this.#offsets[index]
    const end = this.#offsets[index + 1] ?? this.#blocksEnd
    const bytes = Buffer.alloc(end - offset)
    let length = 0
    try {
      this.#file ??= await this.#disk.open(this.path, 'read')
      length = await this.#file.read(bytes, offset)
    } catch (error) {
      this.#again.push(index)
      this.outstanding--
      throw error
    }
    const messages = this.#counts[index]
    return {
      messages,
      version: this.#version,
      ...this.#openBlock(bytes.subarray(0, length), offset),
    }
  }

  /** @param {Buffer} bytes  @param {number} offset */
  #openBlock(bytes, offset) {
    const place = { spoolId: this.#spoolId, segment: this.number, offset }
    if (this.#version === 1) {
      const block = openBlock1(bytes, place)
      return { payload: block?.payload, firstReceivedMs: block?.firstReceivedMs }
    }
    const header = readHeader(bytes, place)
    if (!header) return { payload: undefined, firstReceivedMs: undefined }
    return { payload: readPayload(bytes, header), firstReceivedMs: header.firstReceivedMs }
  }

  async close() {
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }
}
