/** What alert rules work on, in memory: values, marks, states and alerts, and a clock to be set. */

import { shardOf } from '@sandglass/common/rollup'
import { stateOfText, stateText } from '@sandglass/common/rules/machine'
import { ruleOfRow } from '@sandglass/common/rules/rule'
import { sensorId } from '@sandglass/common/sensor'
import pino from 'pino'
import { SlotClock } from '../../src/rollup/slot-clock.js'
import { Hearing } from '../../src/rules/hearing.js'
import { ruleSlotOf } from '../../src/rules/store.js'
import { RuleWatch } from '../../src/rules/watch.js'
import { RuleWorker } from '../../src/rules/worker.js'

/** What the database takes at once, as far as a test is concerned. */
const STATEMENTS_MAX = 1_000

/** Values that are read at a time. */
const VALUES_AT_ONCE = 1_000

/** @typedef {import('@sandglass/common/rules/machine').Sample} Sample */

export class RuleWorld {
  nowMs = 1_767_225_600_000
  steadyMs = 0
  /** @type {import('@sandglass/common/rules/rule').Rule[]} */
  rules = []
  /** By sensor and metric, in order of time. @type {Map<string, Sample[]>} */
  samples = new Map()
  /** @type {any[]} */
  marks = []
  /** As stored. @type {Map<string, any>} */
  states = new Map()
  /** @type {Map<number, any>} */
  progress = new Map()
  /** What receivers are told. @type {{ sensor: string, change: string, timeMs: number }[]} */
  told = []
  /** Rows that were read of each series. @type {Map<string, number>} */
  rowsRead = new Map()
  slotsRead = 0
  /** Messages of this process that are not stored. */
  held = {
    inFlight: { oldestMs: /** @type {number | undefined} */ (undefined) },
    spools: [{ oldestMs: /** @type {number | undefined} */ (undefined) }],
  }
  isConnected = true
  /** When the broker sent something last, if that is not now. @type {number | undefined} */
  brokerMs
  /** @type {Hearing | undefined} */
  hearing
  /** What processes tell, by their ids. @type {Map<string, any>} */
  heard = new Map()
  /** When measurements of sensors were deleted last. @type {Map<string, number>} */
  deletedMs = new Map()
  /** Series that cannot be read, by sensor. @type {Set<string>} */
  broken = new Set()
  /** @type {{ level: number, msg: string }[]} */
  logged = []
  /** @type {Map<string, string>} */
  #names = new Map()
  clock = this.newClock()

  newClock() {
    return new SlotClock({ now: () => this.nowMs, steadyNow: () => this.steadyMs })
  }

  /** @param {object} more */
  addRule(more) {
    const body = { name: 'r', kind: 'threshold', metric: 'm', above: 80, late_s: 600, ...more }
    const id = `6f2c4b0e-5a65-4b3e-9a55-0f3a5a3b1c${10 + this.rules.length}`
    const row = { rule_id: id, changed: new Date(1), body: JSON.stringify(body) }
    this.rules.push(ruleOfRow(row))
  }

  /**
   * Stores values of a sensor, and marks the first.
   *
   * @param {string} sensor
   * @param {[timeMs: number, value: number][]} values
   * @param {number} [receivedMs]
   */
  add(sensor, values, receivedMs = this.nowMs) {
    const id = sensorId(sensor)
    this.#names.set(id, sensor)
    const all = this.samples.get(id) ?? []
    this.samples.set(id, all)
    for (const [timeMs, value] of values) {
      all.push({ timeMs, seq: 0, receivedMs, value })
    }
    all.sort((a, b) => a.timeMs - b.timeMs)
    const timeMs = values.reduce((least, [atMs]) => Math.min(least, atMs), Infinity)
    const slotMs = ruleSlotOf(this.clock.now())
    const mark = { id: `${this.marks.length}`, slotMs, sensorId: id, metric: 'm', timeMs }
    this.marks.push(mark)
  }

