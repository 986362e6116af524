import { describe, expect, test } from '@jest/globals'
import { KeyStore, KeysAway, TooManyUnknownKeys } from '../src/key-store.js'
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
        if (Array.isArray(id)) return { rows: id.flatMap((one) => rows.get(one) ?? []) }
        return { rows: rows.has(id) ? [rows.get(id)] : [] }
      },
    },
  }
  const parts = { database, now: () => clock.nowMs, monotonicMs: () => clock.nowMs }
  const keys = new KeyStore(parts)
  const about = { name: 'n', scopes: new Set(['read']), sensorId: undefined, expiresMs: undefined }
  return { rows, clock, database, parts, keys, about }
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
  expect(await keys.find(text, '10.0.0.1')).toMatchObject({ name: 'n', scopes: new Set(['read']) })
  expect(await keys.list()).toHaveLength(1)
})

test('a revoked key works for seconds at most, an expired one not at all', async () => {
  const { keys, clock, parts, about } = build()
  const { text, keyId } = await keys.create({ ...about, expiresMs: 60_000 })
  expect(await keys.find(text, '10.0.0.1')).toBeDefined()
  const other = new KeyStore(parts)
  expect(await other.find(text, '10.0.0.1')).toBeDefined()
  expect(await keys.revoke(keyId)).toBe(true)
  expect(await keys.revoke(keyId)).toBe(false)
  expect(await keys.find(text, '10.0.0.1')).toBeUndefined()
  clock.nowMs += 10_000
  expect(await other.find(text, '10.0.0.1')).toBeUndefined()

  const late = await keys.create({ ...about, expiresMs: clock.nowMs + 5 })
  expect(await keys.find(late.text, '10.0.0.1')).toBeDefined()
  clock.nowMs += 5
  expect(await keys.find(late.text, '10.0.0.1')).toBeUndefined()
})

test('many keys are confirmed by one question, which is asked each time', async () => {
  const { keys, database, about } = build()
  const all = await Promise.all(Array.from({ length: 5 }, () => keys.create(about)))
  const ids = all.map(({ keyId }) => keyId)
  const before = database.asked
  expect([...(await keys.confirm(ids)).keys()]).toEqual(ids)
  await keys.revoke(ids[2])
  const left = ids.filter((id) => id !== ids[2])
  expect([...(await keys.confirm(ids)).keys()]).toEqual(left)
  expect(database.asked - before).toBe(4)
  // What was said is believed where a client comes with it.
  expect(await keys.find(all[3].text, '10.0.0.1')).toBeDefined()
  expect(database.asked - before).toBe(4)
  expect(await keys.find(all[2].text, '10.0.0.1')).toBeUndefined()
  database.isUp = false
  await expect(keys.confirm(ids)).rejects.toThrow(KeysAway)
})

test('a key is believed for nine seconds, and then asked for again', async () => {
  const { keys, clock, database, about } = build()
  const { text, keyId } = await keys.create(about)
  const asked = async () => {
    const before = database.asked
    const found = await keys.find(text, '10.0.0.1')
    return [found?.keyId, database.asked - before]
  }
  expect(await asked()).toEqual([keyId, 1])
  clock.nowMs += 8_999
  expect(await asked()).toEqual([keyId, 0])
  clock.nowMs += 1
  expect(await asked()).toEqual([keyId, 1])
  expect(await asked()).toEqual([keyId, 0])
})

test('while the database is away, keys that were used in the last day still work', async () => {
  for (const away of ['is known to be away', 'fails']) {
    const { keys, clock, database, about } = build()
    const { text } = await keys.create(about)
    const { text: unused } = await keys.create(about)
    const find = (/** @type {string} */ key) => keys.find(key, '10.0.0.1')
    const stranger = createKey().text
    await find(text)
    await find(stranger)
    const { execute } = database.client
    if (away === 'fails') database.client.execute = () => Promise.reject(new Error('timeout'))
    else database.isUp = false
    for (const waitMs of [10_000, 3_600_000, 22 * 3_600_000]) {
      clock.nowMs += waitMs
      expect(await find(text)).toBeDefined()
      await expect(find(unused)).rejects.toThrow(KeysAway)
      // It may have been made since.
      await expect(find(stranger)).rejects.toThrow(KeysAway)
    }
    clock.nowMs += 3_600_000 - 10_001
    expect(await find(text)).toBeDefined()
    clock.nowMs += 1
    await expect(find(text)).rejects.toThrow(KeysAway)
    Object.assign(database, { isUp: true, client: { execute } })
    expect(await find(text)).toBeDefined()
  }
})

test('a clock that is set back makes no key believed for longer', async () => {
  const { database, about } = build()
  const clock = { nowMs: 1e12, monotonicMs: 0 }
  const keys = new KeyStore({
    database,
    now: () => clock.nowMs,
    monotonicMs: () => clock.monotonicMs,
  })
  const { text, keyId } = await keys.create(about)
  expect(await keys.find(text, '10.0.0.1')).toBeDefined()
  await new KeyStore({ database }).revoke(keyId)
  clock.nowMs -= 3_600_000
  clock.monotonicMs += 10_000
  expect(await keys.find(text, '10.0.0.1')).toBeUndefined()
})

test('a key that is used all the time is asked for once in a while, known or not', async () => {
  const { keys, database, about } = build()
  const { text } = await keys.create(about)
  const stranger = createKey().text
  const before = database.asked
  for (let n = 0; n < 100; n++) {
    await keys.find(text, '10.0.0.1')
    await keys.find(stranger, '10.0.0.1')
    await keys.find('nonsense', '10.0.0.1')
  }
  expect(database.asked - before).toBe(2)
})

