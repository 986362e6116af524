/**
 * `npm run check`: format, lint, types, documentation and house rules of all code. Runs every check
 * although one has failed, and says at the end which did.
 */

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const engine = join(root, 'db-engine')
const bin = (/** @type {string} */ name) => join(root, 'node_modules/.bin', name)

const JEST = { NODE_OPTIONS: '--experimental-vm-modules --disable-warning=ExperimentalWarning' }

/** @type {{ what: string, command: string[], cwd?: string, env?: Record<string, string> }[]} */
const CHECKS = [
  { what: 'format and lint of JavaScript', command: [bin('biome'), 'ci', '.'] },
  { what: 'types of JavaScript', command: [bin('tsc'), '-p', '.'] },
  {
    what: 'house rules of JavaScript and links of documents',
    command: [process.execPath, bin('jest'), '--selectProjects', 'tidy'],
    env: JEST,
  },
  {
    what: 'dashboards are built from their code',
    command: [process.execPath, 'dashboards/src/build.js', '--check'],
  },
  { what: 'format of Rust', command: ['cargo', 'fmt', '--check'], cwd: engine },
  {
    what: 'lint of Rust',
    command: ['cargo', 'clippy', '--quiet', '--all-targets', '--', '-D', 'warnings'],
    cwd: engine,
  },
  {
    what: 'documentation of Rust',
    command: ['cargo', 'doc', '--quiet', '--no-deps'],
    cwd: engine,
    env: { RUSTDOCFLAGS: '-D warnings' },
  },
]

const failed = CHECKS.filter(({ what, command: [program, ...args], cwd = root, env = {} }) => {
  process.stdout.write(`\n${what}: ${[program, ...args].join(' ').replaceAll(root, '')}\n`)
  const { status, error } = spawnSync(program, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: 'inherit',
  })
  if (error) process.stdout.write(`${error.message}\n`)
  process.stdout.write(`${status === 0 ? 'ok' : 'FAILED'}\n`)
  return status !== 0
})
process.stdout.write(
  failed.length === 0
    ? `\nall ${CHECKS.length} checks passed\n`
    : `\nfailed: ${failed.map(({ what }) => what).join('; ')}\n`,
)
process.exitCode = failed.length === 0 ? 0 : 1
