/**
 * The file HEAD of a spool: between which two positions messages are in it. The position of a
 * message is how many were put into the spool before it. What is between the two and cannot be read
 * was lost.
 *
 * It is written after each block, but made durable only before a file is removed: a process that
 * dies leaves it exact, a power cut may leave an older one, whose end is too early, never too late.
 */

import { createHash } from 'node:crypto'

/** "SGH2". */
const MAGIC = 0x32484753
const BYTES = 104
const DIGEST_AT = 88

/** What a slot says after the id, in this order. */
const NUMBERS = /** @type {const} */ ([
  'startSegment',
  'startPosition',
  'endPosition',
  'lastSegment',
  'lastPosition',
  'lost',
  'format2From',
])

/** The file has two slots, in different pages: one is durable while the other is written. */
const SLOT_BYTES = 4_096

/**
 * @typedef {object} HeadState
 * @property {string} id  Of the spool: 32 hexadecimal digits.
 * @property {number} startSegment  Those before it are needed no more.
 * @property {number} startPosition  Of the first message that is still needed.
 * @property {number} endPosition  After the last message that was made durable.
 * @property {number} lastSegment  That was added to last.
 * @property {number} lastPosition  Of its first message. Older segments have nothing from there.
 * @property {number} lost  Messages between those two that were counted as lost already.
 * @property {number} format2From  Segments before it are of version 1.
 */

/** @param {HeadState} state  @param {number} generation */
function encode(state, generation) {
  const bytes = Buffer.alloc(BYTES)
  bytes.writeUInt32LE(MAGIC, 0)
  bytes.writeDoubleLE(generation, 8)
  bytes.write(state.id, 16, 'hex')
  for (const [index, name] of NUMBERS.entries()) bytes.writeDoubleLE(state[name], 32 + 8 * index)
  digest(bytes).copy(bytes, DIGEST_AT)
  return bytes
}

/** @param {Buffer} bytes */
function decode(bytes) {
  if (bytes.length < BYTES || bytes.readUInt32LE(0) !== MAGIC) return undefined
  if (!digest(bytes).equals(bytes.subarray(DIGEST_AT, BYTES))) return undefined
  return {
    generation: bytes.readDoubleLE(8),
    state: /** @type {HeadState} */ ({
      id: bytes.toString('hex', 16, 32),
      ...Object.fromEntries(
        NUMBERS.map((name, index) => [name, bytes.readDoubleLE(32 + 8 * index)]),
      ),
    }),
  }
}

/** @param {Buffer} bytes */
function digest(bytes) {
  const hash = createHash('sha256').update(bytes.subarray(0, DIGEST_AT))
  return hash.digest().subarray(0, BYTES - DIGEST_AT)
}

/**
 * What the newer of the two slots says.
 *
 * @param {Buffer} file
 * @returns {{ state: HeadState, generation: number, slot: number } | undefined}  Nothing if neither
 *   is whole.
 */
export function readHead(file) {
  const slots = [0, 1].flatMap((slot) => {
    const found = decode(file.subarray(slot * SLOT_BYTES, slot * SLOT_BYTES + BYTES))
    return found ? [{ ...found, slot }] : []
  })
  return slots.sort((a, b) => b.generation - a.generation)[0]
}

export class Head {
  #file
  #generation
  #durableSlot
  /** The last write. @type {Promise<void>} */
  #written = Promise.resolve()

  /**
   * @param {import('./disk.js').SpoolFile} file
   * @param {HeadState} state
   * @param {{ generation: number, slot: number }} [found]  What the file says.
   */
  constructor(file, state, found) {
    this.#file = file
    this.state = state
    this.#generation = found?.generation ?? 0
    this.#durableSlot = found?.slot ?? 1
  }

  /** Writes the state. A crash of this process alone does not lose it. */
  write() {
    return this.#next(async () => this.#put())
  }

  /** Writes the state, and makes it durable. */
  sync() {
    return this.#next(async () => {
      await this.#put()
      await this.#file.datasync()
      this.#durableSlot = 1 - this.#durableSlot
    })
  }

  async close() {
    await this.#written
    await this.#file.close()
  }

  async #put() {
    this.#generation++
    const bytes = encode(this.state, this.#generation)
    await this.#file.write(bytes, (1 - this.#durableSlot) * SLOT_BYTES)
  }

  /** One write after the other. @param {() => Promise<void>} write */
  #next(write) {
    const done = this.#written.then(write)
    this.#written = done.catch(() => {})
    return done
  }
}
