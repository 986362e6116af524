/**
 * `npm run demo` and `npm start`: from a fresh clone to a platform that runs. Until the npm
 * packages are installed only Node itself may be used, so what needs them is imported after that.
 */

import { fileURLToPath } from 'node:url'
import { Progress } from '../src/progress.js'
import { Failure } from './failure.js'
import { Guard } from './guard.js'
import { checkMachine, checkTools } from './requirements.js'
import { installPackages } from './setup.js'

/** A signal this soon after the first is the same key press: npm passes on what it got, too. */
const SAME_PRESS_MS = 500

const [mode, ...rest] = process.argv.slice(2)
const root = fileURLToPath(new URL('../..', import.meta.url))
const progress = new Progress()

/** @returns {{ signal: AbortSignal, force: AbortSignal }} */
function onSignals() {
  const stop = new AbortController()
  const force = new AbortController()
  let firstMs = 0
  for (const name of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.on(name, () => {
      if (!stop.signal.aborted) {
        firstMs = performance.now()
        stop.abort()
      } else if (performance.now() - firstMs > SAME_PRESS_MS) {
        progress.line('stopping by force')
        force.abort()
      }
    })
  }
  return { signal: stop.signal, force: force.signal }
}

async function main() {
  if (mode !== 'demo' && mode !== 'start') {
    throw new Failure('usage: node common/launch/main.js demo|start [options]')
  }
  checkMachine({ platform: process.platform, nodeVersion: process.versions.node })
  const asksForHelp = rest.includes('--help') || rest.includes('-h')
  const { CQL_HOSTS, DB_PROGRAM } = process.env
  const isBuilt =
    CQL_HOSTS || DB_PROGRAM || rest.some((word) => /^--(cql-hosts|db-program)\b/.test(word))
  if (!asksForHelp && !isBuilt) checkTools(root)
  const guard = new Guard()
  const signals = onSignals()
  try {
    const setUp = { root, progress, guard, ...signals }
    await installPackages(setUp)
    const { readLaunchOptions } = await import('./options.js')
    const options = readLaunchOptions(mode, [...process.argv.slice(0, 2), ...rest], root)
    const { runPlatform } = await import('./platform.js')
    await runPlatform(mode, options, setUp)
  } finally {
    guard.close()
  }
}

try {
  await main()
} catch (error) {
  if (!(error instanceof Failure)) throw error
  progress.clear()
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
