import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { checkPorts } from '../../launch/ports.js'
import { atLeast, checkMachine } from '../../launch/requirements.js'
import { isInstalled } from '../../launch/setup.js'
import { freePort } from './support.js'

const MAIN = fileURLToPath(new URL('../../launch/main.js', import.meta.url))

describe('a version', () => {
  test.each([
    ['1.95.0', '1.95', true],
    ['1.100.0', '1.95', true],
    ['2.0', '1.95.1', true],
    ['1.95', '1.95.1', false],
    ['1.94.9', '1.95', false],
    ['18.19.1', '20', false],
    ['20.0.0', '20', true],
  ])('%s against %s', (version, minimum, enough) => {
    expect(atLeast(version, minimum)).toBe(enough)
  })
})

describe('a machine', () => {
  test('that is no Linux is refused', () => {
    const machine = { platform: 'darwin', nodeVersion: '22.0.0' }
    expect(() => checkMachine(machine)).toThrow(/Linux, and this is darwin/)
  })

  test('with too old a Node is refused', () => {
    const machine = { platform: 'linux', nodeVersion: '18.20.0' }
    expect(() => checkMachine(machine)).toThrow(/18\.20\.0 is too old: .* Node 20 or newer/)
  })
})

describe('npm packages', () => {
  const wanted = {
    packages: {
      '': {},
      api: { version: '0.1.0' },
      'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' },
      'node_modules/@sandglass/api': { link: true },
      'node_modules/other-system': { version: '1.0.0', optional: true },
    },
  }
  const there = {
    'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' },
    'node_modules/@sandglass/api': { link: true },
  }

  test('as the lockfile says need nothing', () => {
    expect(isInstalled(wanted, { packages: there })).toBe(true)
  })

  test.each([
    ['one is missing', { 'node_modules/a': undefined }],
    [
      'one is of another version',
      { 'node_modules/a': { version: '2.0.0', integrity: 'sha512-a' } },
    ],
    ['one has other contents', { 'node_modules/a': { version: '1.0.0', integrity: 'sha512-b' } }],
    ['a workspace is missing', { 'node_modules/@sandglass/api': undefined }],
  ])('are installed when %s', (_, changed) => {
    const packages = JSON.parse(JSON.stringify({ ...there, ...changed }))
    expect(isInstalled(wanted, { packages })).toBe(false)
  })
})

describe('ports', () => {
  const listener = { what: 'MQTT', flag: '--mqtt-listen' }

  test('that are free are no trouble', async () => {
    const address = { host: '127.0.0.1', port: await freePort() }
    await expect(checkPorts([{ ...listener, address }])).resolves.toBeUndefined()
  })

  test('that are taken are named with who has them and how to choose another', async () => {
    const server = createServer()
    await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)))
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
    const check = checkPorts([{ ...listener, address: { host: '127.0.0.1', port } }])
    await expect(check).rejects.toThrow(`port ${port} (MQTT) is taken by process ${process.pid} (`)
    await expect(check).rejects.toThrow(
      'choose another with --mqtt-listen HOST:PORT (or MQTT_LISTEN)',
    )
    server.close()
  })

  test('tell who has them if a descriptor of that one closes meanwhile', async () => {
    // Descriptors are listed through the lowest one that is free, which is closed then.
    const lower = openSync('/dev/null', 'r')
    const server = createServer()
    await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)))
    closeSync(lower)
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
    const check = checkPorts([{ ...listener, address: { host: '127.0.0.1', port } }])
    await expect(check).rejects.toThrow(`is taken by process ${process.pid} (`)
    server.close()
  })

  test('that two parts share are refused', async () => {
    const address = { host: '127.0.0.1', port: await freePort() }
    const other = { what: 'CQL', flag: '--db-listen', address }
    await expect(checkPorts([{ ...listener, address }, other])).rejects.toThrow(
      /CQL and MQTT are both given/,
    )
  })

  test('on an address that is not ours are refused', async () => {
    const address = { host: '192.0.2.1', port: 1883 }
    await expect(checkPorts([{ ...listener, address }])).rejects.toThrow(/EADDRNOTAVAIL/)
  })
})

describe('the launcher', () => {
  /** @type {string} */
  let directory
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'sandglass-path-'))
  })
  afterAll(() => rmSync(directory, { recursive: true }))

  /**
   * Runs it with nothing on the PATH but these tools, each of which says its version.
   *
   * @param {Record<string, string>} tools
   * @param {string[]} args
   */
  function launch(tools, args = ['start']) {
    const bin = mkdtempSync(join(directory, 'bin-'))
    mkdirSync(bin, { recursive: true })
    symlinkSync('/bin/sh', join(bin, 'sh'))
    for (const [tool, version] of Object.entries(tools)) {
      writeFileSync(join(bin, tool), `#!/bin/sh\necho "${tool} ${version}"\n`)
      chmodSync(join(bin, tool), 0o755)
    }
    const { CQL_HOSTS: _, ...env } = process.env
    const options = {
      env: { ...env, PATH: bin, NODE_OPTIONS: '' },
      encoding: 'utf8',
      timeout: 20_000,
    }
    return spawnSync(process.execPath, [MAIN, ...args], /** @type {any} */ (options))
  }

  test.each([
    [{}, /^cargo is missing: install Rust/],
    [{ cargo: '1.95.0' }, /^rustc is missing: install Rust/],
    [{ cargo: '1.60.0', rustc: '1.60.0' }, /^rustc 1\.60\.0 is too old: .*rustup update/],
    [{ cargo: '9.0.0', rustc: '9.0.0' }, /^a C compiler \(cc\) is missing: .*build-essential/],
  ])('says in one line what is missing: %j', (tools, message) => {
    const { status, stderr, stdout } = launch(tools)
    expect(String(stderr)).toMatch(message)
    expect(String(stderr).trim().split('\n')).toHaveLength(1)
    expect(stdout).toBe('')
    expect(status).toBe(1)
  })

  const TOOLS = { cargo: '9.0.0', rustc: '9.0.0', cc: '12.2.0' }

  test.each([
    [['start', '--mqtt-listen', 'nonsense'], 2, /--mqtt-listen.*HOST:PORT/],
    [['start', '--mqtt-listen', '0.0.0.0:1883'], 1, /--mqtt-listen .*--allow-remote/],
    [['demo', '--data-dir', 'data'], 1, /for real readings/],
    [['demo', '--sensors', '0'], 2, /--sensors/],
    [['neither'], 1, /^usage: /],
  ])('refuses %j', (args, code, message) => {
    const { status, stderr } = launch(TOOLS, args)
    expect(String(stderr)).toMatch(message)
    expect(status).toBe(code)
  })

  test('explains itself', () => {
    const { status, stdout } = launch({}, ['demo', '--help'])
    expect(status).toBe(0)
    for (const flag of [
      '--data-dir',
      '--db-listen',
      '--mqtt-listen',
      '--api-listen',
      '--sensors',
    ]) {
      expect(stdout).toContain(flag)
    }
  })

  test('says which port is taken', async () => {
    const server = createServer()
    await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)))
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
    const { status, stderr } = launch(TOOLS, [
      'demo',
      `--data-dir=${directory}`,
      `--db-listen=127.0.0.1:${port}`,
    ])
    expect(String(stderr)).toMatch(new RegExp(`port ${port} \\(CQL\\) is taken .*--db-listen`))
    expect(status).toBe(1)
    server.close()
  })
})
