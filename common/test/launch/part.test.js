import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { LogFile, plain } from '../../launch/log-file.js'
import { freePort, isAlive, Surroundings, until } from './support.js'

/** @type {Surroundings} */
let around
beforeEach(() => {
  around = new Surroundings()
})
afterEach(() => around.end())

const FOREVER = 'setInterval(() => {}, 1000)'
const serve = (/** @type {number} */ port) =>
  `require('node:http').createServer((_, response) => response.end()).listen(${port}, '127.0.0.1')`

describe('a part', () => {
  test('is up once its health check says so, and stops when told', async () => {
    const port = await freePort()
    const script = `
      let answers = 0
      require('node:http').createServer((_, response) => {
        response.statusCode = answers++ < 2 ? 503 : 200
        response.end(String(answers))
      }).listen(${port}, '127.0.0.1')`
    const part = around.part('served', script, { healthUrl: `http://127.0.0.1:${port}/health` })
    await part.start()
    const pid = Number(part.pid)
    expect(await (await fetch(`http://127.0.0.1:${port}/health`)).text()).toBe('4')
    await part.stop()
    expect(isAlive(pid)).toBe(false)
  })

  test('that ends before it serves fails the start with its last line', async () => {
    const healthUrl = `http://127.0.0.1:${await freePort()}/`
    const script = "console.error('no room left'); process.exitCode = 3"
    const part = around.part('broken', script, { healthUrl })
    await expect(part.start()).rejects.toThrow('broken does not start (exit code 3): no room left')
  })

  test('that throws is quoted with its error, not with what Node adds', async () => {
    const healthUrl = `http://127.0.0.1:${await freePort()}/`
    const part = around.part('throwing', "throw new RangeError('out of luck')", { healthUrl })
    await expect(part.start()).rejects.toThrow('(exit code 1): RangeError: out of luck')
  })

  test('that cannot be run at all fails the start', async () => {
    const part = around.part('absent', '', { command: ['/nonexistent/program'] })
    await expect(part.start()).rejects.toThrow('absent does not start')
  })

  test('that is killed is started again, and that is said', async () => {
    const port = await freePort()
    const script = `console.log('working'); ${serve(port)}`
    const part = around.part('mortal', script, { healthUrl: `http://127.0.0.1:${port}/` })
    await part.start()
    const first = Number(part.pid)
    process.kill(first, 'SIGKILL')
    await until('it is back', () => around.said.some((line) => /mortal is back after/.test(line)))
    expect(around.said[0]).toBe(
      'mortal ended (SIGKILL) and is started again in 0.5 s; it last said: working',
    )
    expect(part.pid).not.toBe(first)
    await part.stop()
    expect(around.said).toHaveLength(3)
    expect(around.said[2]).toContain('mortal ended with SIGTERM')
  })

  test('that ends again and again is started after longer and longer pauses', async () => {
    const port = await freePort()
    const marker = join(around.directory, 'ran')
    // It serves the first time only, and only once the next time knows of it.
    const script = `
      const fs = require('node:fs')
      if (fs.existsSync(${JSON.stringify(marker)})) process.exit(9)
      fs.writeFileSync(${JSON.stringify(marker)}, '')
      ${serve(port)}`
    const part = around.part('fickle', script, { healthUrl: `http://127.0.0.1:${port}/` })
    await part.start()
    process.kill(Number(part.pid), 'SIGKILL')
    await until('three restarts', () => around.said.length >= 3)
    await part.stop()
    expect(around.said.slice(0, 3).map((line) => /again in (\S+) s/.exec(line)?.[1])).toEqual([
      '0.5',
      '1',
      '2',
    ])
    expect(around.said[1]).toContain('exit code 9')
  })

  test('is not started faster again because it has failed for long', async () => {
    const port = await freePort()
    const marker = join(around.directory, 'ran')
    const script = `
      const fs = require('node:fs')
      if (fs.existsSync(${JSON.stringify(marker)})) process.exit(9)
      fs.writeFileSync(${JSON.stringify(marker)}, '')
      ${serve(port)}`
    const healthUrl = `http://127.0.0.1:${port}/`
    // It is dead for longer than it would have to serve.
    const backOffMs = [100, 200, 300, 400]
    const patience = { backOffMs, steadyMs: 250, stopMsMax: 20_000 }
    const part = around.part('doomed', script, { healthUrl }, patience)
    await part.start()
    process.kill(Number(part.pid), 'SIGKILL')
    await until('six restarts', () => around.said.length >= 6)
    await part.stop()
    const pauses = around.said.map((line) => /again in (\S+) s/.exec(line)?.[1])
    // Whether it served long enough at first, a machine decides; after that it never served.
    expect(pauses.slice(0, 6)).toEqual(['0.1', '0.2', '0.3', '0.4', '0.4', '0.4'])
  })

  test('that has served for long is started again after the shortest pause', async () => {
    const port = await freePort()
    const patience = { backOffMs: [10, 10_000], steadyMs: 100, stopMsMax: 20_000 }
    const healthUrl = `http://127.0.0.1:${port}/`
    const part = around.part('steady', serve(port), { healthUrl }, patience)
    await part.start()
    for (let times = 1; times <= 3; times++) {
      await new Promise((resolve) => setTimeout(resolve, patience.steadyMs + 1))
      process.kill(Number(part.pid), 'SIGKILL')
      const isBack = (/** @type {string} */ line) => line.includes('is back after')
      await until('it is back', () => around.said.filter(isBack).length === times)
    }
    await part.stop()
    expect(around.said.filter((line) => line.includes('again in 0.01 s'))).toHaveLength(3)
  })

  test('that does not stop is killed, with what it has started', async () => {
    const file = join(around.directory, 'stubborn')
    const stubborn = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)"
    const script = `
      ${stubborn}
      const script = ${JSON.stringify(`${stubborn}; console.log('deaf')`)}
      const child = require('node:child_process').spawn(process.execPath, ['-e', script])
      child.stdout.once('data', () =>
        require('node:fs').writeFileSync(${JSON.stringify(file)}, String(child.pid)))`
    const patience = { backOffMs: [10], steadyMs: 1_000, stopMsMax: 300 }
    const part = around.part('stubborn', script, {}, patience)
    await part.start()
    await until('both are deaf', () => existsSync(file) && readFileSync(file, 'utf8') !== '')
    const pids = [Number(part.pid), Number(readFileSync(file, 'utf8'))]
    expect(pids.map(isAlive)).toEqual([true, true])
    await part.stop()
    await until('both are gone', () => !pids.some(isAlive))
    expect(around.said).toEqual([
      'stubborn did not stop within 0.3 s and is killed',
      expect.stringContaining('stubborn ended with SIGKILL'),
    ])
  })

  test('that may finish is left alone when it has', async () => {
    const script = "setTimeout(() => console.log('all 10 acknowledged'), 700)"
    const part = around.part('finite', script, { mayFinish: true })
    await part.start()
    await until('it has finished', () => around.said.length > 0)
    expect(around.said).toEqual(['finite has finished: all 10 acknowledged'])
    await part.stop()
  })

  test('can be stopped before it serves', async () => {
    const port = await freePort()
    const part = around.part('slow', FOREVER, { healthUrl: `http://127.0.0.1:${port}/` })
    const started = part.start()
    await until('it runs', () => part.pid !== undefined)
    const pid = Number(part.pid)
    await part.stop()
    await started
    expect(isAlive(pid)).toBe(false)
  })

  test('takes what it has started with it', async () => {
    const file = join(around.directory, 'child')
    const script = `
      const { spawn } = require('node:child_process')
      const child = spawn(process.execPath, ['-e', ${JSON.stringify(FOREVER)}])
      require('node:fs').writeFileSync(${JSON.stringify(file)}, String(child.pid))
      ${FOREVER}`
    const part = around.part('parent', script)
    await part.start()
    await until('it has a child', () => existsSync(file) && readFileSync(file, 'utf8') !== '')
    const child = Number(readFileSync(file, 'utf8'))
    expect(isAlive(child)).toBe(true)
    await part.stop()
    await until('the child is gone', () => !isAlive(child))
  })
})

