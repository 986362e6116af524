// A device that has only a claim key gets its own key, once, however many ask by it at the same
// moment, of several api processes; and it is served by that key, as the device of its sensor.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { KeyStore } from '@sandglass/common/key-store'
import mqtt from 'mqtt'
import { startStack } from '../support/stack.js'
import { until } from '../support/until.js'

/** @type {import('../support/stack.js').Stack} */
let stack
/** Of the api processes. @type {string[]} */
let urls = []
let admin = ''

beforeAll(async () => {
  const env = { REQUIRE_KEYS: 'true', RATE_LIMIT: '0' }
  stack = await startStack({ ingestEnv: env, apiEnv: env })
  const other = await stack.addApi('api-2', env)
  await other.part.start()
  urls = [stack.apiUrl, other.url]
  const database = { client: await stack.client(), keyspace: stack.keyspace, isUp: true }
  const keys = new KeyStore({ database: /** @type {any} */ (database) })
  const about = { name: 'admin', scopes: new Set(['admin', 'read']), sensorId: undefined }
  admin = (await keys.create({ ...about, expiresMs: undefined })).text
})
afterAll(() => stack?.end())

/**
 * @param {string} method
 * @param {string} path
 * @param {string} key
 * @param {unknown} [body]
 * @param {string} [url]
 */
async function ask(method, path, key, body, url = urls[0]) {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
}

/** @param {string} sensor  @param {Record<string, unknown>} [more] */
async function makeClaim(sensor, more = {}) {
  const { status, body } = await ask('POST', '/v1/claims', admin, { sensor, ...more })
  expect(status).toBe(201)
  return body
}

/** @param {string} claim  @param {string} [url] */
const claimBy = (claim, url) => ask('POST', '/v1/claim', claim, undefined, url)

const keysOf = async () => (await ask('GET', '/v1/keys', admin)).body.items
/** @param {string} id */
const claimOf = async (id) =>
  (await ask('GET', '/v1/claims', admin)).body.items.find((/** @type {any} */ one) => one.id === id)

/** @param {string} password @param {string} topic */
async function publishes(password, topic) {
  const client = await mqtt
    .connectAsync(stack.mqttUrl, {
      protocolVersion: 5,
      username: 'x',
      password,
      reconnectPeriod: 0,
    })
    .catch(() => undefined)
  if (!client) return 'refused'
  const isStored = await client.publishAsync(topic, '1', { qos: 1 }).then(
    () => 'stored',
    () => 'forbidden',
  )
  await client.endAsync(true)
  return isStored
}

test('the key that a device gets is that of its sensor, and works', async () => {
  const { id, claim } = await makeClaim('boiler')
  expect(await publishes(claim, 'sensors/boiler/heat')).toBe('refused')
  expect((await ask('GET', '/v1/sensors', claim)).status).toBe(401)
  const { status, body } = await claimBy(claim)
  expect([status, body.sensor]).toEqual([201, 'boiler'])
  expect(await publishes(body.key, 'sensors/boiler/heat')).toBe('stored')
  expect(await publishes(body.key, 'sensors/other/heat')).toBe('forbidden')
  expect(await claimOf(id)).toMatchObject({ sensor: 'boiler', key: body.id })
  const again = await claimBy(claim, urls[1])
  expect([again.status, again.body.type]).toEqual([409, expect.stringContaining('already-claimed')])
})

test.each([2, 50])(
  'of %i at once one gets a key, and no other key is left',
  async (count) => {
    for (let round = 0; round < (count === 2 ? 25 : 3); round++) {
      const before = (await keysOf()).length
      const { claim } = await makeClaim(`racer-${count}-${round}`)
      const answers = await Promise.all(
        Array.from({ length: count }, (_, n) => claimBy(claim, urls[n % urls.length])),
      )
      expect(answers.map(({ status }) => status).sort()).toEqual([
        201,
        ...Array(count - 1).fill(409),
      ])
      expect(await keysOf()).toHaveLength(before + 1)
    }
  },
  60_000,
)

