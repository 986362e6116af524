/**
 * Works off marks that series must be evaluated, for the sensors that are this process's: by what
 * is stored then, so that whoever takes over goes on where the last one stood. What time alone
 * decides, silence and `for_s`, has its moments here, found again in states after a restart.
 */

import { ROLLUP_SHARDS, shardOf } from '@sandglass/common/rollup'
import { isWrong, limitsOf } from '@sandglass/common/rules/check'
import { isWatching, watchesMetric, watchesSensor } from '@sandglass/common/rules/rule'
import { RULE_MARK_TTL_S, RULE_SLOT_MS } from '@sandglass/common/rules/tables'
import { withAbsence } from './absence.js'
import { eachOf } from './each.js'
import { Evaluation, SETTLE_MS, sooner } from './evaluation.js'
import { isPossible, RETURN_MS } from './hearing.js'
import { Owed } from './owed.js'
import { Silences } from './silences.js'
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

/** Pause after a failure, in milliseconds. */
const RETRY_MS = 1_000

/** How often failures that go on are told in the log, in milliseconds. */
const WARN_MS = 60_000

/** Sensors of a turn that may be unreadable before all have to wait. */
const UNREADABLE_MAX = 16

const TOO_MANY = 'too many series are to be evaluated once more: marks have to wait'

/** Clocks of processes may differ by this; the wall clock stepped back by more, in milliseconds. */
const STEP_BACK_MS_MIN = 5_000

