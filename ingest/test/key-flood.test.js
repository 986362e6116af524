import { afterEach, expect, test } from '@jest/globals'
import { KeyStore } from '@sandglass/common/key-store'
import { createKey } from '@sandglass/common/keys'
import { Topics } from '@sandglass/common/topics'
import mqtt from 'mqtt'
import { Access } from '../src/broker/entrance/access.js'
import { startIngest } from './support/ingest.js'

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
afterEach(() => ingest.stop())

/** A database with one key, that counts what it is asked. */
function build() {
  const { keyId, text, hash } = createKey()
  const row = { key_id: keyId, hash, name: 'n', scopes: ['write'], sensor_id: null, expires: null }
  let asked = 0
  const database = {
    keyspace: 'k',
    isUp: true,
    asked: () => asked,
    client: {
      /** @param {string} _query  @param {any[]} params */
      async execute(_query, [id]) {
        asked++
        return { rows: id === keyId ? [row] : [] }
      },
    },
  }
  // No time passes: nothing is refilled.
  const keys = new KeyStore({ database, monotonicMs: () => 0 })
  return { text, database, keys }
}

test('unknown keys over MQTT are limited by address, and lock no known one out', async () => {
  const { text, database, keys } = build()
  const listen = { host: '127.0.0.1', port: 0 }
  const listens = [
    { kind: /** @type {const} */ ('mqtt'), listen },
    { kind: /** @type {const} */ ('ws'), listen },
  ]
  const access = new Access({ keys, topics: new Topics() })
  ingest = await startIngest({}, { access, listens })
  /** Whether a client is let in. @param {number} at  @param {string} password */
  const isAdmitted = async (at, password) => {
    const url = `${listens[at].kind}://127.0.0.1:${ingest.ports[at]}`
    try {
      const client = await mqtt.connectAsync(url, { username: 'u', password, reconnectPeriod: 0 })
      await client.endAsync()
      return true
    } catch {
      return false
    }
  }
  expect(await isAdmitted(0, text)).toBe(true)
  for (let round = 0; round < 11; round++) {
    const some = Array.from({ length: 20 }, (_, n) => isAdmitted(n % 2, createKey().text))
    expect(new Set(await Promise.all(some))).toEqual(new Set([false]))
  }
  // Not by the kind of connection: all come from one address.
  expect([database.asked(), access.refused, access.unasked]).toEqual([201, 220, 20])
  expect([await isAdmitted(0, text), await isAdmitted(1, text)]).toEqual([true, true])
})
