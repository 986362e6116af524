import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { isAlive, Surroundings, until } from './support.js'

/** @type {Surroundings} */
let around
beforeEach(() => {
  around = new Surroundings()
})
afterEach(() => around.end())

/** @param {string} name  Of a file of the launcher's. */
const module = (name) => JSON.stringify(new URL(`../../launch/${name}.js`, import.meta.url).href)

/**
 * A launcher with two parts that note when they run and are told to stop.
 *
 * @param {string} file
 * @param {{ stopTenths?: number, after?: string }} [how]  What they do `after` they were told.
 */
const launcher = (file, { stopTenths, after = 'process.exit(0)' } = {}) => `
  import { Guard } from ${module('guard')}
  import { LogFile } from ${module('log-file')}
  import { Part } from ${module('part')}
  const guard = new Guard(${stopTenths})
  const script = (name) => \`
    const note = (what) =>
      require('node:fs').appendFileSync(${JSON.stringify(file)}, '\${name} ' + what + '\\\\n')
    process.on('SIGTERM', () => {
      note('stopped')
      ${after}
    })
    note(process.pid)
    setInterval(() => {}, 1000)\`
  for (const name of ['engine', 'ingest']) {
    const spec = { name, command: [process.execPath, '-e', script(name)], env: {} }
    const log = new LogFile(${JSON.stringify(file)} + '.' + name)
    const part = new Part(spec, { cwd: '/', log, guard, say: () => {} })
    await part.start()
  }
  setInterval(() => {}, 1000)`

test('a launcher killed without warning leaves nothing behind, newest part first', async () => {
  const file = join(around.directory, 'events')
  const args = ['--input-type=module', '-e', launcher(file)]
  const child = spawn(process.execPath, args, { detached: true, stdio: 'inherit' })
  const events = () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [])
  await until('both parts run', () => events().length === 2)
  const pids = events().map((line) => Number(line.split(' ')[1]))
  expect(pids.every(isAlive)).toBe(true)

  // All of its group, as a terminal or a container would.
  process.kill(-Number(child.pid), 'SIGKILL')

  await until('the parts are gone', () => !pids.some(isAlive))
  expect(events().slice(2)).toEqual(['ingest stopped', 'engine stopped'])
})

test('a part that does not stop is killed, too, when its launcher was', async () => {
  const file = join(around.directory, 'events')
  const args = ['--input-type=module', '-e', launcher(file, { stopTenths: 3, after: '' })]
  const child = spawn(process.execPath, args, { detached: true, stdio: 'inherit' })
  const events = () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [])
  await until('both parts run', () => events().length === 2)
  const pids = events().map((line) => Number(line.split(' ')[1]))
  process.kill(-Number(child.pid), 'SIGKILL')
  await until('the parts are gone', () => !pids.some(isAlive))
  expect(events().slice(2)).toEqual(['ingest stopped', 'engine stopped'])
})

test('a guard that is killed is replaced and knows what runs', async () => {
  const part = around.part('watched', 'setInterval(() => {}, 1000)')
  await part.start()
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8')
  const isGuard = (/** @type {string} */ pid) =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('trap')
  const guards = children.trim().split(/\s+/).filter(isGuard)
  expect(guards).toHaveLength(1)
  process.kill(Number(guards[0]), 'SIGKILL')
  await until('another one watches', () => {
    const now = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8')
    const alive = now
      .trim()
      .split(/\s+/)
      .filter((pid) => isAlive(Number(pid)) && isGuard(pid))
    return alive.length === 1 && alive[0] !== guards[0]
  })
  const pid = Number(part.pid)
  expect(isAlive(pid)).toBe(true)
  await part.stop()
  expect(isAlive(pid)).toBe(false)
})
