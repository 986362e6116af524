// The manual names every option of every part, and no other.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const manual = readFileSync(join(ROOT, 'docs/operating.md'), 'utf8')

/** The part of the manual under a heading. @param {string} heading  How it begins. */
function section(heading) {
  const from = manual.indexOf(`### ${heading}`)
  const to = manual.indexOf('\n#', from + 4)
  return manual.slice(from, to)
}

/** The flags that a text names. @param {string} text */
const flagsIn = (text) => new Set(text.match(/--[a-z][a-z0-9-]+/g))

const database = flagsIn(section('Database'))

test.each([
  ['Launcher', ['common/launch/main.js', 'demo', '--help']],
  ['Ingest', ['ingest/src/main.js', '--help']],
  ['Api', ['api/src/main.js', '--help']],
  ['Simulator', ['simulator/src/main.js', '--help']],
])('%s: every flag is in the manual', (heading, args) => {
  const { stdout, status } = spawnSync(process.execPath, args, {
    cwd: ROOT,
    encoding: 'utf8',
    timeout: 30_000,
  })
  expect(status).toBe(0)
  const options = stdout.split('\n').filter((line) => /^ {2}(-\w, )?--/.test(line))
  const flags = [...flagsIn(options.join('\n'))].filter((flag) => flag !== '--help')
  const named = flagsIn(section(heading))
  const missing = flags.filter((flag) => !named.has(flag) && !database.has(flag))
  expect(missing).toEqual([])
  const invented = [...named].filter((flag) => !flags.includes(flag) && flag !== '--help')
  expect(invented).toEqual([])
})

test('Engine: every variable is in the manual', () => {
  const source = readFileSync(join(ROOT, 'db-engine/src/config.rs'), 'utf8')
  const variables = new Set(source.match(/\bDB_[A-Z_]+\b/g))
  expect(variables.size).toBeGreaterThan(5)
  const named = new Set(section('Engine').match(/\bDB_[A-Z_]+\b/g))
  expect([...variables].filter((name) => !named.has(name))).toEqual([])
})
