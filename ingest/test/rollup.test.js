import { randomInt } from 'node:crypto'
import { Aggregate } from '@sandglass/common/aggregate'
import {
  believed,
  DAY_MS,
  HOUR_MS,
  LEVELS,
  MARK,
  ROLLUP_SHARDS,
  rollupTable,
  SLOT_GRACE_MS,
  SLOT_MS,
  shardOf,
  startOf,
} from '@sandglass/common/rollup'
import { sensorId } from '@sandglass/common/sensor'
import pino from 'pino'
import { buildIngest } from '../src/ingest.js'
import { Message } from '../src/message/message.js'
import { shardsOf } from '../src/rollup/owners.js'
import { RollupWorker } from '../src/rollup/worker.js'
import { createFakeRollups } from './support/fake-rollups.js'
import { FakeStorage } from './support/fake-storage.js'
import { until } from './support/ingest.js'
import { seeded } from './support/random.js'

const T = Date.UTC(2026, 0, 10, 12)
const logger = pino({ level: 'silent' })

/** @returns {boolean} */
const noFailure = () => false

/** A platform whose clock the test moves. */
function build({ fails = noFailure, retentionClass = '30d' } = {}) {
  const clock = { nowMs: T }
  const now = () => clock.nowMs
  const storage = new FakeStorage()
  const ingest = buildIngest({
    ...{ storage, keyspace: 'k', logger, now },
    limits: {
      ...{ packetBytesMax: 1e6, clientMessagesMax: 1e6, connectionsMax: 10, sensorsMax: 1_000 },
      ...{ heldBytesMax: 1e9, qos0BytesMax: 1e6, retentionClass, deadLettersMax: 1e6 },
      ...{ lineTopic: 'telegraf', spoolDir: '', spoolBytesMax: 0, spoolAfterMs: 1e9 },
      deadLetterBytesMax: 1e9,
    },
  })
  const fake = createFakeRollups({ storage, now, fails })
  /** @param {string} id */
  const worker = (id) =>
    new RollupWorker({ store: fake.store, id, logger, now, sleep: async () => {} })
  /** @param {string} sensor  @param {number} timeMs  @param {unknown} v */
  const publish = (sensor, timeMs, v) => {
    const message = new Message({
      ...{ origin: { settled() {} }, clientId: 'c', session: undefined, visit: 0, qos: 1 },
      ...{ topic: `sensors/${sensor}/m`, payload: Buffer.from(JSON.stringify({ t: timeMs, v })) },
      ...{ dup: false, retain: false, packetId: 1, receivedMs: clock.nowMs, arrivedMs: 0 },
    })
    ingest.pipeline.accept(message)
    return message
  }
  /** Advances to when everything that was marked is worked off. @param {RollupWorker} one */
  const settle = async (one) => {
    clock.nowMs += SLOT_MS + SLOT_GRACE_MS
    await one.turn()
  }
  return { ...ingest, ...fake, storage, clock, worker, publish, settle }
}

/** @typedef {ReturnType<typeof build>} Platform */

/**
 * Everything that a reader would believe and that is not so.
 *
 * @param {Platform} platform
 * @param {{ sensor: string, timeMs: number, v: number, message: Message }[]} published
 */
function lies({ storage, progress, rollups }, published) {
  /** @type {string[]} */
  const found = []
  const marks = storage.rowsOf('late_mark').filter(({ level }) => level === MARK.hour)
  for (const sensor of new Set(published.map((one) => one.sensor))) {
    const id = sensorId(sensor)
    const doneMs = progress.get(shardOf(id)) ?? 0
    const marked = new Set(
      marks
        .filter((row) => String(row.sensor_id) === id && row.slot >= doneMs)
        .map((row) => Number(row.ts)),
    )
    const ours = published.filter((one) => one.sensor === sensor)
    for (const level of LEVELS) {
      const { name, windowMs } = level
      for (const startMs of new Set(ours.map(({ timeMs }) => startOf(timeMs, windowMs)))) {
        const range = { fromMs: startMs, toMs: startMs + windowMs }
        if (believed(level, range, doneMs, marked).length === 0) continue
        const inside = ours.filter(({ timeMs }) => startOf(timeMs, windowMs) === startMs)
        const told = rollups.get([rollupTable(name), id, 'm', startMs].join(' '))?.aggregate
        const lie = difference(inside, told)
        if (lie) found.push(`${name} of ${sensor} at ${new Date(startMs).toISOString()}: ${lie}`)
      }
    }
  }
  return found
}

