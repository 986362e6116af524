/** Builds the engine, for `npm run db`, which then runs it in place of itself. */

import { fileURLToPath } from 'node:url'
import { Progress } from '../src/progress.js'
import { Failure } from './failure.js'
import { Guard } from './guard.js'
import { checkMachine, checkTools } from './requirements.js'
import { buildEngine } from './setup.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const stop = new AbortController()
for (const name of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(name, () => stop.abort())
}
const guard = new Guard()
try {
  checkMachine({ platform: process.platform, nodeVersion: process.versions.node })
  checkTools(root)
  await buildEngine({ root, progress: new Progress(process.stderr), guard, signal: stop.signal })
} catch (error) {
  if (!(error instanceof Failure)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
} finally {
  guard.close()
}
