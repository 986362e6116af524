/**
 * One line that says how things go: rewritten in place on a terminal, printed anew every few
 * seconds elsewhere. Other lines go above it. Uses nothing but Node itself, so that it works
 * before any package is installed.
 */

/** Between two plain lines where the output is no terminal, in milliseconds. */
const PLAIN_INTERVAL_MS = 5000

export class Progress {
  #stream
  #plainMs
  #lastMs = Number.NEGATIVE_INFINITY
  /** Whether the cursor stands behind a line that the next one replaces. */
  #open = false

  /**
   * @param {import('node:tty').WriteStream | NodeJS.WritableStream} stream
   * @param {number} [plainMs]  Between two plain lines, in milliseconds.
   */
  constructor(stream = process.stdout, plainMs = PLAIN_INTERVAL_MS) {
    this.#stream = /** @type {import('node:tty').WriteStream} */ (stream)
    this.#plainMs = plainMs
  }

  /** Shows the state of things now. @param {string} text */
  update(text) {
    if (this.#stream.isTTY) {
      const width = Math.max(20, (this.#stream.columns || 80) - 1)
      this.#stream.write(`\r\x1b[2K${text.length > width ? `${text.slice(0, width - 1)}…` : text}`)
      this.#open = true
      return
    }
    const nowMs = performance.now()
    if (nowMs - this.#lastMs < this.#plainMs) return
    this.#lastMs = nowMs
    this.#stream.write(`${text}\n`)
  }

  /** Prints a line that stays. @param {string} text */
  line(text) {
    this.clear()
    this.#stream.write(`${text}\n`)
  }

  /** Removes the line that is being rewritten. */
  clear() {
    if (this.#open) this.#stream.write('\r\x1b[2K')
    this.#open = false
  }
}
