// A file system of a few MiB, which gets really full: a tmpfs that only some processes see, for it
// lies in a mount namespace of their own. A process in the middle keeps that while they are killed
// and started.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { missingPrograms } from './requirement.js'

const PROGRAMS = ['unshare', 'nsenter', 'mount', 'setpriv']
const IS_ROOT = process.getuid?.() === 0
/** Who is not root is it in a user namespace, if the system allows that. */
const UNSHARE = ['--mount', ...(IS_ROOT ? [] : ['--map-root-user'])]
const ENTER = ['--mount', ...(IS_ROOT ? [] : ['--user', '--preserve-credentials'])]
const BALLAST = 'ballast'
const CHUNK = Buffer.alloc(64 * 1024, 1)
const PAGE_BYTES = 4096

/** What is not there of what a small disk needs. */
export function missingForSmallDisk() {
  const missing = missingPrograms(PROGRAMS)
  if (missing.length > 0) return missing
  const mount = ['mount', '-t', 'tmpfs', 'none', '/mnt']
  const { status } = spawnSync('unshare', [...UNSHARE, ...mount])
  return status === 0 ? [] : ['the right to mount a tmpfs']
}

export class SmallDisk {
  #bytes

  /** @type {import('node:child_process').ChildProcess | undefined} */
  #keeper

  /**
   * @param {string} directory  Where it is for those that see it; exists.
   * @param {number} bytes
   */
  constructor(directory, bytes) {
    this.directory = directory
    this.#bytes = bytes
  }

  async open() {
    const script = 'mount -t tmpfs -o size="$1" none "$0" && echo mounted && exec sleep infinity'
    const keeper = spawn(
      'setpriv',
      [
        ...['--pdeathsig', 'KILL', 'unshare', ...UNSHARE],
        ...['sh', '-c', script, this.directory, String(this.#bytes)],
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    this.#keeper = keeper
    await Promise.race([
      once(keeper.stdout, 'data'),
      once(keeper, 'exit').then(() => {
        throw new Error(`no tmpfs on ${this.directory}`)
      }),
    ])
  }

  /** Lets a part of the platform see it, from its next start on. */
  /** @param {import('./part.js').Part} part */
  give({ options }) {
    const enter = ['--target', String(this.#keeper?.pid), ...ENTER]
    options.args = [...enter, options.command, ...options.args]
    options.command = 'nsenter'
  }

  /** Fills it to the last byte. */
  fill() {
    const file = openSync(this.#ballast, 'a')
    try {
      // What is freed while this runs is taken, too: a page is the least that can be.
      for (let bytes = CHUNK.length; bytes >= PAGE_BYTES; ) {
        if (!isWritten(file, CHUNK.subarray(0, bytes))) bytes /= 2
      }
    } finally {
      closeSync(file)
    }
  }

  /** Frees what `fill` took. */
  free() {
    rmSync(this.#ballast)
  }

  async close() {
    const keeper = this.#keeper
    if (!keeper || keeper.exitCode !== null) return
    const gone = once(keeper, 'exit')
    keeper.kill('SIGKILL')
    await gone
  }

  get #ballast() {
    return join(`/proc/${this.#keeper?.pid}/root`, this.directory, BALLAST)
  }
}

/** @param {number} file  @param {Buffer} bytes  @returns {boolean}  False: there is no space. */
function isWritten(file, bytes) {
  try {
    writeSync(file, bytes)
    return true
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ENOSPC') throw error
    return false
  }
}
