/**
 * `npm run test:cql`: runs the tests of CQL; with `--random N --seed S`, instead, N random
 * statements on our engine and on a Cassandra, that which CQL_HOSTS names or one of its own.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildEngine } from '../support/build.js'
import { kindsOf } from './random/kinds.js'
import { compareRandomly } from './random/run.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** @param {string[]} args */
async function random(args) {
  const { values } = parseArgs({
    args,
    options: {
      random: { type: 'string' },
      seed: { type: 'string', default: '1' },
      kinds: { type: 'string' },
      episode: { type: 'string' },
      tables: { type: 'string' },
      differences: { type: 'string' },
      record: { type: 'string' },
    },
  })
  const number = (/** @type {string | undefined} */ text) => (text ? Number(text) : undefined)
  buildEngine()
  return compareRandomly({
    statements: Number(values.random),
    seed: values.seed,
    kinds: kindsOf(values.kinds),
    episode: number(values.episode),
    tables: number(values.tables),
    differences: number(values.differences),
    record: values.record,
  })
}

const args = process.argv.slice(2)
if (args.some((arg) => arg.startsWith('--random'))) {
  process.exitCode = (await random(args)) === 0 ? 0 : 1
} else {
  const jest = ['node_modules/.bin/jest', '--selectProjects', 'cql', ...args]
  const options = '--experimental-vm-modules --disable-warning=ExperimentalWarning'
  const env = { ...process.env, NODE_OPTIONS: options }
  process.exitCode =
    spawnSync(process.execPath, jest, { cwd: ROOT, env, stdio: 'inherit' }).status ?? 1
}
