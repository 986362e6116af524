/**
 * The decoders of people's own, as far as this process knows them: it asks the database each second
 * whether they have changed. What it knows is also in a file beside the spool, so that a process
 * that starts while the database is away knows what its topics mean. Where there is no such file,
 * what is no measurement otherwise waits: it could be one.
 */

import { join } from 'node:path'
import { followed } from '@sandglass/common/expressions/decoder'
import { readFileOf, writeFileOf } from './file.js'

/** How often the database is asked whether they have changed, in milliseconds. */
const POLL_MS = 1_000

/** Of the file, in the directory of the spool. */
export const FILE = 'DECODERS'

/** @typedef {import('@sandglass/common/expressions/decoder').Decoder} Decoder */
/** @typedef {import('@sandglass/common/expressions/decoder').DecoderSet} DecoderSet */
/** @typedef {import('@sandglass/common/expressions/decoder-store').Stored} Stored */
/** @typedef {Pick<import('@sandglass/common/expressions/decoder-store').DecoderStore,
 *   'read' | 'revision'>} Reader */

export class KnownDecoders {
  /** Questions that the database did not answer, and writes of the file that failed. */
  failures = 0
  /** Whether it is known what there is. */
  isKnown = true
  /** Why some are not followed, by name. @type {Map<string, string>} */
  refused = new Map()
  /** Called when they have changed. @type {((set: DecoderSet, revision: number) => void)[]} */
  onChange = []
  /** @type {Map<string, Decoder>} */
  #byName = new Map()
  #revision = -1
  /** What the file does not have yet. @type {Stored | undefined} */
  #unkept
  #isKeepingFailing = false
  /** Those who wait until it is known. @type {(() => void)[]} */
  #waiting = []
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  #isStopped = false
  #topics
  #lineTopic
  #path
  #disk
  #logger

  /**
   * @param {object} parts
   * @param {import('@sandglass/common/topics').Topics} parts.topics  Get their templates.
   * @param {string} parts.lineTopic
   * @param {string} [parts.directory]  Of the spool, if there is one.
   * @param {import('../spool/disk.js').Disk} [parts.disk]
   * @param {import('pino').Logger} parts.logger
   */
  constructor({ topics, lineTopic, directory, disk, logger }) {
    this.#topics = topics
    this.#lineTopic = lineTopic
    this.#path = directory === undefined ? undefined : join(directory, FILE)
    this.#disk = disk
    this.#logger = logger
  }

  /** How many there are. */
  get size() {
    return this.#byName.size
  }

  /** @param {string} name */
  named(name) {
    return this.#byName.get(name)
  }

  /** Takes what the file says, from before anything arrives. */
  async load() {
    this.isKnown = false
    if (this.#path === undefined) return
    try {
      const stored = await readFileOf(this.#path, this.#disk)
      if (stored) this.take(stored)
    } catch (error) {
      const { message: reason } = /** @type {Error} */ (error)
      this.#logger.error({ file: this.#path, reason }, 'decoders are asked of the database alone')
    }
  }

  /** Calls once it is known what there is. @param {() => void} call */
  whenKnown(call) {
    if (this.isKnown) call()
    else this.#waiting.push(call)
  }

  /** Follows the database until it is stopped. @param {Reader} reader */
  async follow(reader) {
    while (!this.#isStopped) {
      try {
        await this.look(reader)
      } catch (error) {
        this.failures++
        this.#logger.debug({ reason: /** @type {Error} */ (error).message }, 'decoders')
      }
      await new Promise((resolve) => {
        this.#timer = setTimeout(() => resolve(undefined), POLL_MS)
        this.#timer.unref()
      })
    }
  }

  stop() {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  /** Asks once. @param {Reader} reader */
  async look(reader) {
    try {
      if (this.isKnown && (await reader.revision()) === this.#revision) return
      const stored = await reader.read()
      this.take(stored)
      this.#unkept = stored
    } finally {
      await this.#keep()
    }
  }

  /**
   * Writes the file, again and again where it fails, also while the database is away: the next
   * process would take a topic of a new decoder for no measurement, and acknowledge what is lost.
   */
  async #keep() {
    const stored = this.#unkept
    if (stored === undefined || this.#path === undefined) return
    try {
      await writeFileOf(this.#path, stored, this.#disk)
      this.#unkept = undefined
      this.#isKeepingFailing = false
    } catch (error) {
      this.failures++
      const { message: reason } = /** @type {Error} */ (error)
      const what = { file: this.#path, revision: stored.revision, reason }
      if (!this.#isKeepingFailing) {
        this.#logger.warn(what, 'decoders are not in their file yet: it is tried again')
      }
      this.#isKeepingFailing = true
    }
  }

  /** @param {Stored} stored */
  take({ revision, set }) {
    if (revision !== this.#revision) {
      const { templates, refused } = followed(set, this.#topics, this.#lineTopic)
      this.#topics.own = templates
      this.#byName = new Map(set.map((decoder) => [decoder.name, decoder]))
      this.#revision = revision
      this.refused = refused
      for (const [decoder, reason] of refused) {
        this.#logger.warn({ decoder, reason }, 'a decoder is not followed')
      }
      for (const call of this.onChange) call(set, revision)
    }
    this.isKnown = true
    for (const call of this.#waiting.splice(0)) call()
  }
}
