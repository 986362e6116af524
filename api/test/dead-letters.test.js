import { describe, expect, test } from '@jest/globals'
import cassandra from 'cassandra-driver'
import { encodeCursor } from '../src/cursor.js'
import {
  compareTimeUuids,
  PAGE_BYTES_MAX,
  PAGE_MS_MAX,
  readDeadLetters,
} from '../src/dead-letters.js'
import { createFakeStore } from './support/fake-store.js'
import { inject } from './support/inject.js'

const DAY_MS = 86_400_000
const NOW_MS = Date.UTC(2026, 0, 14)
const NOT_JSON = 'this is not JSON: Unexpected'
const NODE = Buffer.from('sandgl')

/** @typedef {import('../src/store.js').DeadLetter} DeadLetter */
/** @typedef {import('../src/dead-letters.js').LetterFilter} LetterFilter */

/** @param {number} receivedMs  @param {number} index  @param {Partial<DeadLetter>} [more] */
function letter(receivedMs, index, more = {}) {
  const clock = Buffer.from([index >> 8, index & 0xff])
  const id = cassandra.types.TimeUuid.fromDate(new Date(receivedMs), 0, NODE, clock).toString()
  return {
    id,
    receivedMs,
    topic: `sensors/unit-${index % 5}/t`,
    client: `Client-${index % 3}`,
    payload: Buffer.from(`${index}`),
    reason: index % 4 ? 'this is not JSON' : 'the Sensor',
    replayedMs: index % 6 === 0 ? receivedMs + 1 : undefined,
    format: [0, 2, 40, -2, undefined][index % 5],
    ...more,
  }
}

/** Several of one millisecond, days without any, and a flood. */
const LETTERS = Array.from({ length: 600 }, (_, index) => {
  const days = index < 200 ? [1, 2, 5, 9, 12][index % 5] : 3
  return letter(NOW_MS - days * DAY_MS + Math.floor(index / 3) * 60_000, index)
})

/** @type {(a: { id: string }, b: { id: string }) => number} */
const newestFirst = (a, b) => compareTimeUuids(b.id, a.id)

/**
 * All pages, one after the other.
 *
 * @param {ReturnType<typeof createFakeStore>} store
 * @param {Omit<import('../src/dead-letters.js').Page, 'after' | 'nowMs'>} page
 */
async function pagesOf(store, page) {
  /** @type {DeadLetter[][]} */
  const pages = []
  /** @type {import('../src/dead-letters.js').Position | undefined} */
  let after
  do {
    const { letters, next } = await readDeadLetters(store, { ...page, after, nowMs: NOW_MS })
    pages.push(letters)
    after = next
    if (pages.length > 5_000) throw new Error('the pages have no end')
  } while (after)
  return pages
}

const ids = (/** @type {{ id: string }[]} */ letters) => letters.map(({ id }) => id)

/** @type {{ filter: LetterFilter, fits: (letter: DeadLetter) => boolean }[]} */
const CASES = [
  { filter: {}, fits: () => true },
  { filter: { reason: 'SENSOR' }, fits: ({ reason }) => reason === 'the Sensor' },
  { filter: { topic: 'unit-3' }, fits: ({ topic }) => topic.includes('unit-3') },
  { filter: { client: 'client-1' }, fits: ({ client }) => client === 'Client-1' },
  { filter: { format: 0 }, fits: ({ format }) => format === 0 },
  { filter: { format: 254 }, fits: ({ format }) => format === -2 },
  { filter: { replayed: true }, fits: ({ replayedMs }) => replayedMs !== undefined },
  { filter: { replayed: false }, fits: ({ replayedMs }) => replayedMs === undefined },
  {
    filter: { fromMs: NOW_MS - 9 * DAY_MS + 600_000, toMs: NOW_MS - 3 * DAY_MS + 9_000_000 },
    fits: ({ receivedMs: t }) =>
      t >= NOW_MS - 9 * DAY_MS + 600_000 && t < NOW_MS - 3 * DAY_MS + 9_000_000,
  },
  {
    filter: { reason: 'json', client: '2', replayed: false, toMs: NOW_MS - 3 * DAY_MS },
    fits: ({ reason, client, replayedMs, receivedMs }) =>
      reason === 'this is not JSON' &&
      client === 'Client-2' &&
      replayedMs === undefined &&
      receivedMs < NOW_MS - 3 * DAY_MS,
  },
  { filter: { reason: 'of nobody' }, fits: () => false },
]
const FILTERS = CASES.map((one) => ({ ...one, title: JSON.stringify(one.filter) }))

