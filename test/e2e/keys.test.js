// Keys of thousands of devices: all are listed, page by page, found by name and by sensor, on the
// page and by the command.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { ClaimStore } from '@sandglass/common/claim-store'
import { KeyStore } from '@sandglass/common/key-store'
import { sensorId } from '@sandglass/common/sensor'
import cassandra from 'cassandra-driver'
import { Browser } from '../support/browser.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { publishAll } from '../support/rest.js'
import { startStack } from '../support/stack.js'

/** As many as do not come in one answer of the database. */
const KEYS = 25_000
const nameOf = (/** @type {number} */ n) => `device ${String(n).padStart(5, '0')}`

/** @type {import('../support/stack.js').Stack} */
let stack
/** As the command has them: another process than the api. @type {KeyStore} */
let keys

beforeAll(async () => {
  stack = await startStack()
  await publishAll(stack.apiUrl, [{ sensor: `unit-${KEYS - 1}`, level: 1 }])
  await stack.emptied()
  const client = await stack.client()
  await cassandra.concurrent.executeConcurrent(
    client,
    `INSERT INTO ${stack.keyspace}.credential (key_id, hash, name, scopes, sensor_id, created_at)
     VALUES (?, ?, ?, ?, ?, ?)`,
    Array.from({ length: KEYS }, (_, n) => {
      const sensor = cassandra.types.Uuid.fromString(sensorId(`unit-${n}`))
      return [`k${n}`, Buffer.alloc(32, n), nameOf(n), ['write'], sensor, new Date()]
    }),
    { concurrencyLevel: 64 },
  )
  const database = /** @type {any} */ ({ client, keyspace: stack.keyspace, isUp: true })
  keys = new KeyStore({ database })
  // It sorts before all others.
  await keys.create({
    name: 'a person',
    scopes: new Set(['read']),
    sensorId: undefined,
    expiresMs: undefined,
  })
  const claims = new ClaimStore({ database, keys })
  for (const sensor of ['b', 'a', 'c']) {
    const about = { name: sensor, scopes: new Set(['write']), expiresMs: undefined }
    await claims.create({ ...about, sensor, sensorId: sensorId(sensor) })
  }
})
afterAll(() => stack?.end())

/** @param {string} path  @returns {Promise<{ status: number, body: any }>} */
async function get(path) {
  const response = await fetch(`${stack.apiUrl}${path}`)
  return { status: response.status, body: await response.json() }
}

/** All pages. @param {string} path */
async function all(path) {
  const items = []
  let cursor = ''
  do {
    const { status, body } = await get(`${path}${cursor && `&cursor=${cursor}`}`)
    if (status !== 200) throw new Error(JSON.stringify(body))
    items.push(...body.items)
    cursor = body.next
  } while (cursor)
  return items
}

test('every key is listed once, by name, page by page', async () => {
  const items = await all('/v1/keys?limit=1000')
  const devices = Array.from({ length: KEYS }, (_, n) => nameOf(n))
  expect(items.map(({ name }) => name)).toEqual(['a person', ...devices])
  const last = { sensor: sensorId(`unit-${KEYS - 1}`), sensor_name: `unit-${KEYS - 1}` }
  // Only of the last one something was heard.
  expect(items.slice(-2)).toMatchObject([{ sensor_name: null }, last])
})

test('a page is short if nothing is said, and says how many there are', async () => {
  const { body } = await get('/v1/keys')
  expect([body.items.length, body.total]).toEqual([100, KEYS + 1])
})

test.each([
  ['by a part of its name', 'ice 0001', 10],
  ['by its sensor', 'unit-24999', 1],
  ['not by what is in neither', 'unit-2500x', 0],
  ['not by what no sensor can be called', 'unit/1', 0],
])('a key is found %s', async (_how, q, count) => {
  const { body } = await get(`/v1/keys?q=${encodeURIComponent(q)}`)
  expect([body.items.length, body.total]).toEqual([count, count])
})

test('a cursor of another question is refused', async () => {
  const { body } = await get('/v1/keys?limit=10')
  const other = await get(`/v1/keys?q=device&cursor=${body.next}`)
  expect([other.status, other.body.parameter]).toEqual([400, 'cursor'])
  const claims = await get(`/v1/claims?cursor=${body.next}`)
  expect([claims.status, claims.body.parameter]).toEqual([400, 'cursor'])
})

test('a key that was made is found at once, by whomever, and one that was taken back is not', async () => {
  const found = async () => (await get('/v1/keys?q=just made')).body.total
  expect(await found()).toBe(0)
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ name: 'just made', scopes: ['read'] })
  const made = await fetch(`${stack.apiUrl}/v1/keys`, { method: 'POST', headers, body })
  const { id } = await made.json()
  expect(await found()).toBe(1)
  const about = { scopes: new Set(['read']), sensorId: undefined, expiresMs: undefined }
  const { keyId } = await keys.create({ name: 'just made, too', ...about })
  expect(await found()).toBe(2)
  await keys.revoke(keyId)
  expect(await found()).toBe(1)
  await fetch(`${stack.apiUrl}/v1/keys/${id}`, { method: 'DELETE' })
  expect(await found()).toBe(0)
})

test('claim keys are listed by sensor, page by page, and found by it', async () => {
  const items = await all('/v1/claims?limit=2')
  expect(items.map(({ sensor }) => sensor)).toEqual(['a', 'b', 'c'])
  const { body } = await get('/v1/claims?q=b')
  expect([body.items.map((/** @type {any} */ { sensor }) => sensor), body.total]).toEqual([
    ['b'],
    1,
  ])
})

test('the command lists them all', async () => {
  const args = ['common/keys/main.js', 'list', '--cql-hosts', stack.cqlHosts]
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...args, '--cql-keyspace', stack.keyspace],
    { cwd: new URL('../..', import.meta.url), maxBuffer: 64 << 20 },
  )
  expect(stdout.match(/device \d{5}/g)).toHaveLength(KEYS)
})

describeWith(missingPrograms(['chromium']), 'on the page', () => {
  test('keys are found, and paged', async () => {
    const browser = await Browser.open()
    try {
      const { page } = browser
      await page.goto(`${stack.apiUrl}/#/keys`)
      const rows = page.locator('[data-part="key-rows"] tr')
      await page.getByText('25,001 keys; these are a person to device 00098').waitFor()
      await page.getByRole('link', { name: 'More keys' }).click()
      await page.getByText('these are device 00099 to device 00198').waitFor()
      await page.getByLabel('Find').fill('unit-777')
      await rows.filter({ hasText: 'device 00777' }).waitFor()
      expect(await rows.count()).toBe(1)
      await page.getByText('1 key found').waitFor()
      expect(browser.errors).toEqual([])
    } finally {
      await browser.close()
    }
  })
})

test.each(['/v1/keys', '/v1/claims'])('a page of %s has a longest', async (path) => {
  const { status, body } = await get(`${path}?limit=1001`)
  expect([status, body.parameter]).toEqual([400, 'limit'])
})
