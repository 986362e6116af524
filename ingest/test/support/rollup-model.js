/**
 * Processes of ingest that share a fake database and one clock, which a test moves: each takes
 * messages and works on rollups, and may be killed, stand still, or be off for weeks. What readers
 * believe is compared with what was acknowledged.
 */

import { Aggregate } from '@sandglass/common/aggregate'
import {
  believed,
  HOUR_MS,
  LEVELS,
  MARK,
  SLOT_GRACE_MS,
  SLOT_MS,
  STEP_BACK_WAIT_MS_MAX,
  shardOf,
  startOf,
  unfinishedSlots,
} from '@sandglass/common/rollup'
import { retentionClass } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import pino from 'pino'
import { buildIngest } from '../../src/ingest.js'
import { Message } from '../../src/message/message.js'
import { SlotClock } from '../../src/rollup/slot-clock.js'
import { RollupWorker } from '../../src/rollup/worker.js'
import { createFakeRollups } from './fake-rollups.js'
import { FakeStorage } from './fake-storage.js'
import { LIMITS } from './ingest.js'

const logger = pino({ level: 'silent' })

/** How long before they must rows may be taken for expired, in milliseconds. */
const EXPIRY_MARGIN_MS = 120_000

/** @typedef {import('../../src/write/row.js').Row} Row */
/** @typedef {{ sensor: string, timeMs: number, v: number, message: Message }} Published */

export class Model {
  wallMs
  steadyMs = 0
  /** The latest that the wall clock said: what had expired then is not expected again. */
  latestMs
  /** Where the clocks by which hours are marked may stand still. */
  peakMs = Number.NEGATIVE_INFINITY
  storage = new FakeStorage()
  /** @type {Published[]} */
  published = []
  /** Whether a request of a worker fails. */
  fails = () => false

  /** @param {{ startMs: number, className?: string }} what */
  constructor({ startMs, className = '30d' }) {
    this.wallMs = startMs
    this.latestMs = startMs
    this.peakMs = startMs
    this.className = className
    this.now = () => this.wallMs
    this.steadyNow = () => this.steadyMs
    this.rollups = createFakeRollups({
      storage: this.storage,
      now: this.now,
      steadyNow: this.steadyNow,
      fails: () => this.fails(),
    })
  }

  /** Time passes. @param {number} ms */
  pass(ms) {
    this.steadyMs += ms
    this.step(ms)
  }

  /** The wall clock steps. @param {number} ms */
  step(ms) {
    this.wallMs += ms
    const isFar = this.wallMs < this.peakMs - STEP_BACK_WAIT_MS_MAX
    this.peakMs = isFar ? this.wallMs : Math.max(this.peakMs, this.wallMs)
    this.latestMs = Math.max(this.latestMs, this.wallMs)
  }

  /** @param {string} id  @param {number} [skewMs]  What its clock is ahead. */
  process(id, skewMs = 0) {
    return new Process(this, id, skewMs)
  }

  /** @param {string} sensor  @param {string} level  @param {number} startMs */
  rollup(sensor, level, startMs) {
    const series = { sensorId: sensorId(sensor), metric: 'm' }
    return this.rollups.rollupsOf(level, series).get(startMs)?.aggregate
  }

  /** Everything that a reader would believe and that is not so. */
  lies() {
    return this.#judge(true)
  }

  /** What is not believed, or not so, when all work is done. */
  faults() {
    return this.#judge(false)
  }