describe('keys that nobody knows', () => {
  /** @param {KeyStore} keys  @param {string} address  @param {string} [text] */
  const outcome = (keys, address, text = createKey().text) =>
    keys.find(text, address).then(
      (grant) => (grant ? 'known' : 'unknown'),
      (error) => error.constructor.name,
    )

  test('are looked up only so often for one address, then nobody asks the database', async () => {
    const { clock, database, parts } = build()
    /** @type {unknown[]} */
    const warnings = []
    const logger = { warn: (/** @type {unknown} */ about) => void warnings.push(about) }
    const keys = new KeyStore({ ...parts, logger })
    const outcomes = []
    for (let n = 0; n < 4_000; n++) outcomes.push(await outcome(keys, '10.0.0.1'))
    expect(database.asked).toBe(200)
    expect(keys.unasked).toBe(3_800)
    expect(new Set(outcomes.slice(200))).toEqual(new Set([TooManyUnknownKeys.name]))
    expect(await outcome(keys, '10.0.0.2')).toBe('unknown')
    clock.nowMs += 1_000
    for (let n = 0; n < 100; n++) await outcome(keys, '10.0.0.1')
    expect(database.asked).toBe(221)
    expect(warnings).toEqual([{ address: '10.0.0.1', unasked: 1 }])
    clock.nowMs += 60_000
    for (let n = 0; n < 2_000; n++) await outcome(keys, '10.0.0.3')
    expect(warnings.slice(1)).toMatchObject([{ address: '10.0.0.3' }])
  })

  test('lock out no key that is known, nor a new one of another address', async () => {
    const { keys, clock, about } = build()
    const { text } = await keys.create(about)
    expect(await outcome(keys, '10.0.0.1', text)).toBe('known')
    for (let n = 0; n < 500; n++) await outcome(keys, '10.0.0.1')
    clock.nowMs += 10_000
    for (let n = 0; n < 500; n++) await outcome(keys, '10.0.0.1')
    expect(await outcome(keys, '10.0.0.1')).toBe('TooManyUnknownKeys')
    expect(await outcome(keys, '10.0.0.1', text)).toBe('known')
    expect(await outcome(keys, '10.0.0.2', (await keys.create(about)).text)).toBe('known')
  })

  test('are limited for all addresses together, too, and evict nothing that is known', async () => {
    const { keys, clock, database, about } = build()
    const { text } = await keys.create(about)
    await outcome(keys, '10.0.0.1', text)
    const before = database.asked
    for (let n = 0; n < 3_000; n++) await outcome(keys, `10.1.${n >> 8}.${n & 255}`)
    expect(database.asked - before).toBe(1_000)
    for (let round = 0; round < 100; round++) {
      clock.nowMs += 5_000
      for (let n = 0; n < 1_000; n++) await outcome(keys, `10.2.${round}.${n & 255}`)
    }
    expect(database.asked - before).toBeGreaterThan(50_000)
    database.isUp = false
    expect(await outcome(keys, '10.0.0.1', text)).toBe('known')
  })

  test.each([
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['2001:db8:0:1::1', '2001:db8:0:1:ffff:0:0:2'],
    ['2001:db8::1', '2001:db8::2:0:0:1'],
    ['fe80::1%eth0', 'fe80::2%eth0'],
  ])('of %s and %s are of one host', async (one, other) => {
    const { keys, database } = build()
    for (let n = 0; n < 200; n++) await outcome(keys, one)
    expect(await outcome(keys, other)).toBe('TooManyUnknownKeys')
    for (const stranger of ['2001:db8:0:2::1', '::1', '10.0.0.2']) {
      expect([stranger, await outcome(keys, stranger)]).toEqual([stranger, 'unknown'])
    }
    expect(database.asked).toBe(203)
  })

  test('are all there is to pay for: a crowd that has keys is let in', async () => {
    const { keys, database, about } = build()
    const made = []
    for (let n = 0; n < 2_000; n++) made.push((await keys.create(about)).text)
    const before = database.asked
    const outcomes = []
    for (let from = 0; from < made.length; from += 200) {
      const some = made.slice(from, from + 200).map((text) => outcome(keys, '10.0.0.1', text))
      outcomes.push(...(await Promise.all(some)))
    }
    expect(new Set(outcomes)).toEqual(new Set(['known']))
    expect(database.asked - before).toBe(2_000)
  })

  test('cost nothing while the database fails, and one look-up if many ask at once', async () => {
    const { keys, database } = build()
    const { execute } = database.client
    database.client.execute = () => Promise.reject(new Error('timeout'))
    for (let n = 0; n < 500; n++) expect(await outcome(keys, '10.0.0.1')).toBe('KeysAway')
    database.client.execute = execute
    const { text } = createKey()
    const before = database.asked
    const many = Array.from({ length: 500 }, () => outcome(keys, '10.0.0.1', text))
    expect(new Set(await Promise.all(many))).toEqual(new Set(['unknown']))
    expect(database.asked - before).toBe(1)
  })
})

test('a claim key is no key, and a key no claim key', () => {
  const [key, claim] = [createKey(), createKey('sgc')]
  expect(parseKey(key.text)?.keyId).toBe(key.keyId)
  expect(parseKey(claim.text, 'sgc')?.keyId).toBe(claim.keyId)
  expect(parseKey(claim.text)).toBeUndefined()
  expect(parseKey(key.text, 'sgc')).toBeUndefined()
})
