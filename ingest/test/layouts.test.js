// No row is ever where a reader does not look: several processes that hear of layouts late, or only
// when they must, store events of all times while layouts are added by others.
import { randomInt } from 'node:crypto'
import { expect, test } from '@jest/globals'
import { layoutOfClass, layoutOfWidth, WIDTHS_S } from '@sandglass/common/layout'
import { EVENT_AHEAD_MS_MAX } from '@sandglass/common/measurement'
import { bucketOf, layoutAt } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import pino from 'pino'
import { buildIngest } from '../src/ingest.js'
import { Message } from '../src/message/message.js'
import { FakeStorage } from './support/fake-storage.js'
import { LIMITS, until } from './support/ingest.js'
import { seeded } from './support/random.js'

const T = Date.UTC(2026, 0, 10, 12)
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const ID = sensorId('s')
const CLASSES = ['7d', '30d', '400d']

/** How far clocks of processes are apart at most, and how long a request takes to be durable. */
const SKEW_MS_MAX = 5 * MINUTE_MS
const REQUEST_MS_MAX = 20 * MINUTE_MS

const logger = pino({ level: 'silent' })

/** @param {(below: number) => number} random */
function build(random) {
  const clock = { nowMs: T }
  const storage = new FakeStorage()
  const process = () => {
    const skewMs = random(2 * SKEW_MS_MAX) - SKEW_MS_MAX
    const now = () => clock.nowMs + skewMs
    const ingest = buildIngest({ storage, keyspace: 'k', logger, now, limits: LIMITS })
    /** @param {number} aheadMs  @param {number} v  @param {number} [receivedMs] */
    const publish = (aheadMs, v, receivedMs = now()) => {
      const payload = Buffer.from(JSON.stringify({ t: receivedMs + aheadMs, v }))
      const message = new Message({
        origin: { settled() {} },
        clientId: 'c',
        session: undefined,
        visit: 0,
        qos: 1,
        topic: 'sensors/s/m',
        payload,
        dup: false,
        retain: false,
        packetId: 1,
        receivedMs,
        arrivedMs: 0,
      })
      ingest.pipeline.accept(message)
      return message
    }
    return { now, publish, registry: ingest.registry }
  }
  return { clock, storage, processes: [process(), process(), process()] }
}

/** The rows that a reader who reads the layouts now does not find. @param {FakeStorage} storage */
async function hidden(storage) {
  const layouts = await storage.layouts(ID)
  return [...storage.stored.values()].filter(({ table, ts, bucket }) => {
    if (!table.startsWith('measurement_')) return false
    const { className, bucketS } = layoutAt(layouts, ts)
    return table !== `measurement_${className}` || Number(bucket) !== bucketOf(bucketS, ts)
  })
}

/**
 * @param {FakeStorage} storage
 * @param {number} nowMs  By the clock of whoever adds it.
 * @param {(below: number) => number} random
 */
async function decide(storage, nowMs, random) {
  const layouts = await storage.layouts(ID)
  if (random(2) === 0) {
    const layout = layoutOfClass(layouts, CLASSES[random(CLASSES.length)], nowMs)
    return layout && (() => storage.putLayout(ID, layout, nowMs * 1000))
  }
  const layout = layoutOfWidth(layouts, WIDTHS_S[random(WIDTHS_S.length)], nowMs)
  return layout && (() => storage.addLayout(ID, layout))
}

test('whoever hears of a layout how late ever, no row is where readers do not look', async () => {
  const seed = Number(process.env.SEED ?? randomInt(2 ** 31))
  const fraction = seeded(seed)
  const random = (/** @type {number} */ below) => Math.floor(fraction() * below)
  let layouts = 0
  let ahead = 0
  for (let run = 0; run < 15; run++) {
    const { clock, storage, processes } = build(random)
    /** Layouts on their way to the database. @type {{ atMs: number, add: () => unknown }[]} */
    let slow = []
    const advance = async (/** @type {number} */ ms) => {
      clock.nowMs += ms
      for (const { add } of slow.filter(({ atMs }) => atMs <= clock.nowMs)) await add()
      slow = slow.filter(({ atMs }) => atMs > clock.nowMs)
    }
    let value = 0
    const first = processes[0].publish(0, ++value)
    await until(() => first.isSettled)
    for (let step = 0; step < 60; step++) {
      await advance([MINUTE_MS, 20 * MINUTE_MS, 3 * HOUR_MS, 40 * HOUR_MS][random(4)])
      if (random(3) === 0) {
        const { now } = processes[random(3)]
        const add = await decide(storage, now(), random)
        if (add) slow.push({ atMs: clock.nowMs + random(REQUEST_MS_MAX), add })
      }
      const isAway = random(6) === 0
      storage.isDown = isAway
      const messages = Array.from({ length: random(4) }, () => {
        const aheadMs = [0, -random(90 * HOUR_MS), random(EVENT_AHEAD_MS_MAX)][random(3)]
        return processes[random(3)].publish(aheadMs, ++value)
      })
      storage.isDown = false
      if (isAway && random(2) === 0) await advance(random(60 * HOUR_MS))
      await until(() => messages.every(({ isSettled }) => isSettled))
      expect({ seed, run, step, hidden: await hidden(storage) }).toMatchObject({ hidden: [] })
    }
    for (const { registry } of processes) registry.stop()
    const known = await storage.layouts(ID)
    layouts += known.length - 1
    const rows = storage.rowsOf('measurement_30d').concat(storage.rowsOf('measurement_7d'))
    ahead += rows.filter(({ ts, timestamp }) => ts - timestamp / 1000 > 20 * HOUR_MS).length
  }
  // It was tried: layouts changed, and events came nearly a day before their time.
  expect(layouts).toBeGreaterThan(30)
  expect(ahead).toBeGreaterThan(30)
})

test('what came while our clock was days ahead becomes a dead letter', async () => {
  const { storage, processes } = build(() => 0)
  const early = processes[0].publish(0, 1, T + 5 * EVENT_AHEAD_MS_MAX)
  await until(() => early.isSettled)
  expect(storage.rowsOf('dead_letter')[0].reason).toContain('far ahead of our clock')
  expect(storage.rowsOf('measurement_30d')).toEqual([])
})
