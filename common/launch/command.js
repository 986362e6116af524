/** Runs a command of the set-up to its end: quietly, with its last lines at hand if it fails. */

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { Failure } from './failure.js'

/** Lines of output kept for the report of a failure. */
const LINES_KEPT = 40

/** @typedef {import('./guard.js').Guard} Guard */

/**
 * @param {object} task
 * @param {string} task.what  What failed, if it fails: `the engine did not build`.
 * @param {string[]} task.command
 * @param {string} task.cwd
 * @param {Guard} task.guard
 * @param {AbortSignal} task.signal
 * @param {(line: string) => void} [task.onLine]  Each line of standard output.
 * @throws {Failure}  With the command's last lines.
 */
export async function runCommand({ what, command, cwd, guard, signal, onLine = () => {} }) {
  const [program, ...args] = command
  const child = spawn(program, args, { cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const pid = child.pid
  /** @type {string[]} */
  const errors = []
  createInterface(child.stdout).on('line', onLine)
  createInterface(child.stderr).on('line', (line) => {
    errors.push(line)
    if (errors.length > LINES_KEPT) errors.shift()
  })
  if (pid !== undefined) guard.add(pid)
  const kill = () => pid !== undefined && killGroup(pid, 'SIGTERM')
  signal.addEventListener('abort', kill)
  const code = await new Promise((resolve) => {
    child.on('error', (error) => {
      errors.push(error.message)
      resolve(-1)
    })
    child.on('close', resolve)
  })
  signal.removeEventListener('abort', kill)
  if (pid !== undefined) guard.remove(pid)
  if (signal.aborted) throw new Failure('stopped before it was set up')
  if (code !== 0)
    throw new Failure([...errors, `${what} (see above): ${command.join(' ')}`].join('\n'))
}

/**
 * Sends a signal to a process and all that it started.
 *
 * @param {number} group
 * @param {NodeJS.Signals} signal
 */
export function killGroup(group, signal) {
  try {
    process.kill(-group, signal)
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error
  }
}
