/** One file of the spool: blocks one after another, written once, read once, and removed. */

import { open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { openBlock } from './block.js'

/** @typedef {import('./block.js').Block} Block */
/** @typedef {import('node:fs/promises').FileHandle} FileHandle */

const NAME = /^spool-(\d{10})$/

/** @param {string} name  @returns {number | undefined}  Nothing if it is no segment's. */
export function segmentNumber(name) {
  const match = NAME.exec(name)
  return match ? Number(match[1]) : undefined
}

export class Segment {
  /** @private @type {FileHandle | undefined} */
  handle

  /** @param {string} directory  @param {number} number */
  constructor(directory, number) {
    this.number = number
    this.path = join(directory, `spool-${String(number).padStart(10, '0')}`)
    /** Durable bytes. */
    this.bytes = 0
    /** @type {Block[]} */
    this.blocks = []
    /** Blocks that were read. */
    this.read = 0
    /** Blocks all of whose messages are durable in the database. */
    this.done = 0
    /** Whether something in it was acknowledged and cannot be read. */
    this.isDamaged = false
  }

  get isDone() {
    return this.done === this.blocks.length
  }

  /** About when its oldest message that is still needed was received. */
  get oldestMs() {
    return this.blocks[this.done]?.firstReceivedMs
  }

  /** Creates the file; whoever does so syncs the directory. */
  async create() {
    this.handle = await open(this.path, 'wx+', 0o600)
  }

  /**
   * Writes a block at the end; it is durable when this resolves.
   *
   * @param {Buffer} bytes
   * @param {{ messages: number, firstReceivedMs: number }} about
   */
  async append(bytes, about) {
    const handle = /** @type {FileHandle} */ (this.handle)
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await handle.write(bytes, at, bytes.length - at, this.bytes + at)
      at += bytesWritten
    }
    await handle.datasync()
    this.blocks.push({ offset: this.bytes, bytes: bytes.length, ...about })
    this.bytes += bytes.length
  }

  /**
   * The next block that was not read, and its payload; no payload if it cannot be read.
   *
   * @returns {Promise<{ block: Block, payload: Buffer | undefined }>}
   */
  async readNext() {
    const block = this.blocks[this.read++]
    const bytes = Buffer.alloc(block.bytes)
    try {
      this.handle ??= await open(this.path, 'r')
      await this.handle.read(bytes, 0, block.bytes, block.offset)
    } catch {
      return { block, payload: undefined }
    }
    return { block, payload: openBlock(bytes, this.number, block.offset) }
  }

  async close() {
    await this.handle?.close()
    this.handle = undefined
  }

  /** Closes and removes the file. */
  async remove() {
    await this.close()
    await unlink(this.path)
  }
}