/** @param {{ timeMs: number, v: number, message: Message }[]} rows  @param {Aggregate} [told] */
function difference(rows, told) {
  const acknowledged = rows.filter(({ message }) => message.isSettled)
  const n = told?.n ?? 0
  if (n < acknowledged.length) return `${n} of ${acknowledged.length} rows`
  if (n > rows.length) return `${n} rows, of ${rows.length}`
  if (!told || n !== acknowledged.length || n !== rows.length) return undefined
  const right = new Aggregate()
  for (const { timeMs, v } of rows) right.add(timeMs, 0, v)
  const { sum, min, max, first, last } = right
  for (const [key, value] of Object.entries({ sum, min, max, first, last })) {
    const its = told[/** @type {'sum'} */ (key)]
    if (Math.abs(its - value) > 1e-6) return `${key} is ${its}, not ${value}`
  }
  return undefined
}

test('an hour, its minutes and its day are summed up once they are over', async () => {
  const platform = build()
  const worker = platform.worker('a')
  await worker.turn()
  const message = platform.publish('s', T + 1_000, 5)
  platform.publish('s', T + 61_000, 7)
  await until(() => message.isSettled, 20_000)
  const key = `${sensorId('s')} m`
  await platform.settle(worker)
  expect(platform.rollups.size).toBe(0)
  platform.clock.nowMs = T + HOUR_MS
  await platform.settle(worker)
  expect(platform.rollups.get(`rollup_1m ${key} ${T}`)?.aggregate).toMatchObject({ n: 1, sum: 5 })
  const hour = platform.rollups.get(`rollup_1h ${key} ${T}`)?.aggregate
  expect(hour).toMatchObject({ n: 2, sum: 12, min: 5, max: 7, first: 5, last: 7 })
  expect(hour?.sketch?.quantile(1)).toBeCloseTo(7, 0)
  expect([...platform.rollups.keys()].filter((one) => one.startsWith('rollup_1d'))).toEqual([])
  platform.clock.nowMs = startOf(T, DAY_MS) + DAY_MS
  await platform.settle(worker)
  const day = platform.rollups.get(`rollup_1d ${key} ${startOf(T, DAY_MS)}`)?.aggregate
  expect(day).toMatchObject({ n: 2, sum: 12 })
})

test('a row that is late by days is in the rollups a slot later', async () => {
  const platform = build()
  const worker = platform.worker('a')
  await worker.turn()
  const timeMs = T - 5 * DAY_MS
  /** @type {{ sensor: string, timeMs: number, v: number, message: Message }[]} */
  const published = []
  for (const v of [1, 2]) {
    const message = platform.publish('s', timeMs + v, v)
    published.push({ sensor: 's', timeMs: timeMs + v, v, message })
    await until(() => message.isSettled, 20_000)
    expect(lies(platform, published)).toEqual([])
    await platform.settle(worker)
    expect(lies(platform, published)).toEqual([])
    const dayMs = startOf(timeMs, DAY_MS)
    const day = platform.rollups.get(`rollup_1d ${sensorId('s')} m ${dayMs}`)
    expect(day?.aggregate.n).toBe(v)
  }
})

