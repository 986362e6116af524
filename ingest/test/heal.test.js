import { jest } from '@jest/globals'
import cassandra from 'cassandra-driver'
import pino from 'pino'
import { healLatest } from '../src/heal.js'
import { Rows } from '../src/rows.js'
import { Storage } from '../src/storage.js'

const ID = cassandra.types.Uuid.fromString('0d1b3c5e-0000-4000-8000-000000000001')
const none = { v: null, i: null, b: null, s: null, lat: null, lon: null }

/** @param {{ rawMs: number, latestMs: number | undefined }} times */
async function heal({ rawMs, latestMs }) {
  const storage = Object.assign(Object.create(Storage.prototype), {
    rowsOf: (/** @type {string} */ className) => `SELECT FROM k.measurement_${className}`,
    async *pages() {
      yield { sensor_id: ID, metric: 'm', last_ts: new Date(rawMs) }
    },
    readSensor: async () => ({
      ...{ isRegistered: true, isHidden: false },
      layouts: [{ fromMs: 0, className: '7d', bucketS: 3_600 }],
    }),
    read: async (/** @type {string} */ query, /** @type {any[]} */ params) => {
      if (query.includes('.latest'))
        return latestMs === undefined ? [] : [{ ts: new Date(latestMs) }]
      const isThere =
        query.includes('measurement_7d') &&
        params[1] * 1000 <= rawMs &&
        rawMs < params[1] * 1000 + 3_600_000
      return isThere ? [{ ...none, ts: new Date(rawMs), seq: 2, v: 5 }] : []
    },
  })
  const write = jest.fn()
  const logger = pino({ level: 'silent' })
  const rows = new Rows('k')
  await healLatest({ storage, rows, logger, keyspace: 'k', write })
  return write.mock.calls.map(([row]) => /** @type {any} */ (row).params)
}

test('a newest raw row that latest does not have is written there', async () => {
  const rawMs = Date.now() - 60_000
  for (const latestMs of [undefined, rawMs - 1]) {
    const [params] = await heal({ rawMs, latestMs })
    expect(params.slice(1, 4)).toEqual(['m', rawMs, 1])
    expect(params[5]).toBe(5)
    expect(Number(params[6])).toBe(rawMs * 1000 + 2)
  }
})

test('where latest is up to date, or the series silent for long, nothing is written', async () => {
  const rawMs = Date.now() - 60_000
  expect(await heal({ rawMs, latestMs: rawMs })).toEqual([])
  expect(await heal({ rawMs: rawMs - 30 * 86_400_000, latestMs: undefined })).toEqual([])
})
