/**
 * The file system, as far as the spool uses it. The tests have another one, which loses what was
 * not synced and fails when it is told to.
 */

import { constants } from 'node:fs'
import * as fs from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
// @ts-expect-error: the package has no types
import { tryLock } from 'fs-native-extensions'

const { O_CREAT, O_EXCL, O_RDONLY, O_RDWR } = constants

/**
 * How a file is opened: `read` what exists; `create` what does not exist; `update` either.
 */
const FLAGS = Object.freeze({
  read: O_RDONLY,
  create: O_RDWR | O_CREAT | O_EXCL,
  update: O_RDWR | O_CREAT,
})

/**
 * @typedef {object} SpoolFile
 * @property {(bytes: Buffer, position: number) => Promise<number>} read  How many bytes there were:
 *   fewer than asked for only at the end of the file.
 * @property {(bytes: Buffer, position: number) => Promise<void>} write  All of them.
 * @property {(bytes: number) => Promise<void>} truncate
 * @property {() => Promise<void>} datasync  What was written is durable.
 * @property {() => Promise<void>} close
 */

/**
 * @typedef {object} Disk
 * @property {(path: string) => Promise<void>} makeDirectory
 * @property {(path: string) => Promise<string[]>} list
 * @property {(path: string) => Promise<Buffer>} readFile
 * @property {(path: string, how: keyof typeof FLAGS) => Promise<SpoolFile>} open
 * @property {(from: string, to: string) => Promise<void>} rename
 * @property {(path: string) => Promise<void>} remove
 * @property {(path: string) => Promise<void>} syncDirectory  Names in it are durable.
 * @property {(path: string) => Promise<{ close: () => Promise<void> } | undefined>} lock
 *   Nothing if another process has it.
 */

/** @type {Disk} */
export const realDisk = {
  async makeDirectory(path) {
    const first = await fs.mkdir(path, { recursive: true, mode: 0o700 })
    if (first === undefined) return
    // A directory whose own name is forgotten takes all its files with it.
    for (let made = resolve(path); made.length >= first.length; made = dirname(made)) {
      await this.syncDirectory(dirname(made))
    }
  },
  list: (path) => fs.readdir(path),
  readFile: (path) => fs.readFile(path),
  open: async (path, how) => new RealFile(await fs.open(path, FLAGS[how], 0o600)),
  rename: (from, to) => fs.rename(from, to),
  remove: (path) => fs.unlink(path),
  async syncDirectory(path) {
    const handle = await fs.open(path, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  },
  async lock(path) {
    const handle = await fs.open(path, 'a', 0o600)
    if (tryLock(handle.fd)) return handle
    await handle.close()
    return undefined
  },
}

/** @implements {SpoolFile} */
class RealFile {
  #handle

  /** @param {fs.FileHandle} handle */
  constructor(handle) {
    this.#handle = handle
  }

  /** @param {Buffer} bytes  @param {number} position */
  async read(bytes, position) {
    let at = 0
    while (at < bytes.length) {
      const left = bytes.length - at
      const { bytesRead } = await this.#handle.read(bytes, at, left, position + at)
      if (bytesRead === 0) break
      at += bytesRead
    }
    return at
  }

  /** @param {Buffer} bytes  @param {number} position */
  async write(bytes, position) {
    for (let at = 0; at < bytes.length; ) {
      const left = bytes.length - at
      const { bytesWritten } = await this.#handle.write(bytes, at, left, position + at)
      at += bytesWritten
    }
  }

  /** @param {number} bytes */
  truncate(bytes) {
    return this.#handle.truncate(bytes)
  }

  datasync() {
    return this.#handle.datasync()
  }

  close() {
    return this.#handle.close()
  }
}