test('an hour whose raw rows may be gone is left as it is, and counted', async () => {
  const platform = build({ retentionClass: '7d' })
  const { clock, rollups, settle, storage } = platform
  /** @param {number} timeMs  @param {number} v */
  const store = async (timeMs, v) => {
    const message = platform.publish('s', timeMs, v)
    await until(() => message.isSettled, 20_000)
  }
  const worker = platform.worker('a')
  await worker.turn()
  const key = `rollup_1h ${sensorId('s')} m ${T - 8 * DAY_MS}`
  // Imported today, it lives for seven days from now on: late rows of the same hour are taken in.
  await store(T - 8 * DAY_MS, 1)
  await settle(worker)
  expect(rollups.get(key)?.aggregate.n).toBe(1)
  await store(T - 8 * DAY_MS + 1, 2)
  await settle(worker)
  expect(rollups.get(key)?.aggregate.n).toBe(2)
  clock.nowMs += 7 * DAY_MS
  for (const [row, { table }] of storage.stored) {
    if (table.startsWith('measurement')) storage.stored.delete(row)
  }
  await store(T - 8 * DAY_MS + 2, 3)
  await settle(worker)
  expect(rollups.get(key)?.aggregate.n).toBe(2)
  expect(worker.counts.expired).toBe(1)
})

test('each part of the work has one process, and few change hands when one is gone', () => {
  const ids = ['a', 'b', 'c']
  const all = ids.flatMap((id) => shardsOf(id, ids))
  expect(all.sort((a, b) => a - b)).toEqual(Array.from({ length: ROLLUP_SHARDS }, (_, at) => at))
  expect(ids.every((id) => shardsOf(id, ids).length > 0)).toBe(true)
  const after = shardsOf('a', ['a', 'b'])
  expect(shardsOf('a', ids).every((shard) => after.includes(shard))).toBe(true)
  expect(shardsOf('z', ids)).toEqual([])
})

test('whatever is late, fails, dies or is slow, no rollup that is believed is wrong', async () => {
  const seed = Number(process.env.SEED ?? randomInt(2 ** 31))
  const fraction = seeded(seed)
  const random = (/** @type {number} */ below) => Math.floor(fraction() * below)
  let isFailing = true
  const platform = build({ fails: () => isFailing && random(60) === 0 })
  const { storage, clock } = platform
  storage.isManual = true
  let workers = [platform.worker('0'), platform.worker('1')]
  /** @type {Set<Promise<void>>} */
  const turns = new Set()
  /** @type {{ sensor: string, timeMs: number, v: number, message: Message }[]} */
  const published = []
  const ages = [0, 0, 0, 5_000, 10 * 60_000, HOUR_MS, 3 * HOUR_MS, DAY_MS, -HOUR_MS]
  let believed = 0
  for (let step = 0; step < 4_000; step++) {
    const chance = random(100)
    if (chance < 40) {
      const sensor = `s${random(3)}`
      const timeMs = clock.nowMs - ages[random(ages.length)] - published.length
      const v = random(1_000)
      published.push({ sensor, timeMs, v, message: platform.publish(sensor, timeMs, v) })
    } else if (chance < 70) {
      // Some requests take minutes.
      const [request] = storage.requests.splice(random(storage.requests.length || 1), 1)
      request?.end()
    } else if (chance < 80) {
      clock.nowMs += random(4) === 0 ? random(20 * 60_000) : random(20_000)
    } else if (chance < 98) {
      const at = random(workers.length)
      if (turns.size < 2) {
        const turn = workers[at].turn().catch(() => {})
        turns.add(turn)
        void turn.then(() => turns.delete(turn))
      }
    } else if (chance === 98) {
      // Killed: it neither leaves nor goes on.
      workers = workers.map((one) => (random(2) ? one : platform.worker(`${step}`)))
    }
    for (let ticks = random(6); ticks > 0; ticks--) await new Promise(setImmediate)
    if (step % 20 === 0) {
      expect({ seed, step, lies: lies(platform, published) }).toEqual({ seed, step, lies: [] })
    }
  }
  storage.isManual = false
  isFailing = false
  for (const request of storage.requests.splice(0)) request.end()
  await until(() => published.every(({ message }) => message.isSettled), 20_000)
  await Promise.all(turns)
  const [survivor] = workers
  for (let turn = 0; turn < 400; turn++) {
    clock.nowMs += 60_000 * (turn < 10 ? 1 : 10)
    await survivor.turn().catch(() => {})
  }
  expect({ seed, lies: lies(platform, published) }).toEqual({ seed, lies: [] })
  for (const { aggregate } of platform.rollups.values()) believed += aggregate.n
  // Each row is in a minute, an hour and a day.
  expect({ seed, believed }).toEqual({ seed, believed: 3 * published.length })
})
