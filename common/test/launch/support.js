/** Parts that do as they are told, and a launcher's surroundings for them. */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Guard } from '../../launch/guard.js'
import { LogFile } from '../../launch/log-file.js'
import { Part } from '../../launch/part.js'

/** How long a test waits for what must happen, in milliseconds. */
const DEADLINE_MS = 20_000

/**
 * Waits until a condition holds.
 *
 * @param {string} what
 * @param {() => boolean | Promise<boolean>} condition
 */
export async function until(what, condition) {
  const endMs = performance.now() + DEADLINE_MS
  while (!(await condition())) {
    if (performance.now() > endMs) throw new Error(`waited too long until ${what}`)
    await sleep(20)
  }
}

/**
 * A port that nobody listens on, below those that the kernel gives to outgoing connections and
 * those of the whole platform's tests: a part that is started again finds it free.
 *
 * @returns {Promise<number>}
 */
export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().unref()
    const listen = () => server.listen(12_000 + Math.floor(Math.random() * 8_000), '127.0.0.1')
    server.on('error', listen)
    server.once('listening', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
      server.close(() => resolve(port))
    })
    listen()
  })
}

/** @param {number} pid */
export function isAlive(pid) {
  try {
    process.kill(pid, 0)
    // A process that has ended but whose parent has not asked yet is no longer alive.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** A directory, a guard, what was said, and parts made of a few lines of JavaScript. */
export class Surroundings {
  directory = mkdtempSync(join(tmpdir(), 'sandglass-launch-'))
  guard = new Guard()
  /** @type {string[]} */
  said = []

  /**
   * @param {string} name
   * @param {string} script  What the part does.
   * @param {Partial<import('../../launch/part.js').PartSpec>} [spec]
   * @param {import('../../launch/part.js').Patience} [patience]
   */
  part(name, script, spec = {}, patience = undefined) {
    const log = new LogFile(join(this.directory, `${name}.log`))
    return new Part(
      { name, command: [process.execPath, '-e', script], env: {}, ...spec },
      { cwd: this.directory, log, guard: this.guard, say: (line) => this.said.push(line) },
      patience,
    )
  }

  end() {
    this.guard.close()
    rmSync(this.directory, { recursive: true, force: true })
  }
}