test('it stays spent after a restart of the database and of the api', async () => {
  const { claim } = await makeClaim('pump')
  expect((await claimBy(claim)).status).toBe(201)
  await stack.part('api').kill9()
  await stack.databaseAway()
  await stack.databaseBack()
  await stack.part('api').start()
  const settled = async () => [401, 409].includes((await claimBy(claim)).status)
  await until('it is answered', settled, { deadlineMs: 30_000 })
  expect((await claimBy(claim)).status).toBe(409)
})

test('one that is reset can be used again, and the key that was got before cannot', async () => {
  const { id, claim } = await makeClaim('fan')
  const first = (await claimBy(claim)).body
  expect((await ask('POST', `/v1/claims/${id}/reset`, admin)).status).toBe(204)
  expect((await keysOf()).map((/** @type {any} */ one) => one.id)).not.toContain(first.id)
  const second = (await claimBy(claim)).body
  expect(second.key).not.toBe(first.key)
  expect(await publishes(second.key, 'sensors/fan/heat')).toBe('stored')
  expect(await publishes(first.key, 'sensors/fan/heat')).toBe('refused')
  expect((await claimBy(claim)).status).toBe(409)
  expect((await ask('POST', '/v1/claims/nobody/reset', admin)).status).toBe(404)
})

test('one that has expired, was taken back or was never made gets nothing', async () => {
  const soon = await makeClaim('late', { expires: new Date(Date.now() + 1_500).toISOString() })
  const back = await makeClaim('gone')
  expect((await ask('DELETE', `/v1/claims/${back.id}`, admin)).status).toBe(204)
  expect((await ask('DELETE', `/v1/claims/${back.id}`, admin)).status).toBe(404)
  expect((await claimBy(back.claim)).status).toBe(401)
  await new Promise((resolve) => setTimeout(resolve, 1_600))
  expect((await claimBy(soon.claim)).status).toBe(401)
  const wrong = `${soon.claim.slice(0, -2)}AA`
  expect((await claimBy(wrong)).status).toBe(401)
  // The secret of a claim key is no key, nor the other way round.
  expect((await claimBy(admin)).status).toBe(401)
  expect((await ask('POST', '/v1/claims', soon.claim, { sensor: 'x' })).status).toBe(401)
})

test('what is taken back while it is claimed is claimed, or is not there', async () => {
  for (let round = 0; round < 20; round++) {
    const { id, claim } = await makeClaim(`both-${round}`)
    const [claimed] = await Promise.all([
      claimBy(claim, urls[1]),
      ask('DELETE', `/v1/claims/${id}`, admin),
    ])
    expect([201, 401, 409]).toContain(claimed.status)
    expect(await claimOf(id)).toBeUndefined()
    const keys = (await keysOf()).filter((/** @type {any} */ one) =>
      one.name.startsWith(`both-${round},`),
    )
    expect(keys).toHaveLength(claimed.status === 201 ? 1 : 0)
  }
}, 60_000)

test('who guesses is soon not asked any more, and no secret is in a log', async () => {
  const { claim } = await makeClaim('safe')
  const guess = claim.replace(/.$/, (/** @type {string} */ last) => (last === 'A' ? 'B' : 'A'))
  /** @type {number[]} */
  const statuses = []
  for (let n = 0; n < 300; n += 50) {
    const some = await Promise.all(Array.from({ length: 50 }, () => claimBy(guess, urls[1])))
    statuses.push(...some.map(({ status }) => status))
  }
  expect(statuses).toContain(429)
  expect(statuses).not.toContain(201)
  const { status, body } = await claimBy(claim)
  expect(status).toBe(201)
  const log = readFileSync(join(stack.directory, 'api.log'), 'utf8')
  expect(log).toContain('a key was claimed')
  expect(log).toContain(body.id)
  for (const secret of [claim, body.key, claim.slice(21), body.key.slice(20)]) {
    expect(log).not.toContain(secret)
  }
  const metrics = await (
    await fetch(`${urls[1]}/metrics`, { headers: { authorization: `Bearer ${admin}` } })
  ).text()
  expect(metrics).toMatch(/claims_total\{outcome="unknown"\} [1-9]/)
})
