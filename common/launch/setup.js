/**
 * Gets a clone ready to run: npm packages as the lockfile says, and the engine's binary. Does
 * nothing that is already done. Works with Node alone.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { runCommand } from './command.js'
import { Failure } from './failure.js'

/**
 * @typedef {object} SetUp
 * @property {string} root  The repository.
 * @property {import('../src/progress.js').Progress} progress
 * @property {import('./guard.js').Guard} guard
 * @property {AbortSignal} signal
 */

/**
 * @typedef {object} Package
 * @property {string} [version]
 * @property {string} [integrity]
 * @property {boolean} [link]      A workspace.
 * @property {boolean} [optional]
 */

/** @typedef {{ packages: Record<string, Package> }} Lockfile */

/**
 * Whether what is installed is what the lockfile asks for. Optional packages may be missing: those
 * of other systems are.
 *
 * @param {Lockfile} wanted
 * @param {Lockfile} installed  npm's own record, in `node_modules/.package-lock.json`.
 */
export function isInstalled(wanted, installed) {
  for (const [path, { version, integrity, link, optional }] of Object.entries(wanted.packages)) {
    const inModules = path.includes('node_modules/')
    const have = installed.packages[path]
    if (!inModules || (optional && !have)) continue
    if (!have || have.link !== link) return false
    if (have.version !== version || have.integrity !== integrity) return false
  }
  return true
}

/** @param {string} path  @returns {Lockfile} */
const readLockfile = (path) => JSON.parse(readFileSync(path, 'utf8'))

/** Installs the npm packages unless they are there. @param {SetUp} setUp */
export async function installPackages({ root, progress, guard, signal }) {
  if (packagesAreThere(root)) return
  const startMs = performance.now()
  const show = () => progress.update(`installing npm packages: ${seconds(startMs)}`)
  show()
  const timer = setInterval(show, 1000)
  try {
    const what = 'the npm packages could not be installed'
    const command = ['npm', 'ci', '--no-audit', '--no-fund', '--loglevel=error']
    await runCommand({ what, command, cwd: root, guard, signal })
  } finally {
    clearInterval(timer)
  }
  progress.line(`npm packages installed in ${seconds(startMs)}`)
}

/** @param {string} root */
function packagesAreThere(root) {
  const wanted = readLockfile(join(root, 'package-lock.json'))
  try {
    return isInstalled(wanted, readLockfile(join(root, 'node_modules/.package-lock.json')))
  } catch {
    return false
  }
}

/**
 * Builds the engine in release mode; cargo knows what is stale.
 *
 * @param {SetUp} setUp
 * @returns {Promise<string>}  The path of its binary.
 */
export async function buildEngine({ root, progress, guard, signal }) {
  const lockfile = readFileSync(join(root, 'db-engine/Cargo.lock'), 'utf8')
  const crates = lockfile.split('[[package]]').length - 1
  const startMs = performance.now()
  const state = { binary: '', built: 0, done: 0, name: '' }
  const show = () => {
    const share = `${state.done} of at most ${crates} crates`
    progress.update(`building the engine: ${share}, ${seconds(startMs)} ${state.name}`)
  }
  const timer = setInterval(show, 1000)
  try {
    await runCommand({
      what: 'the engine did not build',
      command: ['cargo', 'build', '--release', '--message-format=json-render-diagnostics'],
      cwd: join(root, 'db-engine'),
      guard,
      signal,
      onLine: (line) => readMessage(line, state),
    })
  } finally {
    clearInterval(timer)
  }
  if (!state.binary) throw new Failure('cargo built no binary: is db-engine/src/main.rs there?')
  if (state.built > 0) progress.line(`engine built in ${seconds(startMs)}`)
  return state.binary
}

/**
 * One message of cargo's.
 *
 * @param {string} line
 * @param {{ binary: string, built: number, done: number, name: string }} state
 */
function readMessage(line, state) {
  if (!line.startsWith('{')) return
  const message = JSON.parse(line)
  if (message.reason !== 'compiler-artifact') return
  state.done++
  state.name = message.target.name
  if (!message.fresh) state.built++
  if (message.executable) state.binary = message.executable
}

/** @param {number} startMs */
const seconds = (startMs) => `${Math.round((performance.now() - startMs) / 1000)} s`
