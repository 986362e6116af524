/**
 * A part of the memory that clients may make a process hold. What is taken is given back by
 * whoever took it.
 */

export class MemoryShare {
  /** What is taken, in bytes. */
  bytes = 0
  /** How often there was no room. */
  refused = 0

  /** @param {number} bytesMax */
  constructor(bytesMax) {
    this.bytesMax = bytesMax
  }

  get isFull() {
    return this.bytes >= this.bytesMax
  }

  /** @param {number} bytes  @returns {boolean}  False if there is no room: nothing is taken. */
  take(bytes) {
    if (this.bytes + bytes > this.bytesMax) {
      this.refused++
      return false
    }
    this.bytes += bytes
    return true
  }

  /** Counts what is held already, though it may be more than the share. @param {number} bytes */
  add(bytes) {
    this.bytes += bytes
  }

  /** @param {number} bytes  That were taken or added. */
  give(bytes) {
    this.bytes -= bytes
  }
}
