/** When sensors will be silent, and by which rules: nobody is read before that moment. */

import { shardOf } from '@sandglass/common/rollup'
import { awayFor } from './absence.js'

/** How often a sensor is looked at that is silent, or cannot be read, in milliseconds. */
const LOOK_MS = 60_000

/** Sensors whose silence is judged in one turn, so that marks do not wait for them. */
const AT_ONCE = 256

/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */
/** @typedef {{ sensorId: string, rules: Rule[] }} Due */

export class Silences {
  /** By sensor. @type {Map<string, { dueMs: number, rules: Rule[] }>} */
  #all = new Map()
  #store
  #absencesOf

  /**
   * @param {object} parts
   * @param {Pick<import('./store.js').RuleStore, 'received'>} parts.store
   * @param {(sensorId: string) => readonly import('./absence.js').Absence[]} parts.absencesOf
   */
  constructor({ store, absencesOf }) {
    this.#store = store
    this.#absencesOf = absencesOf
  }

  /**
   * Which sensors are to be judged, by which rules.
   *
   * @param {ReadonlyMap<string, Rule[]>} watched
   * @param {boolean} isOther  Whether rules have changed: then all are looked at.
   */
  watch(watched, isOther) {
    for (const id of this.#all.keys()) if (!watched.has(id)) this.#all.delete(id)
    // Who is known keeps its place in the queue.
    for (const [id, rules] of watched) {
      this.#all.set(id, { dueMs: isOther ? 0 : (this.#all.get(id)?.dueMs ?? 0), rules })
    }
  }

  lookAtAll() {
    for (const silence of this.#all.values()) silence.dueMs = 0
  }

  /** Those of a part are another's now. @param {number} shard */
  leave(shard) {
    for (const id of this.#all.keys()) if (shardOf(id) === shard) this.#all.delete(id)
  }

  /** Some of those whose moment has come. @param {number} nowMs  @returns {Due[]} */
  due(nowMs) {
    const due = []
    for (const [sensorId, { dueMs, rules }] of this.#all) {
      if (dueMs <= nowMs) due.push({ sensorId, rules })
      if (due.length === AT_ONCE) break
    }
    return due
  }

  /** It is looked at again after a pause, behind all. @param {Due} due  @param {number} nowMs */
  later({ sensorId, rules }, nowMs) {
    this.#put(sensorId, { dueMs: nowMs + LOOK_MS, rules })
  }

  /**
   * Behind all others: where more are due than are looked at in a turn, each has its turn.
   *
   * @param {string} sensorId
   * @param {{ dueMs: number, rules: Rule[] }} silence
   */
  #put(sensorId, silence) {
    this.#all.delete(sensorId)
    this.#all.set(sensorId, silence)
  }

  /**
   * Looks whether a sensor may be silent; once that is judged, `next` says when to look again.
   *
   * @param {Due} due
   * @param {number} nowMs
   * @returns {Promise<{ isSilent: boolean, next: () => void }>}
   */
  async look({ sensorId, rules }, nowMs) {
    const received = [...(await this.#store.received(sensorId)).entries()]
    const absences = this.#absencesOf(sensorId)
    let isSilent = false
    let dueMs = Number.POSITIVE_INFINITY
    for (const { metric, for_s: forS = 0 } of rules) {
      const times = received.filter(([one]) => metric === undefined || one === metric)
      const lastMs = Math.max(...times.map(([, { receivedMs }]) => receivedMs), 0)
      const atMs = lastMs + forS * 1000 + awayFor(absences, lastMs, nowMs)
      if (atMs <= nowMs) isSilent = true
      dueMs = Math.min(dueMs, atMs <= nowMs ? nowMs + LOOK_MS : atMs)
    }
    return { isSilent, next: () => this.#put(sensorId, { dueMs, rules }) }
  }
}
