import { spawnSync } from 'node:child_process'
import { address, addresses, bytes, integer, number, oneOf, url } from '@sandglass/common/options'

test.each([
  ['127.0.0.1:1883', { host: '127.0.0.1', port: 1883 }],
  ['[::1]:80', { host: '::1', port: 80 }],
  ['localhost:0', { host: 'localhost', port: 0 }],
])('%s is an address', (text, expected) => {
  expect(address(text)).toEqual(expected)
})

test.each(['', '1883', ':1883', 'host:', 'host:65536', 'a b:1', 'host:1:2'])(
  '%j is refused as an address, with an example',
  (text) => {
    expect(() => address(text)).toThrow('HOST:PORT')
  },
)

test('several addresses are separated by commas', () => {
  expect(addresses('a:1, b:2')).toEqual([
    { host: 'a', port: 1 },
    { host: 'b', port: 2 },
  ])
})

test.each([
  ['1', 1],
  ['256KiB', 262_144],
  ['64 mib', 67_108_864],
  ['1GiB', 1_073_741_824],
])('%s is a size in bytes', (text, expected) => {
  expect(bytes(1, 2 ** 31)(text)).toBe(expected)
})

test.each(['0', '-1', '1.5MiB', '64MB', '3GiB', 'much'])('%j is refused as a size', (text) => {
  expect(() => bytes(1, 2 ** 31)(text)).toThrow('Give a size from 1 to 2147483648 bytes')
})

test('numbers outside their range, and text, are refused with the range', () => {
  expect(integer(1, 10)('10')).toBe(10)
  for (const text of ['0', '11', '1.5', 'x', '']) {
    expect(() => integer(1, 10)(text)).toThrow('from 1 to 10')
  }
  expect(number(0, 1)('0.5')).toBe(0.5)
  for (const text of ['1.1', '', 'NaN']) expect(() => number(0, 1)(text)).toThrow('from 0 to 1')
})

test('a name that is not offered, and a URL of another kind, are refused', () => {
  expect(() => oneOf(['a', 'b'])('c')).toThrow('one of a, b')
  expect(url('mqtt:', 'mqtts:')('mqtt://h:1')).toBe('mqtt://h:1')
  expect(() => url('mqtt:')('http://h')).toThrow('mqtt://')
})

describe('a command line', () => {
  const script = `
    import { allowRemote, integer, readOptions } from '@sandglass/common/options'
    const options = [allowRemote,
      { flag: '--clients-max <n>', help: 'most clients', default: '5', parse: integer(1, 9) }]
    const about = { name: 'x', description: 'y', options }
    console.log(JSON.stringify(readOptions(about, process.argv)))`

  /** @param {string[]} args @param {Record<string, string>} env */
  const run = (args, env = {}) =>
    spawnSync(process.execPath, ['--input-type=module', '-e', script, 'x', ...args], {
      encoding: 'utf8',
      env: { ...process.env, ...env },
      cwd: import.meta.dirname,
    })

  test('a default gives way to the environment, and the environment to a flag', () => {
    const env = { CLIENTS_MAX: '6', ALLOW_REMOTE: 'true' }
    expect(JSON.parse(run([]).stdout)).toEqual({ allowRemote: false, clientsMax: 5 })
    expect(JSON.parse(run([], env).stdout)).toEqual({ allowRemote: true, clientsMax: 6 })
    expect(JSON.parse(run(['--clients-max', '7'], env).stdout).clientsMax).toBe(7)
    expect(JSON.parse(run([], { ALLOW_REMOTE: 'false' }).stdout).allowRemote).toBe(false)
  })

  test.each([
    [['--clients-max', '10'], {}, '--clients-max'],
    [[], { CLIENTS_MAX: 'ten' }, 'CLIENTS_MAX'],
    [['--clients'], {}, '--clients'],
  ])('nonsense %j %j ends with code 2 and names the option', (args, env, name) => {
    const { status, stderr } = run(args, /** @type {Record<string, string>} */ (env))
    expect(status).toBe(2)
    expect(stderr).toContain(name)
    expect(stderr.trim().split('\n')).toHaveLength(1)
  })

  test('the help names the environment variable and the default', () => {
    const { status, stdout } = run(['--help'])
    expect(status).toBe(0)
    expect(stdout).toContain('CLIENTS_MAX')
    expect(stdout).toContain('default: 5')
  })
})
