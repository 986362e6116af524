// Marks that alert rules must look at a series: when they are made, and that none is missing.
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { limitsOf, numberOf } from '@sandglass/common/rules/check'
import { AT_FIRST, fold } from '@sandglass/common/rules/machine'
import { ruleOfRow } from '@sandglass/common/rules/rule'
import { sensorId } from '@sandglass/common/sensor'
import { KNOWN_MS_MAX } from '../src/rules/watch.js'
import { until } from './support/ingest.js'
import { build } from './support/pipeline.js'

const RULE = '6f2c4b0e-5a65-4b3e-9a55-0f3a5a3b1c11'
const OTHER = '6f2c4b0e-5a65-4b3e-9a55-0f3a5a3b1c12'

/** @param {object} [more] */
const ruleWith = (more) =>
  ruleOfRow({
    rule_id: RULE,
    changed: new Date(1),
    body: JSON.stringify({
      name: 'r',
      kind: 'threshold',
      metric: 'm',
      above: 80,
      clear: 70,
      late_s: 600,
      ...more,
    }),
  })

/**
 * @param {import('@sandglass/common/rules/rule').Rule[]} rules
 * @param {any[]} [states]
 */
const readerOf = (rules, states = []) => ({
  rules: async () => rules,
  versions: async () => new Map([[0, Date.now()]]),
  active: async () => states,
  typeMetrics: async () => [{ type: 'pump', metric: 'm', said: { expected_max: 50 } }],
})

/** @param {ReturnType<typeof build>} ingest */
const marksOf = ({ storage }) => storage.rowsOf('rule_mark')

/** @param {{ rows: readonly { query: string }[] } | undefined} request */
const tablesOf = (request) =>
  new Set(request?.rows.map(({ query }) => /INTO k\.(\w+)/.exec(query)?.[1]))

afterEach(() => {
  jest.restoreAllMocks()
})

describe('a message whose value can change an alert', () => {
  test('is acknowledged after its mark is durable, which is written after its value is', async () => {
    const ingest = build()
    await ingest.rules.poll(readerOf([ruleWith()]))
    await ingest.settle('sensors/s/m', '10')
    expect(marksOf(ingest)).toEqual([])
    ingest.storage.isManual = true
    const message = ingest.accept('sensors/s/m', '90')
    await until(() => ingest.storage.requests.length > 0)
    const value = ingest.storage.requests.shift()
    expect(tablesOf(value).has('rule_mark')).toBe(false)
    expect(tablesOf(value).has('measurement_30d')).toBe(true)
    value?.end()
    await until(() => ingest.storage.requests.some((one) => tablesOf(one).has('rule_mark')))
    expect([message.isSettled, marksOf(ingest)]).toEqual([false, []])
    for (const one of ingest.storage.requests.splice(0)) one.end()
    await until(() => message.isSettled)
    expect(marksOf(ingest)).toMatchObject([{ metric: 'm' }])
    expect(String(marksOf(ingest)[0].sensor_id)).toBe(sensorId('s'))
  })

  test('is marked again if its mark is durable only after nobody reads its slot any more', async () => {
    let nowMs = 1_767_225_600_000
    jest.spyOn(Date, 'now').mockImplementation(() => nowMs)
    const ingest = build()
    await ingest.rules.poll(readerOf([ruleWith()]))
    await ingest.settle('sensors/s/m', '10')
    ingest.storage.isManual = true
    const message = ingest.accept('sensors/s/m', '90')
    const endAll = () => {
      for (const one of ingest.storage.requests.splice(0)) one.end()
    }
    await until(() => ingest.storage.requests.length > 0)
    endAll()
    await until(() => ingest.storage.requests.some((one) => tablesOf(one).has('rule_mark')))
    nowMs += 15_001
    endAll()
    await until(() => ingest.storage.requests.some((one) => tablesOf(one).has('rule_mark')))
    expect(message.isSettled).toBe(false)
    endAll()
    await until(() => message.isSettled)
    const slots = marksOf(ingest).map(({ slot }) => slot)
    expect(slots).toEqual([1_767_225_600_000, 1_767_225_610_000])
  })

  test('is not marked if it is of long ago, or a dead letter that is taken once more', async () => {
    const ingest = build()
    await ingest.rules.poll(readerOf([ruleWith()]))
    await ingest.settle('sensors/s/m', { t: Date.now() - 601_000, v: 90 })
    await ingest.settle('sensors/s/m', '90', { arrival: 'replay' })
    expect(marksOf(ingest)).toEqual([])
    await ingest.settle('sensors/s/m', { t: Date.now() - 590_000, v: 90 })
    expect(marksOf(ingest)).toHaveLength(1)
  })

  test('is looked at from its receipt on if it only ends a silence, whatever its time says', async () => {
    const subject = { ruleId: OTHER, sensorId: sensorId('s'), metric: 'm' }
    const states = [{ ...subject, state: { ...AT_FIRST, phase: 'firing' } }]
    const silence = { ...ruleWith({ kind: 'silence', above: undefined, for_s: 10 }), id: OTHER }
    for (const rules of [
      [silence, ruleWith()],
      [ruleWith(), silence],
    ]) {
      const ingest = build()
      await ingest.rules.poll(readerOf(rules, states))
      const beginMs = Date.now()
      await ingest.settle('sensors/s/m', { t: beginMs - 20 * 86_400_000, v: 90 })
      await ingest.settle('sensors/s/m', { t: beginMs - 590_000, v: 90 })
      const [first, second] = marksOf(ingest).map(({ ts }) => Number(ts))
      expect(first).toBeGreaterThanOrEqual(beginMs - 5_000)
      expect(first).toBeLessThanOrEqual(Date.now())
      // A value that may start an alert is looked at from its time on.
      expect(second).toBe(beginMs - 590_000)
    }
  })

  test('is marked whatever it says once states have not been heard of for seconds', async () => {
    const ingest = build()
    await ingest.rules.poll(readerOf([ruleWith()]))
    await ingest.settle('sensors/s/m', '10')
    expect(marksOf(ingest)).toEqual([])
    await new Promise((resolve) => setTimeout(resolve, KNOWN_MS_MAX + 100))
    await ingest.settle('sensors/s/m', '10.5')
    expect(marksOf(ingest)).toHaveLength(1)
    await ingest.rules.poll(readerOf([ruleWith()]))
    await ingest.settle('sensors/s/m', '11')
    expect(marksOf(ingest)).toHaveLength(1)
  })

  test('waits until rules are known', async () => {
    const ingest = build()
    ingest.rules.prepare()
    const message = ingest.accept('sensors/s/m', '90')
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect([message.isSettled, ingest.storage.rowsOf('measurement_30d')]).toEqual([false, []])
    await ingest.rules.poll(readerOf([ruleWith()]))
    await until(() => message.isSettled)
    expect(marksOf(ingest)).toHaveLength(1)
  })

  test('of a type is found by it, and by what is expected of its metric', async () => {
    const ingest = build()
    for (const [name, type] of [
      ['a', 'pump'],
      ['b', 'fan'],
    ]) {
      const words = { type, unit: undefined, tags: {} }
      const known = { ...ingest.storage.registered(sensorId(name)), words }
      ingest.storage.sensors.set(sensorId(name), known)
    }
    await ingest.rules.poll(
      readerOf([
        ruleWith({
          kind: 'range',
          above: undefined,
          clear: undefined,
          metric: undefined,
          type: 'pump',
        }),
      ]),
    )
    for (const name of ['a', 'b'])
      for (const value of ['50', '51']) await ingest.settle(`sensors/${name}/m`, value)
    expect(marksOf(ingest).map((row) => String(row.sensor_id))).toEqual([sensorId('a')])
  })
})