  /** A process that knows nothing yet. */
  async start() {
    const store = /** @type {any} */ (this.#store())
    const logger = pino(
      { level: 'debug' },
      { write: (/** @type {string} */ line) => this.logged.push(JSON.parse(line)) },
    )
    const { clock, held } = this
    const brokerMs = () => (this.isConnected ? (this.brokerMs ?? this.steadyMs) : undefined)
    this.hearing = new Hearing({ store, id: 'this', clock, held, brokerMs })
    const watch = new RuleWatch({ rows: /** @type {any} */ ({}), clock: this.clock })
    const worker = new RuleWorker({
      store,
      watch,
      owns: () => true,
      clock: this.clock,
      hearing: this.hearing,
      logger,
      // It has heard of rules once: that is enough.
      sleep: async () => worker.stop(),
    })
    await worker.listen()
    worker.isStopped = false
    return worker
  }

  /** @param {RuleWorker} worker  @param {number} seconds */
  async run(worker, seconds) {
    for (let turn = 0; turn < seconds * 2; turn++) {
      this.nowMs += 500
      this.steadyMs += 500
      await worker.turn()
      await this.hearing?.meet()
    }
  }

  /** How often each sensor's change was told. @returns {Record<string, number>} */
  get counts() {
    /** @type {Record<string, number>} */
    const counts = {}
    for (const { sensor, change } of this.told) {
      const key = `${sensor} ${change}`
      counts[key] = (counts[key] ?? 0) + 1
    }
    return counts
  }

  /** What is stored of series, as it is read. */
  #values() {
    /** @param {string} id  @param {number} fromMs */
    const read = (id, fromMs) => {
      const sensor = /** @type {string} */ (this.#names.get(id))
      if (this.broken.has(sensor)) throw new Error('the rows of it cannot be read')
      const all = this.samples.get(id) ?? []
      const at = all.findIndex(({ timeMs }) => timeMs >= fromMs)
      const samples = at < 0 ? [] : all.slice(at)
      this.rowsRead.set(sensor, (this.rowsRead.get(sensor) ?? 0) + samples.length)
      return samples
    }
    return {
      async *since(
        /** @type {string} */ id,
        /** @type {string} */ _metric,
        /** @type {any} */ _known,
        /** @type {number} */ fromMs,
      ) {
        const samples = read(id, fromMs)
        for (let from = 0; from <= samples.length; from += VALUES_AT_ONCE) {
          yield samples.slice(from, from + VALUES_AT_ONCE)
        }
      },
      before: async (
        /** @type {string} */ id,
        /** @type {string} */ _metric,
        /** @type {any} */ _known,
        /** @type {number} */ fromMs,
      ) => this.samples.get(id)?.findLast(({ timeMs }) => timeMs < fromMs),
      newestReceivedMs: async (
        /** @type {string} */ id,
        /** @type {string} */ _metric,
        /** @type {any} */ _known,
        /** @type {number} */ fromMs,
      ) => read(id, fromMs).reduce((most, one) => Math.max(most, one.receivedMs), -Infinity),
    }
  }

  #store() {
    const world = this
    /** @param {(sensor: string) => boolean} isWanted */
    const statesOf = (isWanted) =>
      [...world.states.values()]
        .filter((one) => isWanted(one.sensorId))
        .map((one) => ({ ...one, state: stateOfText(one.text) }))
    const told = new Set()
    return {
      rules: async () => world.rules,
      versions: async () => new Map(),
      heard: async () => new Map(world.heard),
      tellHeard: async (/** @type {string} */ id, /** @type {any} */ heard) => {
        world.heard.set(id, heard)
      },
      typeMetrics: async () => [],
      progress: async (/** @type {number} */ shard) => structuredClone(world.progress.get(shard)),
      setProgress: async (/** @type {number} */ shard, /** @type {any} */ progress) => {
        world.progress.set(shard, structuredClone(progress))
      },
      active: async (/** @type {number} */ shard) =>
        statesOf((id) => shardOf(id) === shard).filter(({ state }) => state.phase !== 'ok'),
      states: async (/** @type {string} */ id) => statesOf((one) => one === id),
      marks: async (/** @type {number[]} */ slots) => {
        world.slotsRead += slots.length
        return world.marks.filter(({ slotMs }) => slots.includes(slotMs))
      },
      sensor: async (/** @type {string} */ id) => ({
        name: world.#names.get(id),
        isHidden: false,
        createdMs: 1,
        words: { type: undefined, tags: {} },
        layouts: [],
        lastMs: new Map([['m', world.nowMs]]),
        expected: () => ({ min: undefined, max: undefined }),
        symbol: () => '°C',
      }),
      async *sensors() {
        for (const id of world.samples.keys()) yield { id, words: { type: undefined, tags: {} } }
      },
      async *newest() {
        for (const [id, all] of world.samples) {
          const { timeMs, value } = /** @type {Sample} */ (all.at(-1))
          yield { sensorId: id, metric: 'm', timeMs, value }
        }
      },
      received: async (/** @type {string} */ id) => {
        const sensor = /** @type {string} */ (world.#names.get(id))
        if (world.broken.has(sensor)) throw new Error('the rows of it cannot be read')
        const newest = world.samples.get(id)?.at(-1)
        return new Map(newest ? [['m', newest]] : [])
      },
      values: world.#values(),
      deletedMs: async (/** @type {string} */ id) =>
        world.deletedMs.get(/** @type {string} */ (world.#names.get(id))) ?? -Infinity,
      silencedMs: async () => 0,
      stateRows: (
        /** @type {any} */ subject,
        /** @type {import('@sandglass/common/rules/machine').State} */ state,
      ) => {
        const text = stateText(state)
        const key = JSON.stringify(subject)
        return [() => world.states.set(key, { ...subject, text }), () => {}]
      },
      alertRow: () => () => {},
      resolvedRow: () => () => {},
      notificationRow: (/** @type {number} */ _shard, /** @type {any} */ { id, body }) => {
        return () => {
          if (told.has(id)) return
          told.add(id)
          const { type, data } = JSON.parse(body)
          const timeMs = Date.parse(data.time ?? '')
          world.told.push({ sensor: data.sensor.name, change: type.slice(6), timeMs })
        }
      },
      together: async (/** @type {(() => void)[]} */ all) => {
        if (all.length > STATEMENTS_MAX) throw new Error('Mutation is larger than the maximum size')
        for (const write of all) write()
      },
    }
  }
}