describe('dead letters', () => {
  describe.each(FILTERS)('of $title', ({ filter, fits }) => {
    const expected = LETTERS.filter(fits).sort(newestFirst)

    test.each([1, 7, 100, 600])('are there in pages of %i', async (limit) => {
      const store = createFakeStore({ letters: LETTERS })
      const pages = await pagesOf(store, { filter, limit })
      expect(ids(pages.flat())).toEqual(ids(expected))
      expect(pages.length).toBe(Math.max(1, Math.ceil(expected.length / limit)))
      expect(pages.flat().every(({ payload }) => payload.length > 0)).toBe(true)
    })

    test('are there in pages that end when their time is over', async () => {
      const store = createFakeStore({ letters: LETTERS })
      let nowMs = 0
      // Each look at the clock takes a while: a page ends after a portion or two.
      const clock = () => {
        nowMs += PAGE_MS_MAX / 3
        return nowMs
      }
      const pages = await pagesOf(store, { filter, limit: 100, clock })
      expect(ids(pages.flat())).toEqual(ids(expected))
      expect(pages.some(({ length }) => length < 100)).toBe(true)
    })
  })

  test('of a flood are looked at for no longer than a page may take', async () => {
    const flood = Array.from({ length: 3_000 }, (_, index) => letter(NOW_MS - index, index))
    const store = createFakeStore({ letters: flood })
    let nowMs = 0
    const slow = {
      ...store,
      deadLetters: (/** @type {[number, number, string | undefined, number]} */ ...asked) => {
        nowMs += PAGE_MS_MAX / 10
        return store.deadLetters(...asked)
      },
    }
    const page = { filter: { reason: 'of nobody' }, limit: 10, clock: () => nowMs }
    let after
    let pages = 0
    do {
      const sinceMs = nowMs
      const { next } = await readDeadLetters(slow, { ...page, after, nowMs: NOW_MS + 1 })
      // What was begun is ended: eight shards at most.
      expect(nowMs - sinceMs).toBeLessThan(PAGE_MS_MAX * 2)
      after = next
      pages++
    } while (after)
    expect(pages).toBeGreaterThan(1)
  })

  test('are read without their payloads until they fit', async () => {
    const store = createFakeStore({ letters: LETTERS })
    let payloads = 0
    const counting = {
      ...store,
      deadLetterPayload: async (
        /** @type {number} */ day,
        /** @type {number} */ shard,
        /** @type {string} */ id,
      ) => {
        payloads++
        return store.deadLetterPayload(day, shard, id)
      },
    }
    const page = { filter: { client: 'client-1' }, limit: 10, nowMs: NOW_MS }
    await readDeadLetters(counting, page)
    expect(payloads).toBe(10)
  })

  test('of large payloads come in shorter pages, and each is there', async () => {
    const large = LETTERS.slice(0, 300).map((one) => ({ ...one, payload: Buffer.alloc(64 * 1024) }))
    const pages = await pagesOf(createFakeStore({ letters: large }), { limit: 1_000 })
    expect(ids(pages.flat())).toEqual(ids([...large].sort(newestFirst)))
    // JSON writes a byte of zero in six.
    const most = Math.max(...pages.map(({ length }) => length * 6 * 64 * 1024))
    expect(most).toBeLessThanOrEqual(PAGE_BYTES_MAX)
    expect(pages.length).toBe(30)
  })

  test('a payload larger than a page is a page of its own', async () => {
    const letters = [1, 2].map((index) =>
      letter(NOW_MS - index, index, { payload: Buffer.alloc(PAGE_BYTES_MAX + 1) }),
    )
    const pages = await pagesOf(createFakeStore({ letters }), { limit: 10 })
    expect(pages.map(({ length }) => length)).toEqual([1, 1])
  })

  test('one that is deleted between two reads is left out', async () => {
    const store = createFakeStore({ letters: LETTERS.slice(0, 50) })
    const gone = { ...store, deadLetterPayload: async () => undefined }
    expect(await pagesOf(gone, { limit: 7 })).toEqual(Array.from({ length: 8 }, () => []))
  })

  test('of topics as long as MQTT allows are read a few at a time', async () => {
    const letters = LETTERS.map((one) => ({ ...one, topic: 'x'.repeat(65_000) }))
    const store = createFakeStore({ letters })
    /** @type {number[]} */
    const asked = []
    const noting = {
      ...store,
      deadLetters: async (
        /** @type {number} */ day,
        /** @type {number} */ shard,
        /** @type {string | undefined} */ before,
        /** @type {number} */ rowsMax,
      ) => {
        const rows = await store.deadLetters(day, shard, before, rowsMax)
        if (rows.length > 0) asked.push(rowsMax)
        return rows
      },
    }
    await pagesOf(noting, { filter: { topic: 'y' }, limit: 10 })
    expect(asked.filter((rows) => rows > 32)).toEqual([])
    expect(asked.filter((rows) => rows <= 4).length).toBeGreaterThanOrEqual(8 * 4)
  })

  test('lie in the order of their time, then of their signed bytes', () => {
    const ordered = [
      'ffffffff-0000-1000-8000-000000000000',
      '00000000-0001-1000-8000-000000000000',
      '00000000-0000-1001-8000-000000000000',
      '00000000-0000-1001-8000-00000000007f',
      '00000000-0000-1001-b000-000000000000',
    ]
    expect([...ordered].reverse().sort(compareTimeUuids)).toEqual(ordered)
  })
})

