import { KIND } from '@sandglass/common/measurement'
import { Semaphore } from '@sandglass/common/semaphore'
import cassandra from 'cassandra-driver'
import { Past } from '../src/write/past.js'
import { Recent } from '../src/write/recent.js'
import { Storage } from '../src/write/storage.js'
import { heapBytes } from './support/garbage.js'

const { Long } = cassandra.types

const T = Date.UTC(2026, 0, 1)

test('who waits no more when the database has answered is not told that it does', async () => {
  let isWanted = true
  const reader = {
    newest: async () => [],
    async *rowsAt() {
      isWanted = false
      yield* []
    },
  }
  /** @type {unknown[]} */
  const learned = []
  const recent = {
    knows: () => false,
    learn: (/** @type {unknown[]} */ ...what) => learned.push(what),
  }
  const past = new Past(/** @type {any} */ ({ reader, recent, semaphore: new Semaphore(1) }))
  const series = { sensor: { lastTimes: new Map() }, metric: 'm', onTheWay: [] }
  const places = [{ series: /** @type {any} */ (series), timeMs: 5 }]
  expect(await past.learn(places, () => isWanted)).toBe(false)
  // The answer is kept all the same.
  expect(learned).toHaveLength(1)
  expect(await past.learn(places, () => true)).toBe(true)
})

test('thousands of long texts of one millisecond are told apart without being held at once', async () => {
  const rowCount = 2_000
  const textBytes = 65_000
  let heldBytes = 0
  let pageRowsMost = 0
  const beforeBytes = heapBytes()
  const client = {
    /** @param {string} _query  @param {unknown[]} _params  @param {any} options */
    async execute(_query, _params, { fetchSize, pageState = '0' }) {
      const from = Number(pageState)
      const end = Math.min(rowCount, from + fetchSize)
      pageRowsMost = Math.max(pageRowsMost, end - from)
      if (end === rowCount) heldBytes = heapBytes() - beforeBytes
      const rows = Array.from({ length: end - from }, (_, at) => ({
        ts: new Date(T),
        seq: Long.fromNumber(from + at),
        s: Buffer.alloc(textBytes, `${from + at} `).toString('latin1'),
        v: null,
        i: null,
        b: null,
        lat: null,
        lon: null,
      }))
      return { rows, pageState: end < rowCount ? `${end}` : undefined }
    },
  }
  const reader = new Storage(/** @type {any} */ ({ keyspace: 'k', isUp: true, client }))
  const recent = new Recent()
  const past = new Past({ reader, recent, semaphore: new Semaphore(1) })
  const layouts = [{ fromMs: 0, className: '30d', bucketS: 86_400 }]
  const sensor = { id: '00000000-0000-4000-8000-000000000000', layouts, lastTimes: new Map() }
  /** @type {any} */
  const series = { sensor, metric: 'm', horizonMs: T, onTheWay: [] }
  expect(await past.learn([{ series, timeMs: T }], () => true)).toBe(true)
  expect(heldBytes).toBeLessThan(rowCount * 1_000)
  expect(pageRowsMost * textBytes).toBeLessThan(2 ** 21)
  // What is there keeps its number, and another text gets the next one.
  const text = Buffer.alloc(textBytes, '1234 ').toString()
  expect(recent.place(series, T, KIND.text, text)).toBe(1_234)
  expect(recent.place(series, T, KIND.text, `${text}!`)).toBe(rowCount)
})
