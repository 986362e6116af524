import { afterEach, expect, test } from '@jest/globals'
import { KeyStore } from '@sandglass/common/key-store'
import { createKey } from '@sandglass/common/keys'
import { Topics } from '@sandglass/common/topics'
import mqtt from 'mqtt'
import { Access } from '../src/broker/access.js'
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
    ...{ keyspace: 'k', isUp: true, asked: () => asked },
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
  const topics = new Topics()
  ingest = await startIngest({}, { access: new Access({ keys, topics }), listens })
  /** @param {number} at  @param {string} password  @returns {Promise<number>} */
  const code = async (at, password) => {
    const url = `${listens[at].kind}://127.0.0.1:${ingest.ports[at]}`
    const options = { username: 'u', password, reconnectPeriod: 0 }
    try {
      const client = await mqtt.connectAsync(url, options)
      await client.endAsync()
      return 0
    } catch (error) {
      return /** @type {{ code: number }} */ (error).code
    }
  }
  expect(await code(0, text)).toBe(0)
  /** @type {number[]} */
  const codes = []
  for (let round = 0; round < 11; round++) {
    const some = Array.from({ length: 20 }, (_, n) => code(n % 2, createKey().text))
    codes.push(...(await Promise.all(some)))
  }
  const count = (/** @type {number} */ one) => codes.filter((other) => other === one).length
  // Not by the kind of connection: both come from one address.
  expect([count(4), count(3), database.asked()]).toEqual([200, 20, 201])
  expect([await code(0, text), await code(1, text)]).toEqual([0, 0])
  expect(ingest.server?.access?.unasked).toBe(20)
})
