/**
 * Works off marks that series must be evaluated, for the sensors that are this process's: by what
 * is stored then, so that whoever takes over goes on where the last one stood. What time alone
 * decides, silence and `for_s`, has its moments here, found again in states after a restart.
 */

import { ROLLUP_SHARDS, shardOf } from '@sandglass/common/rollup'
import { isWrong, limitsOf } from '@sandglass/common/rules/check'
import { isWatching, watchesMetric, watchesSensor } from '@sandglass/common/rules/rule'
import { RULE_MARK_TTL_S, RULE_SLOT_MS } from '@sandglass/common/rules/tables'
import { awayFor, Evaluation, SETTLE_MS, sooner } from './evaluation.js'
import { ruleSlotOf, SLOTS_AT_ONCE } from './store.js'
import { POLL_MS } from './watch.js'

/** How often marks and moments are looked at, in milliseconds. */
const TURN_MS = 500

/** How long a slot has been over when it is read for the last time, in milliseconds. */
const SLOT_GRACE_MS = 10_000

/** How often it is stored how far marks are worked off, in milliseconds. */
const SAVE_MS = 10_000

/** How often all sensors are looked at for silence, and all alerts for their rules, in ms. */
const SCAN_MS = 60_000

/** A shorter time in which nobody worked is none, in milliseconds. */
const AWAY_MS_MIN = 20_000

/** How long devices have to come back after that, in milliseconds. */
const RETURN_MS = 10_000

/** Series that are evaluated at the same time. */
const AT_ONCE = 8

/** Sensors whose silence is judged in one turn, so that marks do not wait for them. */
const SILENCES_AT_ONCE = 256

/** Pause after a failure, in milliseconds. */
const RETRY_MS = 1_000

/** @typedef {import('./store.js').RuleStore} RuleStore */
/** @typedef {import('./store.js').Progress} Progress */
/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */
/** @typedef {{ sensorId: string, metric: string, fromMs: number, dueMs: number }} Due */

/** What is expected of a metric is not known here. @param {Rule} rule  @param {number} value */
function mayBeWrong(rule, value) {
  if (rule.kind === 'range') return true
  // The next value tells the first rate.
  if (rule.kind === 'rate') return false
  const limits = limitsOf(rule, { min: undefined, max: undefined })
  return limits !== undefined && isWrong(limits, value)
}

export class RuleWorker {
  counts = { evaluations: 0, fired: 0, resolved: 0, failures: 0 }
  /** Whether it has to stop. */
  isStopped = false
  #store
  #watch
  #owns
  #clock
  #logger
  #sleep
  #evaluation
  /** How far each part is that is ours. @type {Map<number, Progress>} */
  #progress = new Map()
  /** When series are looked at again, by sensor and metric. @type {Map<string, Due>} */
  #due = new Map()
  /** When sensors will be silent, and by which rules. */
  #silences = /** @type {Map<string, { dueMs: number, rules: Rule[] }>} */ (new Map())
  /** Marks that are worked off, of slots that are not over. @type {Map<string, number>} */
  #handled = new Map()
  #savedMs = Number.NEGATIVE_INFINITY
  #scannedMs = Number.NEGATIVE_INFINITY
  /** Rules by which sensors were scanned. */
  #scannedRules = ''

  /**
   * @param {object} parts
   * @param {RuleStore} parts.store
   * @param {import('./watch.js').RuleWatch} parts.watch
   * @param {(shard: number) => boolean} parts.owns
   * @param {import('../rollup/slot-clock.js').SlotClock} parts.clock  By which marks are made.
   * @param {import('pino').Logger} parts.logger
   * @param {(ms: number) => Promise<void>} parts.sleep
   */
  constructor({ store, watch, owns, clock, logger, sleep }) {
    this.#store = store
    this.#watch = watch
    this.#owns = owns
    this.#clock = clock
    this.#logger = logger
    this.#sleep = sleep
    const now = () => clock.wallNow()
    this.#evaluation = new Evaluation({ store, rules: () => watch.rules, now, counts: this.counts })
  }

