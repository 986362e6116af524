// Keys from end to end: made by the command, asked for by the api and MQTT, taken back.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import mqtt from 'mqtt'
import { SPOOLED_LATE, startStack } from '../support/stack.js'
import { until } from '../support/until.js'

const run = promisify(execFile)
const KEYS = fileURLToPath(new URL('../../common/keys/main.js', import.meta.url))

/** Where the secret of a key begins. */
const SECRET_AT = 'sg_0123456789abcdef_'.length

/** @type {import('../support/stack.js').Stack} */
let stack
/** @type {Record<string, string>} */
const keys = {}

/** @param {string[]} args */
async function command(...args) {
  const where = ['--cql-hosts', stack.cqlHosts, '--cql-keyspace', stack.keyspace]
  const { stdout } = await run(process.execPath, [KEYS, ...where, ...args], { timeout: 30_000 })
  return stdout.trim()
}

beforeAll(async () => {
  const env = { REQUIRE_KEYS: 'true' }
  stack = await startStack({ ingestEnv: { ...SPOOLED_LATE, ...env }, apiEnv: env })
  for (const scope of ['read', 'write', 'manage']) {
    keys[scope] = await command('create', '--name', `test ${scope}`, '--scopes', scope)
  }
  const device = ['--name', 'boiler', '--scopes', 'write', '--sensor', 'boiler']
  keys.device = await command('create', ...device)
})
afterAll(() => stack?.end())

/** @param {string} path  @param {string} [key]  @param {RequestInit} [init] */
async function ask(path, key, init = {}) {
  const headers = key ? { authorization: `Bearer ${key}` } : undefined
  const signal = AbortSignal.timeout(10_000)
  const response = await fetch(`${stack.apiUrl}${path}`, { ...init, headers, signal })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json')
  return { status: response.status, body: isJson ? JSON.parse(text) : text }
}

/** @param {string} password  @param {string} clientId */
function connect(password, clientId) {
  return mqtt.connectAsync(
    stack.mqttUrl,
    { username: 'any', password, clientId, reconnectPeriod: 0 },
    false,
  )
}

describe('keys', () => {
  test('without one, nothing is told and nobody is let in', async () => {
    expect((await ask('/v1/sensors')).status).toBe(401)
    expect((await ask('/health')).status).toBe(200)
    await expect(connect('sg_0123456789abcdef_nonsense', 'x')).rejects.toThrow('password')
  })

  test('a device publishes what is its own, and somebody with the right to reads it', async () => {
    const device = await connect(keys.device, 'd')
    await device.publishAsync('sensors/boiler/temperature', '60', { qos: 1 })
    await device.publishAsync('sensors/other/temperature', '61', { qos: 1 })
    await device.endAsync()
    const latest = await ask('/v1/sensors/boiler/latest', keys.read)
    expect(latest.body.items).toMatchObject([{ metric: 'temperature', v: 60 }])
    expect((await ask('/v1/sensors/other', keys.read)).status).toBe(404)
    const { body } = await ask('/v1/dead-letters', keys.read)
    expect(body.items).toMatchObject([{ topic: 'sensors/other/temperature', client: 'd' }])
    expect((await ask('/v1/sensors/boiler/latest', keys.write)).status).toBe(403)
    await until('its leave is known', async () => {
      const { items } = (await ask('/v1/sensors/boiler/status', keys.read)).body
      return items.map((/** @type {any} */ one) => one.state).join() === 'offline,online'
    })
  })

  test('a dead letter over HTTP has the key for its client', async () => {
    const init = { method: 'POST', body: 'temperature,sensor=a value=x' }
    const headers = { 'content-type': 'text/plain', authorization: `Token ${keys.write}` }
    const response = await fetch(`${stack.apiUrl}/api/v2/write`, { ...init, headers })
    expect(response.status).toBe(400)
    await response.body?.cancel()
    const { body } = await ask('/v1/dead-letters?limit=1', keys.read)
    expect(body.items[0].client).toBe(`key ${keys.write.split('_')[1]}`)
  })

  test('while the database is away, a device that was served lately can come back', async () => {
    await stack.databaseAway()
    await until('ingest has noticed', async () => (await stack.stats()).database === 'down')
    const device = await connect(keys.device, 'd')
    // It is acknowledged by the spool.
    await device.publishAsync('sensors/boiler/temperature', '62', { qos: 1 })
    await device.endAsync()
    await stack.databaseBack()
    await stack.emptied()
    await until('it is read', async () => {
      const { status, body } = await ask('/v1/sensors/boiler/latest', keys.read)
      return status === 200 && body.items[0].v === 62
    })
  })

  test('one that was revoked is refused within seconds, on open connections, too', async () => {
    const [reader, writer] = [await connect(keys.read, 'r'), await connect(keys.write, 'w')]
    const listed = await command('list')
    expect(listed.split('\n')).toHaveLength(4)
    for (const key of Object.values(keys)) expect(listed).not.toContain(key.slice(SECRET_AT))
    await command('revoke', keys.read.split('_')[1])
    await until('it is refused', async () => (await ask('/v1/sensors', keys.read)).status === 401, {
      deadlineMs: 20_000,
    })
    await until('its connection is closed', () => !reader.connected, { deadlineMs: 20_000 })
    await expect(connect(keys.read, 'r')).rejects.toThrow('password')
    // The others were asked for, too, and are good.
    await writer.publishAsync('sensors/pump/pressure', '5', { qos: 1 })
    await writer.endAsync()
  })
})