/** @typedef {import('./store.js').RuleStore} RuleStore */
/** What is owed is kept apart. @typedef {Omit<import('./store.js').Progress, 'owed'>} Progress */
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
  #hearing
  #evaluation
  /** How far each part is that is ours. @type {Map<number, Progress>} */
  #progress = new Map()
  /** When series are looked at again, by sensor and metric. @type {Map<string, Due>} */
  #due = new Map()
  /** Series whose evaluation failed or is not finished. */
  #owed = new Owed()
  #silences
  /** Marks that are worked off, of slots that are not over. @type {Map<string, number>} */
  #handled = new Map()
  #savedMs = Number.NEGATIVE_INFINITY
  #scannedMs = Number.NEGATIVE_INFINITY
  /** Rules by which sensors were scanned. */
  #scannedRules = ''
  /** The wall clock at the last turn. */
  #wallMs = Number.NEGATIVE_INFINITY
  /** Whether the clock knows how far all have come. */
  #isClockSet = false
  #warnedMs = Number.NEGATIVE_INFINITY

  /**
   * @param {object} parts
   * @param {RuleStore} parts.store
   * @param {import('./watch.js').RuleWatch} parts.watch
   * @param {(shard: number) => boolean} parts.owns
   * @param {import('../rollup/slot-clock.js').SlotClock} parts.clock  By which marks are made.
   * @param {import('./hearing.js').Hearing} parts.hearing
   * @param {import('pino').Logger} parts.logger
   * @param {(ms: number) => Promise<void>} parts.sleep
   */
  constructor({ store, watch, owns, clock, hearing, logger, sleep }) {
    this.#store = store
    this.#watch = watch
    this.#owns = owns
    this.#clock = clock
    this.#logger = logger
    this.#sleep = sleep
    this.#hearing = hearing
    const now = () => clock.wallNow()
    const { counts } = this
    this.#evaluation = new Evaluation({ store, rules: () => watch.rules, now, hearing, counts })
    this.#silences = new Silences({
      store,
      absencesOf: (id) => this.#progress.get(shardOf(id))?.absences ?? [],
    })
  }

  /** Series that will be looked at again. */
  get waiting() {
    return this.#due.size + this.#owed.size
  }

  /**
   * How long ago marks were worked off, or how far ahead of the clock, of the worst part; or how
   * long a series is owed, or silence has not been judged, if that is longer; in seconds.
   */
  get lagS() {
    const done = [...this.#progress.values()].map(({ doneMs }) => doneMs)
    if (done.length === 0) return 0
    const freshMs = this.#clock.wallNow() - RULE_SLOT_MS - SLOT_GRACE_MS
    const behindMs = freshMs - Math.min(...done)
    const aheadMs = Math.max(...done) - this.#clock.now()
    const owedMs = this.#clock.steadyNow() - this.#owed.sinceMs
    const { heardMs } = this.#hearing
    const unheardMs = Number.isFinite(heardMs) ? freshMs - heardMs : 0
    return Math.max(0, behindMs, aheadMs, owedMs, unheardMs) / 1000
  }

  /** Hears of rules and states until it is stopped: every process does. */
  async listen() {
    while (!this.isStopped) {
      try {
        this.#hearing.look()
        await this.#setClock()
        await this.#watch.poll(this.#store)
        await this.#hearing.meet()
        await this.#sleep(POLL_MS)
      } catch (error) {
        this.#failed(error, 'alert rules are not known')
        await this.#sleep(RETRY_MS)
      }
    }
  }

  /**
   * Before this process makes marks, its clock hears how far they are worked off, by whomever: a
   * slot before that is not read again. Who works may have come a little further than is stored.
   */
  async #setClock() {
    if (this.#isClockSet) return
    for (let shard = 0; shard < ROLLUP_SHARDS; shard++) {
      const doneMs = (await this.#store.progress(shard))?.doneMs ?? Number.NEGATIVE_INFINITY
      const isAhead = doneMs > this.#clock.wallNow()
      if (isAhead) this.#clock.noteDone(doneMs + SAVE_MS + RULE_SLOT_MS)
    }
    this.#isClockSet = true
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
    const reason = /** @type {Error} */ (error).message
    const nowMs = this.#clock.steadyNow()
    if (nowMs - this.#warnedMs < WARN_MS) return this.#logger.debug({ reason }, what)
    this.#warnedMs = nowMs
    this.#logger.warn({ reason }, what)
  }

  /** Works off what is due. */
  async turn() {
    if (!this.#watch.hasRules) return
    await this.#own()
    if (this.#progress.size === 0) return
    const nowMs = this.#clock.now()
    this.#hearing.look()
    for (const absence of this.#hearing.absences) this.#noteAbsence(absence, nowMs)
    await this.#followClock(nowMs)
    await this.#workOffMarks(nowMs)
    await this.#workOffOwed()
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

  /**
   * After the clock was ahead, no moment of then is waited for, and marks are worked off from now
   * on. What was marked meanwhile may lie anywhere, so all newest values are looked at.
   *
   * @param {number} nowMs
   */
  async #followClock(nowMs) {
    const wallMs = this.#clock.wallNow()
    if (wallMs < this.#wallMs - STEP_BACK_MS_MIN) {
      for (const progress of this.#progress.values()) {
        progress.absences = progress.absences.filter((one) => isPossible(one, wallMs))
      }
      this.#lookAtAll()
    }
    this.#wallMs = wallMs
    const doneMsMin = ruleSlotOf(nowMs - RULE_MARK_TTL_S * 1000)
    for (const [shard, progress] of this.#progress) {
      progress.doneMs = Math.max(progress.doneMs, doneMsMin)
      if (progress.doneMs <= ruleSlotOf(nowMs)) continue
      const doneMs = ruleSlotOf(nowMs - SLOT_GRACE_MS)
      await this.#setProgress(shard, { ...progress, doneMs, scanned: {} })
      progress.doneMs = doneMs
      progress.scanned = {}
      this.#lookAtAll()
    }
  }

  /** @param {import('./absence.js').Absence} absence  @param {number} nowMs */
  #noteAbsence(absence, nowMs) {
    for (const progress of this.#progress.values()) {
      progress.absences = withAbsence(progress.absences, absence, nowMs)
    }
  }

  #lookAtAll() {
    for (const due of this.#due.values()) due.dueMs = 0
    this.#silences.lookAtAll()
    this.#scannedMs = Number.NEGATIVE_INFINITY
    this.#savedMs = Number.NEGATIVE_INFINITY
  }

  /** @param {number} shard  @param {Progress} progress */
  #setProgress(shard, progress) {
    return this.#store.setProgress(shard, { ...progress, owed: this.#owed.of(shard) })
  }

  /** @param {number} shard */
  async #take(shard) {
    const nowMs = this.#clock.now()
    const before = await this.#store.progress(shard)
    const earliestMs = nowMs - RULE_MARK_TTL_S * 1000
    const doneMs = Math.max(before?.doneMs ?? nowMs - SLOT_GRACE_MS, earliestMs)
    let absences = before?.absences ?? []
    if (before) {
      const fromMs = before.doneMs + RULE_SLOT_MS + SLOT_GRACE_MS
      if (nowMs - fromMs > AWAY_MS_MIN) {
        absences = withAbsence(absences, { fromMs, toMs: nowMs + RETURN_MS }, nowMs)
      }
    }
    const progress = { doneMs: ruleSlotOf(doneMs), scanned: before?.scanned ?? {}, absences }
    this.#owed.take(before?.owed ?? [], this.#clock.steadyNow())
    for (const { sensorId, metric, state } of await this.#store.active(shard)) {
      this.#again(sensorId, metric, { dueMs: 0, fromMs: Math.max(state.atMs, 0) })
    }
    await this.#setProgress(shard, progress)
    this.#progress.set(shard, progress)
    this.#scannedMs = Number.NEGATIVE_INFINITY
  }

  /** @param {number} shard */
  #leave(shard) {
    this.#progress.delete(shard)
    this.#owed.leave(shard)
    for (const [key, { sensorId }] of this.#due) {
      if (shardOf(sensorId) === shard) this.#due.delete(key)
    }
    this.#silences.leave(shard)
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

  /**
   * Evaluates a series, or owes it: one that fails keeps no other waiting.
   *
   * @param {string} sensorId
   * @param {string} metric
   * @param {number} fromMs
   * @throws  If too many are owed already.
   */
  async #evaluate(sensorId, metric, fromMs) {
    const progress = this.#progress.get(shardOf(sensorId))
    if (!progress || this.isStopped) return
    const owed = this.#owed.get(sensorId, metric)
    const series = { sensorId, metric, fromMs: Math.min(fromMs, owed?.fromMs ?? Infinity) }
    if (owed && owed.dueMs > this.#clock.steadyNow()) {
      owed.fromMs = series.fromMs
      return
    }
    try {
      const { absences } = progress
      const found = await this.#evaluation.evaluate(sensorId, metric, series.fromMs, absences)
      this.#again(sensorId, metric, found.again)
      if (!found.isMore) this.#owed.delete(sensorId, metric)
      else if (!this.#owed.add(series, this.#clock.steadyNow(), false)) throw new Error(TOO_MANY)
    } catch (error) {
      if (!this.#owed.add(series, this.#clock.steadyNow(), true)) throw error
      this.counts.failures++
      this.#failed(error, `alert rules have to wait for ${metric || 'all'} of sensor ${sensorId}`)
    }
  }

  /** Evaluates once more what failed or was not finished. */
  async #workOffOwed() {
    await this.#each(this.#owed.due(this.#clock.steadyNow()), ({ sensorId, metric, fromMs }) =>
      this.#evaluate(sensorId, metric, fromMs),
    )
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
    this.#silences.watch(watched, key !== this.#scannedRules)
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

  /** Looks at sensors that would be silent by now, as far as that is known. */
  async #judgeSilence() {
    const nowMs = this.#hearing.heardMs
    let failures = 0
    await this.#each(this.#silences.due(nowMs), async (due) => {
      try {
        const { isSilent, next } = await this.#silences.look(due, nowMs)
        if (isSilent) await this.#evaluate(due.sensorId, '', nowMs)
        next()
      } catch (error) {
        this.#silences.later(due, nowMs)
        // If many cannot be read the database is away.
        if (++failures > UNREADABLE_MAX) throw error
        this.counts.failures++
        this.#failed(error, `it is not known whether sensor ${due.sensorId} is silent`)
      }
    })
  }

  /** @param {number} nowMs */
  async #save(nowMs) {
    if (nowMs - this.#savedMs < SAVE_MS) return
    for (const [shard, progress] of this.#progress) await this.#setProgress(shard, progress)
    this.#savedMs = nowMs
  }

  /** @template T @param {readonly T[]} many  @param {(one: T) => Promise<unknown>} work */
  #each(many, work) {
    return eachOf(many, work, () => this.isStopped)
  }
}