  /** @param {boolean} isMoment  Whether rollups may lag behind. */
  #judge(isMoment) {
    /** @type {string[]} */
    const found = []
    const bySensor = grouped(this.published, ({ sensor }) => sensor)
    for (const [sensor, ours] of bySensor) {
      const known = this.#progress(sensor)
      for (const level of LEVELS) {
        const { name, windowMs } = level
        for (const [startMs, inside] of grouped(ours, (one) => startOf(one.timeMs, windowMs))) {
          const range = { fromMs: startMs, toMs: startMs + windowMs }
          const isBelieved =
            known !== undefined && believed(level, range, known.doneMs, known.dirty).length > 0
          const isOver = Math.max(windowMs, HOUR_MS) + startMs < this.wallMs - HOUR_MS
          const fault = isBelieved
            ? this.#difference(inside, this.rollup(sensor, name, startMs))
            : !isMoment && isOver && 'it is not believed'
          const time = new Date(startMs).toISOString()
          if (fault) found.push(`${name} of ${sensor} at ${time}: ${fault}`)
        }
      }
    }
    return found
  }

  /** What a reader learns of a sensor. @param {string} sensor */
  #progress(sensor) {
    const id = sensorId(sensor)
    const shard = shardOf(id)
    const doneMs = this.rollups.progress.get(shard)?.doneMs
    const slots = unfinishedSlots(doneMs, this.wallMs)
    if (doneMs === undefined || !slots) return undefined
    const dirty = new Set()
    for (const place of this.rollups.rows.marks.keys()) {
      const [of, slotMs] = place.split(' ').map(Number)
      if (of !== shard || slotMs < slots.fromMs || slotMs >= slots.toMs) continue
      for (const mark of this.rollups.rows.marksOf(shard, slotMs)) {
        if (mark.level === MARK.hour && mark.sensorId === id) dirty.add(mark.startMs)
      }
    }
    return { doneMs, dirty }
  }

  /** @param {Published[]} rows  @param {Aggregate} [told] */
  #difference(rows, told) {
    const acknowledged = rows.filter(({ message }) => message.isSettled)
    const n = told?.n ?? 0
    if (n > rows.length) return `${n} rows, of ${rows.length}`
    const live = acknowledged.filter((one) => !this.#mayHaveExpired(one))
    if (n === 0 && live.length > 0) return `empty, of ${live.length} rows`
    if (rows.some((one) => this.#mayHaveExpired(one))) return undefined
    if (n < acknowledged.length) return `${n} of ${acknowledged.length} rows`
    if (!told || n !== acknowledged.length || n !== rows.length) return undefined
    const right = new Aggregate()
    for (const { timeMs, v } of rows) right.add(timeMs, 0, v)
    for (const key of /** @type {const} */ (['sum', 'min', 'max', 'first', 'last'])) {
      if (Math.abs(told[key] - right[key]) > 1e-6)
        return `${key} is ${told[key]}, not ${right[key]}`
    }
    return undefined
  }

  /** @param {Published} one */
  #mayHaveExpired({ message }) {
    const { ttlS } = retentionClass(this.className)
    if (ttlS === 0) return false
    return this.latestMs >= message.receivedMs + ttlS * 1000 - EXPIRY_MARGIN_MS
  }
}

/**
 * @template T, K
 * @param {Iterable<T>} many
 * @param {(one: T) => K} keyOf
 */
function grouped(many, keyOf) {
  /** @type {Map<K, T[]>} */
  const groups = new Map()
  for (const one of many) {
    const group = groups.get(keyOf(one))
    if (group) group.push(one)
    else groups.set(keyOf(one), [one])
  }
  return groups
}

/** One run of a process of ingest. */
export class Process {
  isOff = false
  isTurning = false
  #model
  /** Ends a standstill. @type {(() => void) | undefined} */
  #wake
  /** @type {Promise<void> | undefined} */
  #still
  /** Requests of rows on their way. @type {{ rows: readonly Row[], end: () => void }[]} */
  #requests = []

