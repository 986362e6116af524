import { KEY_BELIEVED_MS, KeyStore, KeysAway } from '../src/key-store.js'
import { createKey, isSecret, parseKey } from '../src/keys.js'

/** A database of keys that counts what it is asked. */
function build() {
  /** @type {Map<string, any>} */
  const rows = new Map()
  const clock = { nowMs: 1_000 }
  const database = {
    keyspace: 'k',
    isUp: true,
    asked: 0,
    client: {
      /** @param {string} query  @param {any[]} params */
      async execute(query, params) {
        database.asked++
        if (!database.isUp) throw new Error('away')
        const [id] = params
        if (query.startsWith('INSERT')) {
          const [key_id, hash, name, scopes, sensor_id, expires] = params
          const at = expires === null ? null : new Date(expires)
          rows.set(id, { key_id, hash, name, scopes, sensor_id, expires: at })
        } else if (query.startsWith('DELETE')) {
          rows.delete(id)
        }
        if (!query.startsWith('SELECT')) return { rows: [] }
        if (id === undefined) return { rows: [...rows.values()] }
        return { rows: rows.has(id) ? [rows.get(id)] : [] }
      },
    },
  }
  const keys = new KeyStore({ database, now: () => clock.nowMs })
  const about = { name: 'n', scopes: new Set(['read']), sensorId: undefined, expiresMs: undefined }
  return { rows, clock, database, keys, about }
}

test('a key is told apart from everything that is none, and from every other one', () => {
  const { text, keyId, hash } = createKey()
  const parts = parseKey(text)
  expect(parts?.keyId).toBe(keyId)
  expect(isSecret(hash, parts?.secret ?? '')).toBe(true)
  expect(isSecret(hash, parseKey(createKey().text)?.secret ?? '')).toBe(false)
  for (let at = 0; at < text.length; at++) {
    const changed = `${text.slice(0, at)}${text[at] === 'a' ? 'b' : 'a'}${text.slice(at + 1)}`
    const its = parseKey(changed)
    const isSame = its?.keyId === keyId && isSecret(hash, its.secret)
    // The last character of 32 bytes in base64 has two bits that mean nothing.
    expect(isSame && at < text.length - 1).toBe(false)
    expect(parseKey(text.slice(0, at))).toBeUndefined()
  }
})

test('what is stored does not tell the secret', async () => {
  const { keys, rows, about } = build()
  const { text } = await keys.create(about)
  const stored = JSON.stringify([...rows.values()], (_, value) =>
    value?.type === 'Buffer' ? Buffer.from(value.data).toString('base64url') : value,
  )
  expect(stored).not.toContain(text.slice('sg_0123456789abcdef_'.length))
  expect(await keys.find(text)).toMatchObject({ name: 'n', scopes: new Set(['read']) })
  expect(await keys.list()).toHaveLength(1)
})

test('a revoked key works for seconds at most, an expired one not at all', async () => {
  const { keys, clock, database, about } = build()
  const { text, keyId } = await keys.create({ ...about, expiresMs: 60_000 })
  expect(await keys.find(text)).toBeDefined()
  const other = new KeyStore({ database, now: () => clock.nowMs })
  expect(await other.find(text)).toBeDefined()
  expect(await keys.revoke(keyId)).toBe(true)
  expect(await keys.revoke(keyId)).toBe(false)
  expect(await keys.find(text)).toBeUndefined()
  clock.nowMs += KEY_BELIEVED_MS
  expect(await other.find(text)).toBeUndefined()

  const late = await keys.create({ ...about, expiresMs: clock.nowMs + 5 })
  expect(await keys.find(late.text)).toBeDefined()
  clock.nowMs += 5
  expect(await keys.find(late.text)).toBeUndefined()
})

test('while the database is away, keys that were used lately still work', async () => {
  const { keys, clock, database, about } = build()
  const { text } = await keys.create(about)
  const { text: unused } = await keys.create(about)
  await keys.find(text)
  database.isUp = false
  clock.nowMs += 3_600_000
  expect(await keys.find(text)).toBeDefined()
  await expect(keys.find(unused)).rejects.toThrow(KeysAway)
})

test('a key that is used all the time is asked for once in a while, known or not', async () => {
  const { keys, database, about } = build()
  const { text } = await keys.create(about)
  const stranger = createKey().text
  const before = database.asked
  for (let n = 0; n < 100; n++) {
    await keys.find(text)
    await keys.find(stranger)
    await keys.find('nonsense')
  }
  expect(database.asked - before).toBe(2)
})