describe('a log', () => {
  test('says in plain words what a JSON line says', () => {
    expect(plain('{"level":50,"msg":"cannot listen","err":{"message":"EACCES"}}')).toBe(
      'cannot listen: EACCES',
    )
    expect(plain('{"a":1}')).toBe('{"a":1}')
    expect(plain('{broken')).toBe('{broken')
    expect(plain(' panicked ')).toBe('panicked')
  })

  test('gives the lines that are new, whole ones only', () => {
    const log = new LogFile(join(around.directory, 'new.log'))
    appendFileSync(log.path, 'old\n')
    log.open()
    appendFileSync(log.path, 'grün\nha')
    expect(log.newLines()).toEqual(['grün'])
    appendFileSync(log.path, 'lf\n')
    expect(log.newLines()).toEqual(['half'])
    expect(log.newLines()).toEqual([])
  })

  test('that has grown too long is moved aside', () => {
    const log = new LogFile(join(around.directory, 'long.log'))
    log.open()
    log.rotate()
    expect(existsSync(`${log.path}.1`)).toBe(false)
    appendFileSync(log.path, `${'x'.repeat(17 * 1024 * 1024)}\n`)
    log.rotate()
    expect(existsSync(`${log.path}.1`)).toBe(true)
    appendFileSync(log.path, 'after\n')
    expect(log.newLines()).toEqual(['after'])
    expect(log.lastLine()).toBe('after')
  })
})