  /** @param {Model} model  @param {string} id  @param {number} skewMs */
  constructor(model, id, skewMs) {
    this.#model = model
    const { storage, steadyNow, className: retentionClass } = model
    const now = () => model.wallMs + skewMs
    this.clock = new SlotClock({ now, steadyNow })
    const { clock } = this
    const limits = { ...LIMITS, clientMessagesMax: 1e6, retentionClass, shareSensors: true }
    const own = Object.create(storage, { insert: { value: this.#insert.bind(this) } })
    this.ingest = buildIngest({
      storage: own,
      keyspace: 'k',
      logger,
      now,
      slotClock: clock,
      limits,
    })
    this.worker = new RollupWorker({
      store: this.#gated(model.rollups.store),
      id,
      logger,
      clock,
      sleep: async () => {},
    })
  }

  /** @param {string} sensor  @param {number} timeMs  @param {number} v */
  publish(sensor, timeMs, v) {
    const message = new Message({
      origin: { settled() {} },
      clientId: 'c',
      session: undefined,
      visit: 0,
      qos: 1,
      topic: `sensors/${sensor}/m`,
      payload: Buffer.from(JSON.stringify({ t: timeMs, v })),
      dup: false,
      retain: false,
      packetId: 1,
      receivedMs: this.#model.wallMs,
      arrivedMs: 0,
    })
    this.#model.published.push({ sensor, timeMs, v, message })
    this.ingest.pipeline.accept(message)
    return message
  }

  /** Works on rollups, unless it does so already. */
  async turn() {
    if (this.isTurning || this.isOff) return
    this.isTurning = true
    await this.worker.turn().catch(() => {})
    this.isTurning = false
  }

  /** Rows on their way become durable. @param {number} [at]  Of which request; all if not said. */
  land(at) {
    if (this.#still) return
    const requests = at === undefined ? this.#requests.splice(0) : this.#requests.splice(at, 1)
    for (const { end } of requests) end()
  }

  get requests() {
    return this.#requests.length
  }

  /** `kill -9`. @param {(row: readonly Row[]) => boolean} [lands]  Whether a request arrives. */
  kill(lands = () => false) {
    this.isOff = true
    for (const { rows } of this.#requests.splice(0)) {
      if (lands(rows)) void this.#model.storage.insert(rows)
    }
  }

  /** It stands still, wherever it is. */
  stop() {
    this.#still ??= new Promise((resolve) => {
      this.#wake = () => resolve()
    })
  }

  goOn() {
    this.#wake?.()
    this.#still = undefined
  }

  get isStill() {
    return this.#still !== undefined
  }

  /** @param {readonly Row[]} rows */
  async #insert(rows) {
    await new Promise((resolve) => {
      this.#requests.push({ rows, end: () => resolve(undefined) })
    })
    await this.#model.storage.insert(rows)
    await this.#alive()
  }

  /** Resolves while it runs, and never when it was killed. */
  async #alive() {
    while (this.#still) await this.#still
    if (this.isOff) await new Promise(() => {})
  }

  /** The same questions, as long as it runs. */
  /** @template {Record<string, Function>} T  @param {T} store  @returns {T} */
  #gated(store) {
    const entries = Object.entries(store).map(([name, ask]) => [
      name,
      ['raw', 'dirty', 'hours'].includes(name)
        ? (/** @type {any[]} */ ...what) => this.#rowByRow(ask(...what))
        : (/** @type {any[]} */ ...what) => this.#whole(() => ask(...what)),
    ])
    return Object.fromEntries(entries)
  }

  /** @param {() => Promise<unknown>} ask */
  async #whole(ask) {
    await this.#alive()
    const answer = await ask()
    await this.#alive()
    return answer
  }

  /** @param {AsyncIterable<unknown>} rows */
  async *#rowByRow(rows) {
    await this.#alive()
    for await (const row of rows) {
      await this.#alive()
      yield row
    }
  }
}

export const tick = () => new Promise((resolve) => setImmediate(resolve))

/** One process that does all the work. @param {number} startMs  @param {string} [className] */
export async function alone(startMs, className) {
  const model = new Model({ startMs, className })
  const process = model.process('a')
  await process.turn()
  return { model, process }
}

/** @param {Process} process  @param {string} sensor  @param {number} timeMs  @param {number} v */
export async function store(process, sensor, timeMs, v) {
  const message = process.publish(sensor, timeMs, v)
  while (!message.isSettled) {
    await tick()
    process.land()
  }
}

/** Everything that is marked now is worked off. @param {Model} model  @param {Process} process */
export async function settle(model, process) {
  model.pass(SLOT_MS + SLOT_GRACE_MS)
  await process.turn()
}
