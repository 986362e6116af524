/**
 * The segments of an open spool and its HEAD: added to at the end, removed from the start. HEAD
 * is synced first: a file that is missing before HEAD says so would be taken for lost.
 */

import { setAside } from './directory.js'
import { newScan } from './scan.js'
import { Segment, segmentPath } from './segment.js'

/** @typedef {(error: Error, what: string) => void} OnFailure */

export class Segments {
  #disk
  #directory
  #head
  #nextNumber
  #segmentBytes
  /** @type {OnFailure} */
  #onFailure
  /** Oldest first. @type {Segment[]} */
  #list
  /** The segment that is added to. @type {Segment | undefined} */
  #active

  /** Of all files, in bytes. */
  bytes = 0

  /**
   * @param {object} parts
   * @param {import('./disk.js').Disk} parts.disk
   * @param {string} parts.directory
   * @param {import('./directory.js').Opened} parts.opened
   * @param {number} parts.segmentBytes  From this size on a segment is not added to.
   * @param {OnFailure} parts.onFailure
   */
  constructor({ disk, directory, opened, segmentBytes, onFailure }) {
    this.#disk = disk
    this.#directory = directory
    this.#head = opened.head
    this.#list = opened.segments
    this.#nextNumber = opened.nextNumber
    this.#segmentBytes = segmentBytes
    this.#onFailure = onFailure
    for (const { bytes } of this.#list) this.bytes += bytes
  }

  /** When the oldest message that is needed was received, milliseconds since the Unix epoch. */
  get oldestMs() {
    return this.#list.find(({ isDone }) => !isDone)?.oldestMs
  }

  /** Those of which a block was not read. */
  get unread() {
    return this.#list.filter(({ isRead }) => !isRead)
  }

  /**
   * Writes a block. It is durable when this resolves.
   *
   * @param {Buffer[]} records
   * @param {number} firstReceivedMs
   */
  async append(records, firstReceivedMs) {
    const { state } = this.#head
    const segment = await this.#activeSegment(state.endPosition)
    const before = segment.bytes
    try {
      await segment.append(records, { position: state.endPosition, firstReceivedMs })
    } finally {
      this.bytes += segment.bytes - before
    }
    state.endPosition += records.length
    state.lastSegment = segment.number
    state.lastPosition = segment.startPosition
    // The block is durable whether or not this succeeds; it only helps to count what gets lost.
    await this.#head.write().catch((error) => this.#onFailure(error, 'HEAD cannot be written'))
  }

  /** @param {number} position  Of the next message. */
  async #activeSegment(position) {
    if (this.#active && this.#active.bytes < this.#segmentBytes) return this.#active
    const number = this.#nextNumber++
    const path = segmentPath(this.#directory, number)
    const found = { scan: newScan(number, 0), startPosition: position, lost: 0, isDamaged: false }
    const segment = new Segment(this.#disk, path, this.#head.state.id, found)
    // In the list from now on: HEAD must not say that what has this number is not needed.
    this.#list.push(segment)
    this.#active = segment
    await segment.create()
    await this.#disk.syncDirectory(this.#directory)
    return segment
  }

  /**
   * An attempt to append failed. What it left behind the last whole block is not known, so the
   * segment is not added to again. One in which nothing became durable is removed at once: on a
   * full disk there is one with each attempt.
   */
  async abandonActive() {
    const segment = this.#active
    this.#active = undefined
    if (!segment) return
    // If this fails, too: a later segment tells what of it counts, for as long as that is there.
    await segment.cut().catch((error) => this.#onFailure(error, 'a block cannot be taken back'))
    if (!segment.isEmpty) return
    this.#list = this.#list.filter((other) => other !== segment)
    this.bytes -= segment.bytes
    await this.#remove(segment)
  }

  /** A segment was read. @param {Segment} segment */
  async closeRead(segment) {
    if (!segment.isRead || segment === this.#active) return
    await segment.close().catch((error) => this.#onFailure(error, 'a file cannot be closed'))
  }

  /**
   * A block of a segment proved to be damaged.
   *
   * @param {Segment} segment
   * @param {number} messages
   */
  async lose(segment, messages) {
    segment.isDamaged = true
    segment.lost += messages
    this.#head.state.lost += messages
    // Else they are counted once more after a crash.
    await this.#head.sync().catch((error) => this.#onFailure(error, 'HEAD cannot be written'))
  }

  /**
   * Removes the segments at the start of which nothing is needed.
   *
   * @param {boolean} isAddedTo  Whether the newest is about to be added to.
   */
  async removeDone(isAddedTo) {
    const count = this.#list.findIndex((segment) => {
      return !segment.isDone || (segment === this.#active && isAddedTo)
    })
    const done = count < 0 ? [...this.#list] : this.#list.slice(0, count)
    if (done.length === 0) return
    if (this.#active && done.includes(this.#active)) this.#active = undefined
    const bytes = done.reduce((sum, segment) => sum + segment.bytes, 0)
    this.bytes -= bytes
    try {
      for (const segment of done) {
        if (segment.isDamaged) await setAside(this.#disk, this.#directory, segment)
      }
      await this.#moveStart(done)
    } catch (error) {
      this.bytes += bytes
      throw error
    }
    this.#list = this.#list.filter((segment) => !done.includes(segment))
    for (const segment of done) {
      if (segment.isDamaged) await segment.close()
      else await this.#remove(segment)
    }
  }

  /** HEAD says that these are not needed. @param {Segment[]} done */
  async #moveStart(done) {
    const rest = this.#list.filter((segment) => !done.includes(segment))
    const { state } = this.#head
    state.startSegment = rest[0]?.number ?? this.#nextNumber
    state.startPosition = rest[0]?.startPosition ?? state.endPosition
    state.lost = rest.reduce((sum, { lost }) => sum + lost, 0)
    await this.#head.sync()
  }

  /** What remains is removed by the next start. @param {Segment} segment */
  async #remove(segment) {
    try {
      await segment.close()
      await this.#disk.remove(segment.path)
    } catch (error) {
      const { code } = /** @type {NodeJS.ErrnoException} */ (error)
      if (code === 'ENOENT') return
      this.#onFailure(/** @type {Error} */ (error), 'a file of the spool cannot be removed')
    }
  }

  async close() {
    for (const segment of this.#list) await segment.close()
    await this.#head.sync().catch((error) => this.#onFailure(error, 'HEAD cannot be written'))
    await this.#head.close()
  }
}
