// What is stored is rewritten into another class while it is written and read, by processes that
// die, stop for a while and hear late: every reader finds each row once, until it expires.
import { randomInt } from 'node:crypto'
import { expect, test } from '@jest/globals'
import { layoutOfClass, layoutOfWidth, WIDTHS_S } from '@sandglass/common/layout'
import { layoutAt, retentionClass } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import pino from 'pino'
import { buildIngest } from '../src/ingest.js'
import { TakenOver } from '../src/jobs/jobs.js'
import { Message } from '../src/message/message.js'
import { Rewrite, timesOf } from '../src/rewrite/rewrite.js'
import { isOver } from '../src/rewrite/store.js'
import { LIMITS } from './support/ingest.js'
import { Killed, ModelDatabase, ModelRewriteStore } from './support/model-database.js'
import { seeded } from './support/random.js'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
/** Where time begins at the earliest: what happens follows from the seed alone. */
const START_MS = Date.UTC(2050, 0, 1)
const ID = sensorId('s')
const CLASSES = ['7d', '30d', '400d', 'keep']

/**
 * A row that is not found so long after its time is gone for good. Before, it may be found again: a
 * process that has read it stops, and goes on to save it.
 */
const OVER_MS_MAX = HOUR_MS

/** How long a row may stay after its time: it was durable later, or was kept for a slice. */
const STAY_MS_MAX = 3 * HOUR_MS

/** How long a row may be gone before its time: times to live are in whole seconds. */
const EARLY_MS_MAX = 5_000

/** How long a process stops at most. */
const STOP_MS_MAX = timesOf().claimMs - MINUTE_MS

const logger = pino({ level: 'silent' })

/**
 * What must be found of a row: it, perhaps it, or not it.
 *
 * @typedef {{ ts: number, value: number, receivedMs: number, message: Message,
 *   overMs: number, fate: 'there' | 'maybe' | 'gone' }} Expected
 */

class World {
  /** @type {Expected[]} */
  sent = []
  /** Readers that have read layouts, and read rows later. */
  /** @type {{ atMs: number, layouts: any[], expected: Expected[] }[]} */
  readers = []
  checks = 0
  kills = 0
  pauses = 0
  /** @type {(() => void)[]} */
  paused = []
  /** Whether nothing happens by itself. */
  isCalm = true
  /** Of so many requests one ends, or stops, its process; 0 for none. */
  hazards = 0
  /** When rows were last stored in two places. */
  nextMs = 0
  /** When the first of those that are paused was. */
  pausedMs = 0

