// Two values of one series and millisecond, of one process that is alone and of several that share
// sensors.
import { randomInt } from 'node:crypto'
import { KIND } from '@sandglass/common/measurement'
import { Recent } from '../src/write/recent.js'
import { SeenTimes } from '../src/write/seen-times.js'
import { FakeError, FakeStorage } from './support/fake-storage.js'
import { until } from './support/ingest.js'
import { build } from './support/pipeline.js'
import { seeded } from './support/random.js'

const T = Date.UTC(2026, 0, 1)

describe('two values of one millisecond', () => {
  const values = (/** @type {FakeStorage} */ storage) =>
    storage
      .rowsOf('measurement_30d')
      .map(({ ts, seq, v }) => [ts, seq, v])
      .sort()

  test('stay two when the service was restarted between them', async () => {
    const storage = new FakeStorage()
    await build({}, storage).settle('sensors/s/m', { t: T, v: 1 })
    const second = build({}, storage)
    await second.settle('sensors/s/m', { t: T, v: 2 })
    await second.settle('sensors/s/m', { t: T, v: 1 })
    expect(values(storage)).toEqual([
      [T, 0, 1],
      [T, 1, 2],
    ])
  })

  test('stay two when the first is older than what is remembered', async () => {
    const { settle, storage, past } = build({}, undefined, new Recent({ timesMax: 2 }))
    for (const t of [T, T + 1, T + 2, T + 3, T + 4]) await settle('sensors/s/m', { t, v: 1 })
    expect(past.reads).toBe(0)
    await settle('sensors/s/m', { t: T, v: 2 })
    expect(past.reads).toBe(1)
    expect(values(storage)).toContainEqual([T, 1, 2])
  })

  test('are asked of the database only at times that it may know more of', async () => {
    const storage = new FakeStorage()
    await build({}, storage).settle('sensors/s/m', { t: T, v: 1 })
    const { settle, past } = build({}, storage)
    for (let t = T + 1; t < T + 50; t++) await settle('sensors/s/m', [{ t, v: 1 }])
    await settle('sensors/new/m', { t: T, v: 1 })
    expect(past.reads).toBe(0)
  })

  test('cost the same each, however many there are', () => {
    /** The least CPU time of some that so many take, in microseconds. @param {number} count */
    const timeOf = (count) => {
      const times = Array.from({ length: 5 }, () => {
        const recent = new Recent()
        const series = /** @type {any} */ ({ horizonMs: 0 })
        const before = process.cpuUsage()
        for (let value = 0; value < count; value++) recent.place(series, T, KIND.number, value)
        const { user, system } = process.cpuUsage(before)
        return user + system
      })
      return Math.min(...times)
    }
    timeOf(4_000)
    expect(timeOf(32_000) / timeOf(4_000)).toBeLessThan(30)
  })

  test('are each stored once, whatever is repeated, forgotten or interrupted', async () => {
    const seed = Number(process.env.SEED ?? randomInt(2 ** 31))
    const random = seeded(seed)
    const below = (/** @type {number} */ count) => Math.floor(random() * count)
    const database = new FakeStorage()
    /** @type {Map<string, Set<number>>} */
    const acknowledged = new Map()
    /** What was sent and not acknowledged is sent again. @type {{ t: number, v: number }[]} */
    let unacknowledged = []
    for (let run = 0; run < 12; run++) {
      // Its own way to the database: what a dead process would try again does not arrive.
      const storage = new FakeStorage()
      storage.stored = database.stored
      storage.sensors = database.sensors
      const { accept } = build({}, storage, new Recent({ timesMax: 6 }))
      const isLast = run === 11
      storage.isManual = !isLast
      const fresh = Array.from({ length: isLast ? 0 : 60 }, () => ({
        t: T + below(20),
        v: below(4),
      }))
      const sent = [...unacknowledged, ...fresh].map((one) => ({
        one,
        message: accept('sensors/s/m', one),
      }))
      for (let step = 0; step < 40; step++) {
        const [request] = storage.requests.splice(0, 1)
        request?.end(random() < 0.1 ? new FakeError('retry') : undefined)
        await new Promise((resolve) => setImmediate(resolve))
      }
      if (isLast) await until(() => sent.every(({ message }) => message.isSettled))
      // The process dies here: requests that are under way may still arrive, or never.
      for (const request of storage.requests.splice(0)) {
        if (random() < 0.5) request.end()
      }
      await new Promise((resolve) => setImmediate(resolve))
      for (const { one, message } of sent) {
        if (!message.isSettled) continue
        const known = acknowledged.get(`${one.t}`) ?? new Set()
        acknowledged.set(`${one.t}`, known.add(one.v))
      }
      unacknowledged = sent.filter(({ message }) => !message.isSettled).map(({ one }) => one)
    }
    const stored = new Map()
    for (const { ts, v } of database.rowsOf('measurement_30d')) {
      const key = `${ts}`
      stored.set(key, [...(stored.get(key) ?? []), v].sort())
    }
    const expected = [...acknowledged].map(([key, set]) => [key, [...set].sort()])
    expect({ seed, stored: [...stored].sort() }).toEqual({ seed, stored: expected.sort() })
  })
})

describe('processes that share sensors', () => {
  test('keep two values of one millisecond, and the same value once', async () => {
    const seed = randomInt(2 ** 31)
    const random = seeded(seed)
    const below = (/** @type {number} */ end) => Math.floor(random() * end)
    const storage = new FakeStorage()
    const processes = [0, 1, 2].map(() => build({ shareSensors: true }, storage))
    const sent = Array.from({ length: 600 }, () => ({ t: T + below(40), v: below(8) }))
    // Some come to several of them, as from a broker that did not hear that they were stored.
    const messages = sent.flatMap((one) =>
      processes
        .filter((_, at) => at === 0 || random() < 0.5)
        .map(() => processes[below(3)].accept('sensors/s/m', one)),
    )
    await until(() => messages.every(({ isSettled }) => isSettled))
    const stored = storage.rowsOf('measurement_30d').map(({ ts, v }) => `${ts} ${v}`)
    const expected = [...new Set(sent.map(({ t, v }) => `${t} ${v}`))]
    expect({ seed, stored: stored.sort() }).toEqual({ seed, stored: expected.sort() })
  })
})

test('what was seen of a series is as in a map, whatever comes in which order', () => {
  const random = seeded(7)
  const pick = (/** @type {number} */ count) => Math.floor(random() * count)
  for (let round = 0; round < 20; round++) {
    const seen = new SeenTimes()
    /** @type {Map<number, unknown>} */
    const model = new Map()
    let nextMs = T
    for (let step = 0; step < 60; step++) {
      nextMs += pick(3)
      const timeMs = random() < 0.7 ? nextMs : nextMs - pick(20)
      const value = [step / 10, -0, `t${step}`, true, {}][random() < 0.8 ? 0 : pick(5)]
      const what = model.has(timeMs) ? { more: [model.get(timeMs), value] } : value
      seen.set(timeMs, what)
      model.set(timeMs, what)
      expect(seen.size).toBe(model.size)
      expect(seen.toMs).toBe(Math.max(...model.keys()))
    }
    for (let timeMs = T - 30; timeMs < nextMs + 30; timeMs++) {
      expect(seen.get(timeMs)).toBe(model.get(timeMs))
    }
  }
})