describe('GET /v1/dead-letters', () => {
  const nowMs = Date.now()
  const letters = Array.from({ length: 40 }, (_, index) =>
    letter(nowMs - index * 3_600_000, index, { payload: Buffer.from('21,5'), reason: NOT_JSON }),
  )
  const store = createFakeStore({ letters })
  /** @param {string} query */
  const get = async (query) => {
    const response = await inject(store, `/v1/dead-letters?${query}`)
    return { status: response.statusCode, link: response.headers.link, ...response.json() }
  }

  test('says what would make each right', async () => {
    const { items } = await get('limit=1')
    expect(items[0]).toMatchObject({
      payload: '21,5',
      advice: 'Write the decimal with a point: 21.5 instead of 21,5.',
    })
  })

  test('is filtered, and a cursor alone repeats the filter', async () => {
    const fits = letters.filter(
      ({ topic, client, replayedMs, receivedMs }) =>
        topic === 'sensors/unit-2/t' &&
        client === 'Client-1' &&
        replayedMs === undefined &&
        receivedMs >= nowMs - 30 * 3_600_000,
    )
    const from = new Date(nowMs - 30 * 3_600_000).toISOString()
    const filter = `topic=UNIT-2&client=client-1&replayed=false&from=${from}&reason=json`
    const all = await get(filter)
    expect(ids(all.items)).toEqual(ids([...fits].sort(newestFirst)))
    expect(fits.length).toBeGreaterThan(1)
    const first = await get(`${filter}&limit=1`)
    const second = await get(`limit=1&cursor=${first.next}`)
    expect(ids([...first.items, ...second.items])).toEqual(ids(all.items).slice(0, 2))
    expect(first.link).toContain(first.next)
  })

  test('is filtered by format, by its name', async () => {
    const { items } = await get('format=line-protocol&limit=1000')
    expect(ids(items)).toEqual(ids(letters.filter(({ format }) => format === 2).sort(newestFirst)))
    expect(await get('format=nonsense')).toMatchObject({ status: 400, parameter: 'format' })
  })

  test('refuses a cursor of another filter, and one that says no place', async () => {
    const { next } = await get('reason=json&limit=1')
    expect(await get(`reason=other&cursor=${next}`)).toMatchObject({
      status: 400,
      parameter: 'cursor',
    })
    const filter = ['{}']
    for (const place of [
      ['x', null],
      [1.5, null],
      [20_000, 'no id'],
      [null, null],
    ]) {
      const cursor = encodeCursor('dead letters', filter, place)
      expect(await get(`cursor=${cursor}`)).toMatchObject({ status: 400, parameter: 'cursor' })
    }
    // One of a day far ahead does not have all days until then looked at.
    const ahead = encodeCursor('dead letters', filter, [1e12, null])
    expect((await get(`cursor=${ahead}&limit=1000`)).items).toHaveLength(40)
  })

  test('refuses times that are none, and a from behind its to', async () => {
    expect(await get('from=soon')).toMatchObject({ status: 400, parameter: 'from' })
    expect(await get('from=2026-01-02&to=2026-01-01')).toMatchObject({ status: 400 })
  })
})