  /** @param {(below: number) => number} random */
  constructor(random) {
    this.random = random
    this.clock = { nowMs: START_MS + random(7 * 24) * HOUR_MS }
    this.database = new ModelDatabase(this.clock)
    this.database.delayMs = () => (random(4) === 0 ? random(25 * MINUTE_MS) : 0)
    this.store = new ModelRewriteStore(this.database, () => this.#hazard())
    const shareSensors = random(2) === 0
    this.processes = Array.from({ length: shareSensors ? 3 : 1 }, () =>
      buildIngest({
        storage: /** @type {any} */ (this.database),
        keyspace: 'k',
        logger,
        now: () => this.clock.nowMs,
        limits: { ...LIMITS, shareSensors },
      }),
    )
  }

  get layouts() {
    return this.database.registered(ID).layouts
  }

  /** @param {number} aheadMs */
  publish(aheadMs) {
    const receivedMs = this.clock.nowMs
    const value = this.sent.length
    // Some of one millisecond.
    const ts = Math.floor((receivedMs + aheadMs) / 1000) * 1000
    const message = new Message({
      origin: { settled() {} },
      clientId: 'c',
      session: undefined,
      visit: 0,
      qos: 1,
      topic: 'sensors/s/m',
      payload: Buffer.from(JSON.stringify({ t: ts, v: value })),
      dup: false,
      retain: false,
      packetId: 1,
      receivedMs,
      arrivedMs: 0,
    })
    this.sent.push({ ts, value, receivedMs, message, overMs: 0, fate: 'there' })
    this.processes[this.random(this.processes.length)].pipeline.accept(message)
  }

  publishSome() {
    const { random } = this
    const aheadMs = [0, -random(3 * HOUR_MS), -random(20 * DAY_MS), -random(40) * DAY_MS, HOUR_MS]
    this.publish(aheadMs[random(aheadMs.length)])
  }

  /** @param {number} ms */
  async advance(ms) {
    // Whoever stops goes on in the end, and before a request of it would be of another time.
    if (this.paused.length > 0 && this.clock.nowMs + ms > this.pausedMs + STOP_MS_MAX) {
      for (const resume of this.paused.splice(0)) resume()
      await this.turns()
    }
    const untilMs = this.clock.nowMs + ms
    for (let atMs = this.database.nextMs; atMs < untilMs; atMs = this.database.nextMs) {
      this.clock.nowMs = Math.max(this.clock.nowMs, atMs)
      await this.turns()
    }
    this.clock.nowMs = Math.max(this.clock.nowMs, untilMs)
    await this.turns()
    await this.check()
  }

  async turns() {
    for (let turn = 0; turn < 4; turn++) {
      this.database.land()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** What has expired by the class that holds now. */
  age() {
    const { layouts } = this
    if (layouts.length === 0) return
    for (const row of this.sent) {
      const ttlMs = retentionClass(layoutAt(layouts, row.ts).className).ttlS * 1000
      row.overMs = -1
      if (ttlMs === 0) continue
      const overMs = this.clock.nowMs - row.receivedMs - ttlMs
      if (overMs >= -EARLY_MS_MAX && row.fate === 'there') row.fate = 'maybe'
      row.overMs = overMs
    }
  }

  /** What a reader finds who begins now, and what one does who began before. */
  async check() {
    const { layouts, clock, random } = this
    if (layouts.length === 0) return
    this.age()
    const expected = this.sent.filter(({ message }) => message.isSettled)
    this.#compare(layouts, expected, true)
    if (random(8) === 0) {
      const atMs = clock.nowMs + random(40 * MINUTE_MS)
      const there = expected.filter(({ fate }) => fate === 'there')
      this.readers.push({ atMs, layouts, expected: there })
    }
    const due = this.readers.filter(({ atMs }) => atMs <= clock.nowMs)
    this.readers = this.readers.filter(({ atMs }) => atMs > clock.nowMs)
    for (const reader of due) {
      // Nobody reads for so long: its deadline has passed.
      if (clock.nowMs - reader.atMs > 20 * MINUTE_MS) continue
      this.#compare(reader.layouts, reader.expected, false)
    }
  }

  /**
   * @param {any[]} layouts
   * @param {Expected[]} expected
   * @param {boolean} isFresh  Whether they are those of now.
   */
  #compare(layouts, expected, isFresh) {
    this.checks++
    /** @type {Map<unknown, number>} */
    const found = new Map()
    for (const { value } of this.database.read(ID, layouts)) {
      found.set(value, (found.get(value) ?? 0) + 1)
    }
    const twice = [...found].filter(([, count]) => count > 1)
    const lost = expected.filter((row) => {
      const ttlMs = retentionClass(layoutAt(layouts, row.ts).className).ttlS * 1000 || Infinity
      const isOld = this.clock.nowMs - row.receivedMs >= ttlMs - EARLY_MS_MAX
      return row.fate === 'there' && !isOld && !found.has(row.value)
    })
    const isGone = (/** @type {Expected} */ { fate, overMs, value }) =>
      fate === 'maybe' && overMs > OVER_MS_MAX && !found.has(value)
    if (isFresh) for (const row of expected.filter(isGone)) row.fate = 'gone'
    const back = isFresh
      ? this.sent.filter((row) => row.fate === 'gone' && found.has(row.value))
      : []
    if (layouts.some(({ next }) => next)) this.nextMs = this.clock.nowMs
    const isLate = (/** @type {Expected} */ { overMs, value }) =>
      overMs > STAY_MS_MAX && this.clock.nowMs - this.nextMs > STAY_MS_MAX && found.has(value)
    const late = isFresh ? expected.filter(isLate) : []
    const plain = (/** @type {Expected[]} */ rows) =>
      rows.map(({ ts, value, receivedMs }) => ({ ts, value, receivedMs }))
    if (twice.length + lost.length + back.length + late.length === 0) return
    throw new WrongError(
      JSON.stringify({
        twice,
        lost: plain(lost),
        back: plain(back),
        late: plain(late),
        layouts,
        isFresh,
      }),
    )
  }

  /** Anything may happen while a request is on its way. */
  async #hazard() {
    if (this.isCalm) return
    const { random } = this
    if (random(60) === 0) this.publishSome()
    if (random(60) === 0) await this.advance(random(4 * MINUTE_MS))
    if (this.hazards === 0) return
    if (random(this.hazards) === 0) {
      this.kills++
      throw new Killed()
    }
    if (random(this.hazards) === 0) {
      this.pauses++
      if (this.paused.length === 0) this.pausedMs = this.clock.nowMs
      await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
        this.paused.push(resolve)
      })
    }
  }

  /** @param {string} className */
  ask(className) {
    const layout = layoutOfClass(this.layouts, className, this.clock.nowMs)
    if (layout) this.database.setLayout(ID, layout.fromMs, layout, this.clock.nowMs * 1000)
    this.store.ask(ID, className)
  }

  /** @param {string} runner */
  newRewrite(runner) {
    return new Rewrite({
      store: /** @type {any} */ (this.store),
      sensorId: ID,
      runner,
      now: () => this.clock.nowMs,
      wallNow: () => this.clock.nowMs,
      rest: async () => {},
      counts: { rows: 0, expired: 0, deleted: 0 },
      isStopped: () => false,
      times: { ...timesOf(), sliceRows: 1 + this.random(30) },
    })
  }
}

class WrongError extends Error {}

