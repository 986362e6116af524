// The past that a fleet in the present fills first.
import { expect, test } from '@jest/globals'
import { backfillIntervalMs, backfillPlan } from '../src/backfill.js'
import { readSimulatorOptions } from '../src/options.js'

const END_MS = Date.UTC(2026, 0, 5, 6, 7)
const DAY_MS = 86_400_000
const MINUTE_MS = 60_000

/** @param {string[]} args */
const read = (...args) => readSimulatorOptions(['node', 'main.js', ...args])

/** @param {ReturnType<typeof read>} options  @param {number} endMs */
function messagesOf(options, endMs) {
  const plan = backfillPlan(options, endMs)
  const all = []
  for (const schedule of plan.schedules) {
    while (!schedule.isOver) {
      const due = schedule.take(Number.POSITIVE_INFINITY)
      if (due) all.push(...plan.messagesAt(schedule, due))
    }
  }
  expect(plan.percent).toBe(100)
  return all
}

test('is a reading a minute of each sensor, up to now', () => {
  const all = messagesOf(read('--sensors=7', '--backfill=1h', '--seed=3'), END_MS)
  const times = all.map(({ timeMs = 0 }) => timeMs)
  expect(all).toHaveLength(7 * 60)
  expect(Math.min(...times)).toBe(END_MS - DAY_MS / 24)
  expect(Math.max(...times)).toBeLessThan(END_MS)
  expect(Math.max(...times)).toBeGreaterThan(END_MS - MINUTE_MS)
})

test('is the same once more: what is published again is stored already', () => {
  const options = read('--sensors=13', '--connections=3', '--backfill=2h')
  const linesOf = (/** @type {number} */ endMs) =>
    new Set(messagesOf(options, endMs).map(({ topic, payload }) => `${topic} ${payload}`))
  const first = linesOf(END_MS)
  const later = linesOf(END_MS + 10 * MINUTE_MS + 17)
  const shared = [...later].filter((line) => first.has(line))
  // One more at most where the last turn of a connection falls on the very end.
  expect(Math.abs(first.size - 13 * 120)).toBeLessThanOrEqual(3)
  // All but the first ten minutes, and the one that has begun.
  expect(shared.length).toBeGreaterThanOrEqual(13 * 109)
})

test('has no trouble, and nothing of sensors that have no clock', () => {
  const trouble = ['--malformed-percent=50', '--late-percent=50', '--duplicate-percent=50']
  const all = messagesOf(
    read('--sensors=4', '--backfill=1h', '--clockless-percent=25', ...trouble),
    END_MS,
  )
  expect(all).toHaveLength(3 * 60)
  expect(all.filter(({ values, timeMs }) => !values || timeMs === undefined)).toEqual([])
})

test('of a large fleet has readings that are further apart', () => {
  expect(backfillIntervalMs({ sensors: 25, spanMs: DAY_MS })).toBe(MINUTE_MS)
  expect(backfillIntervalMs({ sensors: 69, spanMs: DAY_MS })).toBe(MINUTE_MS)
  expect(backfillIntervalMs({ sensors: 10_000, spanMs: DAY_MS })).toBe(144 * MINUTE_MS)
})

test('is a day of a run without end, and none of any other unless it is told', () => {
  expect(read().backfill).toBe(DAY_MS)
  const none = [['--duration=5'], ['--from=1h'], ['--replay=x.csv'], ['--rate=0'], ['--reconcile']]
  for (const args of [...none, ['--shape=plain'], ['--backfill=0']]) {
    expect([args, read(...args).backfill]).toEqual([args, 0])
  }
  expect(read('--duration=5', '--backfill=36h').backfill).toBe(1.5 * DAY_MS)
})