  /** Series that will be looked at again. */
  get waiting() {
    return this.#due.size
  }

  /** How long ago marks were worked off, in seconds; of the worst part. */
  get lagS() {
    const done = [...this.#progress.values()].map(({ doneMs }) => doneMs)
    if (done.length === 0) return 0
    const freshMs = this.#clock.wallNow() - RULE_SLOT_MS - SLOT_GRACE_MS
    return Math.max(0, freshMs - Math.min(...done)) / 1000
  }

  /** Hears of rules and states until it is stopped: every process does. */
  async listen() {
    while (!this.isStopped) {
      try {
        await this.#watch.poll(this.#store)
        await this.#sleep(POLL_MS)
      } catch (error) {
        this.#failed(error, 'alert rules are not known')
        await this.#sleep(RETRY_MS)
      }
    }
  }

  /** Works until it is stopped. */
  async run() {
    while (!this.isStopped) {
      try {
        await this.turn()
        await this.#sleep(TURN_MS)
      } catch (error) {
        this.counts.failures++
        this.#failed(error, 'alert rules have to wait')
        await this.#sleep(RETRY_MS)
      }
    }
  }

  stop() {
    this.isStopped = true
  }

  /** @param {unknown} error  @param {string} what */
  #failed(error, what) {
    if (this.isStopped) return
    this.#logger.debug({ reason: /** @type {Error} */ (error).message }, what)
  }

  /** Works off what is due. */
  async turn() {
    if (!this.#watch.hasRules) return
    await this.#own()
    if (this.#progress.size === 0) return
    const nowMs = this.#clock.now()
    await this.#workOffMarks(nowMs)
    await this.#lookAgain()
    await this.#scan()
    await this.#judgeSilence()
    await this.#save(nowMs)
  }

  /** Takes the parts that have become ours, and leaves those that are another's now. */
  async #own() {
    for (let shard = 0; shard < ROLLUP_SHARDS; shard++) {
      const isOurs = this.#owns(shard)
      if (isOurs === this.#progress.has(shard)) continue
      if (isOurs) await this.#take(shard)
      else this.#leave(shard)
    }
  }

  /** @param {number} shard */
  async #take(shard) {
    const nowMs = this.#clock.now()
    const before = await this.#store.progress(shard)
    const earliestMs = nowMs - RULE_MARK_TTL_S * 1000
    const doneMs = Math.max(before?.doneMs ?? nowMs - SLOT_GRACE_MS, earliestMs)
    let away = before?.away
    if (before) {
      const fromMs = before.doneMs + RULE_SLOT_MS + SLOT_GRACE_MS
      if (nowMs - fromMs > AWAY_MS_MIN) away = { fromMs, toMs: nowMs + RETURN_MS }
    }
    const progress = { doneMs: ruleSlotOf(doneMs), scanned: before?.scanned ?? {}, away }
    for (const { sensorId, metric, state } of await this.#store.active(shard)) {
      this.#again(sensorId, metric, { dueMs: 0, fromMs: Math.max(state.atMs, 0) })
    }
    await this.#store.setProgress(shard, progress)
    this.#progress.set(shard, progress)
    this.#scannedMs = Number.NEGATIVE_INFINITY
  }

  /** @param {number} shard */
  #leave(shard) {
    this.#progress.delete(shard)
    for (const [key, { sensorId }] of this.#due) {
      if (shardOf(sensorId) === shard) this.#due.delete(key)
    }
    for (const sensorId of this.#silences.keys()) {
      if (shardOf(sensorId) === shard) this.#silences.delete(sensorId)
    }
  }

  /**
   * @param {string} sensorId
   * @param {string} metric
   * @param {import('./evaluation.js').Again | undefined} again
   */
  #again(sensorId, metric, again) {
    if (!again) return
    const key = `${sensorId} ${metric}`
    const both = sooner(this.#due.get(key), again)
    this.#due.set(key, { sensorId, metric, ...(both ?? again) })
  }

