/** How far an import has come: what was decided of all lines up to one. */

/** Refused lines that are shown. */
export const REFUSED_SHOWN_MAX = 20

/** @typedef {{ line: number, reason: string }} Refused */

/**
 * What was decided of some records that follow each other.
 *
 * @typedef {object} Decided
 * @property {number} line  Of the last one.
 * @property {number} rows
 * @property {number} stored  Of these.
 * @property {number} refusedRows  The others.
 * @property {Refused[]} refused  The first of these, by line.
 */

export class Progress {
  #line
  #rows = 0
  #stored = 0
  #refusedRows = 0
  /** @type {Refused[]} */
  #refused = []

  /** @param {number} line  Up to which nothing is left to do. */
  constructor(line) {
    this.#line = line
  }

  /** @param {Decided} decided */
  add({ line, rows, stored, refusedRows, refused }) {
    this.#line = line
    this.#rows += rows
    this.#stored += stored
    this.#refusedRows += refusedRows
    this.#refused.push(...refused.slice(0, REFUSED_SHOWN_MAX - this.#refused.length))
  }

  /** The line from which a repetition may begin. */
  get nextLine() {
    return this.#line + 1
  }

  toJSON() {
    return {
      line: this.#line,
      rows: this.#rows,
      stored: this.#stored,
      refused_rows: this.#refusedRows,
      refused: this.#refused,
    }
  }
}