/** Steps a rewrite until it is over, as processes do that may die or stop. */
class Runners {
  /** @param {World} world */
  constructor(world) {
    this.world = world
    this.number = 0
    this.rewrite = world.newRewrite('0')
    /** @type {unknown} */
    this.failure = undefined
  }

  restart() {
    this.number++
    this.rewrite = this.world.newRewrite(`${this.number}`)
  }

  /** @returns {Promise<number>}  When to come back, in milliseconds. */
  async step() {
    const { world, rewrite } = this
    const { isCalm } = world
    world.isCalm = true
    const job = await world.store.job(ID)
    world.isCalm = isCalm
    if (!job || isOver(/** @type {any} */ (job))) return Infinity
    const { pauses } = world
    let isDone = false
    let backMs = 0
    const step = rewrite.step(/** @type {any} */ (job)).then(
      (ms) => {
        backMs = ms
        isDone = true
      },
      (error) => {
        isDone = true
        if (error instanceof WrongError) this.failure = error
        else if (!(error instanceof Killed || error instanceof TakenOver)) this.failure = error
        // A request may be lost, or the whole process.
        if (error instanceof TakenOver || world.random(2) === 0) this.restart()
      },
    )
    void step
    while (!isDone && world.pauses === pauses) await world.turns()
    // It stops in the middle: another one takes over, and it goes on some time later.
    if (!isDone) this.restart()
    if (this.failure) throw this.failure
    return backMs
  }
}

/** @param {() => number} fraction */
async function history(fraction) {
  const random = (/** @type {number} */ below) => Math.floor(fraction() * below)
  const world = new World(random)
  const runners = new Runners(world)
  world.publish(0)
  for (let turn = 0; turn < 30 && world.layouts.length === 0; turn++) {
    await world.advance(MINUTE_MS)
  }
  for (let at = 0; at < 20; at++) world.publishSome()
  let asked = 0
  for (let step = 0; step < 70; step++) {
    world.isCalm = false
    world.hazards = [0, 60, 400][random(3)]
    await world.advance(
      [MINUTE_MS, 20 * MINUTE_MS, 70 * MINUTE_MS, 30 * HOUR_MS, 3 * DAY_MS][random(5)],
    )
    for (let count = random(6); count > 0; count--) world.publishSome()
    if (random(8) === 0) {
      world.ask(CLASSES[random(CLASSES.length)])
      asked++
    } else if (random(30) === 0) {
      world.store.ask(ID, null)
    } else if (random(10) === 0) {
      const layout = layoutOfWidth(world.layouts, WIDTHS_S[random(5)], world.clock.nowMs)
      if (layout) await world.database.addLayout(ID, layout)
    }
    for (let turn = 0; turn < 6; turn++) {
      const backMs = await runners.step()
      if (backMs > 0 && backMs < 2 * HOUR_MS) await world.advance(backMs)
    }
  }
  return { world, runners, asked }
}

/** Lets everything come to its end. @param {Awaited<ReturnType<typeof history>>} past */
async function finish({ world, runners }) {
  world.isCalm = true
  world.hazards = 0
  world.database.delayMs = () => 0
  for (const resume of world.paused.splice(0)) resume()
  await world.advance(HOUR_MS)
  world.ask('keep')
  runners.restart()
  for (let turn = 0; turn < 5_000; turn++) {
    const backMs = await runners.step()
    if (backMs === Infinity) break
    await world.advance(Math.max(backMs, 5 * MINUTE_MS))
  }
  await world.advance(MINUTE_MS)
}

test('each row is found once, whoever dies, stops or hears late while it is rewritten', async () => {
  const seed = Number(process.env.SEED ?? randomInt(2 ** 31))
  // Also where the time runs out.
  console.log(`SEED=${seed}`)
  const fraction = seeded(seed)
  const tried = { asked: 0, kills: 0, pauses: 0, checks: 0, generations: 0 }
  for (let run = 0; run < Number(process.env.RUNS ?? 5); run++) {
    try {
      const past = await history(fraction)
      await finish(past)
      const { world, asked } = past
      const { state } = /** @type {any} */ (await world.store.job(ID))
      expect(state.phase).toBe('done')
      const now = world.clock.nowMs
      expect(
        world.layouts.filter(({ fromMs }) => fromMs <= now).map(({ className }) => className),
      ).toEqual(world.layouts.filter(({ fromMs }) => fromMs <= now).map(() => 'keep'))
      expect(world.sent.filter(({ message }) => !message.isSettled)).toEqual([])
      tried.asked += asked
      tried.kills += world.kills
      tried.pauses += world.pauses
      tried.checks += world.checks
      tried.generations += state.generation
      for (const { registry, writer } of world.processes) {
        registry.stop()
        writer.stop()
      }
    } catch (error) {
      throw new Error(`seed ${seed}, run ${run}: ${/** @type {Error} */ (error).message}`, {
        cause: error,
      })
    }
  }
  // It was tried.
  expect(tried.asked).toBeGreaterThan(15)
  expect(tried.kills).toBeGreaterThan(15)
  expect(tried.pauses).toBeGreaterThan(15)
}, 600_000)