  /** @param {string} sensorId  @param {string} metric  @param {number} fromMs */
  async #evaluate(sensorId, metric, fromMs) {
    const progress = this.#progress.get(shardOf(sensorId))
    if (!progress || this.isStopped) return
    const again = await this.#evaluation.evaluate(sensorId, metric, fromMs, progress.away)
    this.#again(sensorId, metric, again)
  }

  /** @param {number} nowMs */
  async #workOffMarks(nowMs) {
    const lastMs = ruleSlotOf(nowMs + RULE_SLOT_MS)
    let atMs = Math.min(...[...this.#progress.values()].map(({ doneMs }) => doneMs))
    while (atMs <= lastMs && !this.isStopped) {
      const slots = []
      for (; slots.length < SLOTS_AT_ONCE && atMs <= lastMs; atMs += RULE_SLOT_MS) slots.push(atMs)
      await this.#workOffSlots(slots)
      const doneMs = Math.min(atMs, ruleSlotOf(nowMs - SLOT_GRACE_MS))
      for (const progress of this.#progress.values()) {
        progress.doneMs = Math.max(progress.doneMs, doneMs)
      }
      for (const [id, slotMs] of this.#handled) if (slotMs < doneMs) this.#handled.delete(id)
    }
  }

  /** @param {number[]} slots */
  async #workOffSlots(slots) {
    const marks = (await this.#store.marks(slots)).filter(
      ({ id, sensorId }) => !this.#handled.has(id) && this.#progress.has(shardOf(sensorId)),
    )
    /** @type {Map<string, { sensorId: string, metric: string, fromMs: number }>} */
    const series = new Map()
    for (const { sensorId, metric, timeMs } of marks) {
      const key = `${sensorId} ${metric}`
      const fromMs = Math.min(timeMs, series.get(key)?.fromMs ?? Infinity)
      series.set(key, { sensorId, metric, fromMs })
    }
    await this.#each([...series.values()], ({ sensorId, metric, fromMs }) =>
      this.#evaluate(sensorId, metric, fromMs),
    )
    if (this.isStopped) return
    for (const { id, slotMs } of marks) this.#handled.set(id, slotMs)
  }

  /** Looks at series whose moment has come. */
  async #lookAgain() {
    const nowMs = this.#clock.wallNow()
    const due = [...this.#due].filter(([, { dueMs }]) => dueMs <= nowMs)
    await this.#each(due, async ([key, { sensorId, metric, fromMs }]) => {
      this.#due.delete(key)
      try {
        await this.#evaluate(sensorId, metric, fromMs)
      } catch (error) {
        this.#again(sensorId, metric, { dueMs: nowMs, fromMs })
        throw error
      }
    })
  }

  /** Looks at all sensors after rules have changed, and now and then. */
  async #scan() {
    const nowMs = this.#clock.wallNow()
    const rules = [...this.#watch.rules.values()]
    // Every process must know a rule before the newest values are looked at.
    const settled = rules.filter(({ changedMs }) => changedMs + SETTLE_MS <= nowMs)
    const key = settled.map(({ id, changedMs }) => `${id} ${changedMs}`).join()
    if (key === this.#scannedRules && nowMs - this.#scannedMs < SCAN_MS) return
    await this.#lookAtAlerts()
    const fresh = settled.filter((rule) => rule.kind !== 'silence' && isWatching(rule))
    const silences = settled.filter((rule) => rule.kind === 'silence' && isWatching(rule))
    const isFresh = (/** @type {Progress} */ { scanned }, /** @type {Rule} */ { id, changedMs }) =>
      scanned[id] !== changedMs
    const progresses = [...this.#progress.values()]
    const hasFresh = fresh.some((rule) => progresses.some((progress) => isFresh(progress, rule)))
    /** @type {Map<string, Rule[]>} */
    const watched = new Map()
    /** @type {Map<string, Rule[]>} */
    const wanted = new Map()
    if (hasFresh || silences.length > 0) {
      for await (const { id, words } of this.#store.sensors()) {
        const progress = this.#progress.get(shardOf(id))
        if (!progress) continue
        const isOf = (/** @type {Rule} */ rule) => watchesSensor(rule, id, words)
        const listening = silences.filter(isOf)
        if (listening.length > 0) watched.set(id, listening)
        const judging = fresh.filter((rule) => isFresh(progress, rule) && isOf(rule))
        if (judging.length > 0) wanted.set(id, judging)
      }
    }
    await this.#lookAtNewest(wanted)
    const isOther = key !== this.#scannedRules
    const before = this.#silences
    this.#silences = new Map()
    for (const [id, listening] of watched) {
      const dueMs = isOther ? 0 : (before.get(id)?.dueMs ?? 0)
      this.#silences.set(id, { dueMs, rules: listening })
    }
    for (const progress of progresses) {
      progress.scanned = Object.fromEntries(fresh.map(({ id, changedMs }) => [id, changedMs]))
    }
    this.#scannedRules = key
    this.#scannedMs = nowMs
    this.#savedMs = Number.NEGATIVE_INFINITY
  }

  /** Of alerts whose rule or sensor may be gone. */
  async #lookAtAlerts() {
    for (const shard of this.#progress.keys()) {
      for (const { sensorId, metric, state } of await this.#store.active(shard)) {
        this.#again(sensorId, metric, { dueMs: 0, fromMs: Math.max(state.atMs, 0) })
      }
    }
  }

  /**
   * Evaluates series whose newest value may be wrong by a rule that is new.
   *
   * @param {ReadonlyMap<string, Rule[]>} wanted  By sensor.
   */
  async #lookAtNewest(wanted) {
    if (wanted.size === 0) return
    for await (const { sensorId, metric, timeMs, value } of this.#store.newest()) {
      const rules = wanted.get(sensorId) ?? []
      const isWanted = rules.some((rule) => watchesMetric(rule, metric) && mayBeWrong(rule, value))
      if (isWanted) await this.#evaluate(sensorId, metric, timeMs)
    }
  }

  /** Looks at sensors that would be silent by now. */
  async #judgeSilence() {
    const nowMs = this.#clock.wallNow()
    const due = []
    for (const [sensorId, { dueMs, rules }] of this.#silences) {
      if (dueMs <= nowMs) due.push({ sensorId, rules })
      if (due.length === SILENCES_AT_ONCE) break
    }
    await this.#each(due, async ({ sensorId, rules }) => {
      const { silentMs, nextMs } = await this.#silentAt(sensorId, rules, nowMs)
      if (silentMs <= nowMs) await this.#evaluate(sensorId, '', nowMs)
      this.#silences.set(sensorId, { dueMs: nextMs, rules })
    })
  }

  /**
   * When a sensor may be silent, and when that is to be asked next.
   *
   * @param {string} sensorId
   * @param {Rule[]} rules
   * @param {number} nowMs
   */
  async #silentAt(sensorId, rules, nowMs) {
    const received = [...(await this.#store.received(sensorId)).entries()]
    const away = this.#progress.get(shardOf(sensorId))?.away
    let silentMs = Infinity
    let nextMs = nowMs + SCAN_MS
    for (const { metric, for_s: forS = 0 } of rules) {
      const times = received.filter(([one]) => metric === undefined || one === metric)
      const lastMs = Math.max(...times.map(([, { receivedMs }]) => receivedMs), 0)
      const atMs = lastMs + forS * 1000 + awayFor(away, lastMs)
      silentMs = Math.min(silentMs, atMs)
      if (atMs > nowMs) nextMs = Math.min(nextMs, atMs)
    }
    return { silentMs, nextMs }
  }

  /** @param {number} nowMs */
  async #save(nowMs) {
    if (nowMs - this.#savedMs < SAVE_MS) return
    for (const [shard, progress] of this.#progress) await this.#store.setProgress(shard, progress)
    this.#savedMs = nowMs
  }

  /**
   * Does something for each of many, a few at a time.
   *
   * @template T
   * @param {readonly T[]} many
   * @param {(one: T) => Promise<unknown>} work
   */
  async #each(many, work) {
    let next = 0
    const one = async () => {
      while (next < many.length && !this.isStopped) await work(many[next++])
    }
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, many.length) }, one))
  }
}