test('no value that changes a state goes unmarked, in any state, of any kind of rule', async () => {
  const rules = [
    ruleWith(),
    ruleWith({ for_s: 5 }),
    ruleWith({ above: undefined, below: 20, clear: 30 }),
    ruleWith({ kind: 'rate', clear: undefined, above: 600, per_s: 60 }),
  ]
  let marked = 0
  for (const rule of rules) {
    for (const phase of /** @type {const} */ (['ok', 'pending', 'firing'])) {
      // What lasts no time is never pending; what time alone changes needs no mark.
      if (phase === 'pending' && !rule.for_s) continue
      for (const before of [0, 25, 50, 75, 100]) {
        for (const value of [0, 19, 20, 21, 30, 31, 70, 71, 80, 81, 100, true]) {
          const ingest = build()
          const t = Date.now() - 20_000
          await ingest.rules.poll(readerOf([]))
          await ingest.settle('sensors/s/m', { t, v: before })
          const subject = { ruleId: RULE, sensorId: sensorId('s'), metric: 'm' }
          const sinceMs = phase === 'ok' ? 0 : t
          const state = {
            ...AT_FIRST,
            phase,
            sinceMs,
            firedMs: sinceMs,
            atMs: t,
            value: before,
            shown: before,
          }
          await ingest.rules.poll(readerOf([rule], phase === 'ok' ? [] : [{ ...subject, state }]))
          const timeMs = t + 1_000
          await ingest.settle('sensors/s/m', { t: timeMs, v: value })
          const limits = /** @type {any} */ (limitsOf(rule, { min: undefined, max: undefined }))
          const terms = {
            limits,
            forMs: (rule.for_s ?? 0) * 1000,
            lateMs: 600_000,
            fromMs: 0,
            perMs: rule.kind === 'rate' ? 60_000 : undefined,
          }
          const sample = { timeMs, seq: 0, receivedMs: Date.now(), value: Number(numberOf(value)) }
          const after = fold(state, terms, [sample]).state
          const isChanged = after.phase !== phase
          const isMarked = marksOf(ingest).length > 0
          const name = `${rule.kind} ${rule.above} ${phase} ${before} ${value}`
          if (isChanged) expect([name, isMarked]).toEqual([name, true])
          if (isMarked) marked++
        }
      }
    }
  }
  // Nor is all marked.
  expect(marked).toBeGreaterThan(100)
  expect(marked).toBeLessThan(500)
})
