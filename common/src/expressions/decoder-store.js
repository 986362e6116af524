/**
 * The decoders of people's own in the database: one row, which is changed as a whole on the
 * condition that nobody else has changed it since it was read, so that no two of them can ever
 * share a topic. The number of the row's changes is the version of what was changed.
 */

import { setOfText, setText } from './decoder.js'

/** The only row. */
const ROW = 0

/** Most attempts to change it, each after somebody else has. */
const ATTEMPTS_MAX = 20

/** @typedef {import('./decoder.js').Decoder} Decoder */
/** @typedef {import('./decoder.js').DecoderBody} DecoderBody */
/** @typedef {import('./decoder.js').DecoderSet} DecoderSet */
/** @typedef {{ revision: number, set: DecoderSet }} Stored */
/** @typedef {(query: string, params: unknown[]) => Promise<any[]>} Ask */

export class DecoderStore {
  #ask
  #table

  /** @param {string} keyspace  @param {Ask} ask */
  constructor(keyspace, ask) {
    this.#table = `${keyspace}.decoder_set`
    this.#ask = ask
  }

  /** How often they were changed. */
  async revision() {
    const [row] = await this.#ask(`SELECT revision FROM ${this.#table} WHERE id = ?`, [ROW])
    return Number(row?.revision ?? 0)
  }

  /** @returns {Promise<Stored>} */
  async read() {
    const query = `SELECT revision, body FROM ${this.#table} WHERE id = ?`
    const [row] = await this.#ask(query, [ROW])
    return { revision: Number(row?.revision ?? 0), set: setOfText(row?.body) }
  }

  /**
   * Changes them.
   *
   * @param {(set: DecoderSet, revision: number) => DecoderSet | undefined} change  Gives them as
   *   they shall be, or undefined where nothing is to change. It may be called several times.
   * @returns {Promise<Stored>}  As they are now.
   */
  async change(change) {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const before = await this.read()
      const revision = before.revision + 1
      const set = change(before.set, revision)
      if (!set) return before
      if (await this.#replace(before.revision, revision, setText(set))) return { revision, set }
    }
    throw new Error('the decoders are changed by too many at once')
  }

  /**
   * @param {number} before
   * @param {number} revision
   * @param {string} body
   */
  async #replace(before, revision, body) {
    const [row] =
      before === 0
        ? await this.#ask(
            `INSERT INTO ${this.#table} (id, revision, body) VALUES (?, ?, ?) IF NOT EXISTS`,
            [ROW, revision, body],
          )
        : await this.#ask(
            `UPDATE ${this.#table} SET revision = ?, body = ? WHERE id = ? IF revision = ?`,
            [revision, body, ROW, before],
          )
    return row?.['[applied]'] === true
  }
}

/**
 * Makes or changes one decoder.
 *
 * @param {DecoderSet} set
 * @param {string} name
 * @param {DecoderBody} body
 * @param {{ version: number, nowMs: number }} now
 * @returns {DecoderSet}  In the order in which they were made.
 */
export function withDecoder(set, name, body, { version, nowMs }) {
  const { template, expression, reads } = body
  const decoder = { name, template, expression, reads, version, changedMs: nowMs }
  const isKnown = set.some((one) => one.name === name)
  return isKnown ? set.map((one) => (one.name === name ? decoder : one)) : [...set, decoder]
}
