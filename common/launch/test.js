/**
 * `npm test`: sets a clone up and runs all tests, those of Rust and those of Node. The last line
 * says how many passed and failed; a test that could not run because a tool is missing is counted
 * as skipped, and as failed where CI=true.
 */

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Progress } from '../src/progress.js'
import { Failure } from './failure.js'
import { Guard } from './guard.js'
import { checkMachine, checkTools } from './requirements.js'
import { buildEngine, installPackages } from './setup.js'

/** Test files at a time: those of the whole platform mostly wait. Three keep two cores busy. */
const WORKERS = 3

/**
 * Tests that promise a time to whoever is attacked, or load the machine to its limit: beside others
 * they would judge the machine. The broker takes one connection in each turn of its loop, so that
 * ten thousand that come back need most of a core until they are there.
 */
const ALONE = 'e2e/(attack|crowd)'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */

/**
 * What the result lines of cargo's test runner add up to.
 *
 * @param {string} output
 * @returns {Counts}
 */
export function countCargo(output) {
  const counts = { passed: 0, failed: 0, skipped: 0 }
  const pattern = /^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/gm
  for (const [, passed, failed, ignored] of output.matchAll(pattern)) {
    counts.passed += Number(passed)
    counts.failed += Number(failed)
    counts.skipped += Number(ignored)
  }
  return counts
}

/**
 * @typedef {object} JestReport
 * @property {{ message: string, status: string, assertionResults: { status: string, title: string,
 *   fullName: string }[] }[]} testResults
 */

/**
 * What a report of jest's adds up to. A file that could not be loaded is one failure.
 *
 * @param {JestReport} report
 * @returns {Counts & { notRun: string[] }}
 */
export function countJest(report) {
  const counts = { passed: 0, failed: 0, skipped: 0, notRun: /** @type {string[]} */ ([]) }
  for (const { status, assertionResults } of report.testResults) {
    if (status === 'failed' && assertionResults.length === 0) counts.failed++
    for (const { status: result, title, fullName } of assertionResults) {
      const missing = title.startsWith('not run: ')
      if (missing) counts.notRun.push(fullName)
      if (result === 'failed') counts.failed++
      else if (result === 'passed' && !missing) counts.passed++
      else counts.skipped++
    }
  }
  return counts
}

/**
 * Runs a command, shows what it prints and returns it.
 *
 * @param {string[]} command
 * @param {{ cwd?: string, env?: Record<string, string> }} [where]
 * @returns {Promise<{ code: number | null, output: string }>}
 */
function show([program, ...args], { cwd = root, env = {} } = {}) {
  process.stdout.write(`\n$ ${[program, ...args].join(' ')}\n`)
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
      process.stdout.write(chunk)
    })
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output }))
  })
}

/** Runs tests of Node, and counts them. @param {string[]} args */
async function runJest(args) {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-jest-'))
  const file = join(directory, 'report.json')
  const env = {
    NODE_OPTIONS: '--experimental-vm-modules --disable-warning=ExperimentalWarning',
  }
  const jest = ['node_modules/.bin/jest', '--json', `--outputFile=${file}`, ...args]
  const { code } = await show([process.execPath, ...jest], { env })
  const counts = countJest(JSON.parse(readFileSync(file, 'utf8')))
  rmSync(directory, { recursive: true })
  if (code !== 0 && counts.failed === 0) counts.failed = 1
  return counts
}

async function main() {
  checkMachine({ platform: process.platform, nodeVersion: process.versions.node })
  checkTools(root)
  const guard = new Guard()
  const { signal } = new AbortController()
  const setUp = { root, progress: new Progress(), guard, signal }
  try {
    await installPackages(setUp)
    await buildEngine(setUp)
  } finally {
    guard.close()
  }
  // The examples are compiled by the check, and the documentation has no examples that run.
  const engineTests = ['cargo', 'test', '--lib', '--bins', '--tests']
  const cargo = await show(engineTests, { cwd: join(root, 'db-engine') })
  const rust = countCargo(cargo.output)
  if (cargo.code !== 0 && rust.failed === 0) rust.failed = 1

  const chosen = process.argv.slice(2)
  const runs =
    chosen.length > 0
      ? [[`--maxWorkers=${WORKERS}`, ...chosen]]
      : [
          [`--maxWorkers=${WORKERS}`, '--testPathIgnorePatterns', ALONE],
          ['--runInBand', '--testPathPatterns', ALONE],
        ]
  const node = { passed: 0, failed: 0, skipped: 0, notRun: /** @type {string[]} */ ([]) }
  for (const args of runs) {
    const counts = await runJest(args)
    node.passed += counts.passed
    node.failed += counts.failed
    node.skipped += counts.skipped
    node.notRun.push(...counts.notRun)
  }

  process.stdout.write(`\nRust: ${sentence(rust)}\nNode: ${sentence(node)}\n`)
  for (const name of node.notRun) process.stdout.write(`  ${name}\n`)
  const all = {
    passed: rust.passed + node.passed,
    failed: rust.failed + node.failed,
    skipped: rust.skipped + node.skipped,
  }
  process.stdout.write(`${sentence(all)}\n`)
  process.exitCode = all.failed === 0 ? 0 : 1
}

/** @param {Counts} counts */
const sentence = ({ passed, failed, skipped }) =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    await main()
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exitCode = 1
  }
}
