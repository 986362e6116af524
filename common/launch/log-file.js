/**
 * The file a part writes to. The part has its own handle on it, so it can go on writing when the
 * launcher is gone; the launcher reads its end and keeps it from growing for ever.
 */

import { closeSync, copyFileSync, openSync, readSync, statSync, truncateSync } from 'node:fs'

/** A log this long, in bytes, becomes `<name>.1`; two of them are kept. */
const SIZE_MAX = 16 * 1024 * 1024
/** Bytes at the end that may hold the last lines. */
const TAIL_BYTES = 8192

export class LogFile {
  #followed = 0

  /** @param {string} path */
  constructor(path) {
    this.path = path
  }

  /** A handle to append with. @returns {number}  To be closed by the caller. */
  open() {
    const handle = openSync(this.path, 'a')
    this.#followed = statSync(this.path).size
    return handle
  }

  /** The last line that is not empty, as a person reads it. */
  lastLine() {
    const size = statSync(this.path).size
    const tail = this.#read(Math.max(0, size - TAIL_BYTES), size)
    const lines = tail.split('\n').filter((line) => line.trim())
    // What Node says last when it fails is its version; what failed stands further up.
    const error = lines.at(-1)?.startsWith('Node.js v')
      ? lines.findLast((line) => /^\w*Error\b/.test(line))
      : undefined
    return plain(error ?? lines.at(-1) ?? '')
  }

  /** Lines written since the last call, or since the file was opened. */
  newLines() {
    const size = statSync(this.path).size
    if (size < this.#followed) this.#followed = 0
    const text = this.#read(this.#followed, size)
    const end = text.lastIndexOf('\n') + 1
    this.#followed += Buffer.byteLength(text.slice(0, end))
    return text.slice(0, end).split('\n').slice(0, -1)
  }

  /** Moves a log that has grown too long aside. What is written at that very moment may be lost. */
  rotate() {
    if (statSync(this.path).size < SIZE_MAX) return
    copyFileSync(this.path, `${this.path}.1`)
    truncateSync(this.path)
    this.#followed = 0
  }

  /** @param {number} from  @param {number} to */
  #read(from, to) {
    const handle = openSync(this.path, 'r')
    try {
      const buffer = Buffer.alloc(to - from)
      return buffer.toString('utf8', 0, readSync(handle, buffer, 0, buffer.length, from))
    } finally {
      closeSync(handle)
    }
  }
}

/**
 * What a line of a JSON log says; other lines as they are.
 *
 * @param {string} line
 */
export function plain(line) {
  if (!line.startsWith('{')) return line.trim()
  try {
    const { msg, message, err } = JSON.parse(line)
    const text = [msg ?? message, err?.message].filter(Boolean).join(': ')
    return (text || line).split('\n')[0]
  } catch {
    return line
  }
}
