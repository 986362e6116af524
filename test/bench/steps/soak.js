// What becomes of the platform in an hour at a rate at which a small team's runs: its files,
// descriptors, memory, CPU and how soon it acknowledges, looked at every minute.
import { setTimeout as delay } from 'node:timers/promises'
import { platformOf, underLoad } from '../measure/underload.js'
import { cpuUs, descriptors, filesIn, pssBytes } from '../measure/usage.js'
import { csvOf } from '../report/csv.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../report/csv.js').Row} Row */

const figure = figuresOf('soak')

const LOAD = { connections: 100, sensors: 100, rate: 1000 }
/** How often it is looked: in the middle of each of so many equal parts of the time. */
const LOOKS = 60
/** What is said of the beginning and of the end is of so many looks. */
const LOOKS_OF_AN_END = 10
const MEMORY_MB_MAX = 200
const CPU_PERCENT_MAX = 3

/**
 * @param {import('../benchmarks.js').Context} context
 * @returns {Promise<import('../report/figure.js').Figure[]>}
 */
export async function soak({ seconds, progress, write }) {
  /** @type {Row[]} */
  const rows = []
  const everyMs = (seconds * 1000) / LOOKS
  const { load, usage, rowsStored } = await underLoad({
    load: { ...LOAD, seconds, windows: LOOKS },
    during: async (stack) => {
      const look = looker(stack)
      const beganMs = performance.now()
      for (let number = 1; number <= LOOKS; number++) {
        await delay(beganMs + (number - 0.5) * everyMs - performance.now())
        rows.push(look())
        if (number % LOOKS_OF_AN_END === 0) progress(`${Math.round((number * everyMs) / 1000)} s`)
      }
    },
    progress,
  })
  for (const [index, { ackP50Ms, ackP99Ms }] of load.windows.entries()) {
    Object.assign(rows[index], {
      'due to PUBACK, ms: median': ackP50Ms,
      'due to PUBACK, ms: p99': ackP99Ms,
    })
  }
  write('soak.csv', csvOf(rows))
  const count = load.acknowledged
  const { generator, ...platformUs } = usage.cpuUs
  const us = sum(Object.values(platformUs))
  const worst = Math.max(...load.windows.map(({ ackP99Ms }) => ackP99Ms))
  const [first, last] = [rows.slice(0, LOOKS_OF_AN_END), rows.slice(-LOOKS_OF_AN_END)]
  return [
    figure('acknowledged, each durable', count / load.seconds, 'messages/s', { atLeast: 999 }),
    figure('acknowledged and not in the database', load.acknowledgedInAll - rowsStored, '', {
      atMost: 0,
    }),
    figure('connections lost', load.disconnects, '', { atMost: 0 }),
    figure('due to PUBACK, median', load.ackP50Ms, 'ms'),
    figure('due to PUBACK, p99', load.ackP99Ms, 'ms'),
    figure(`p99 of the worst of ${LOOKS} parts of the time`, worst, 'ms'),
    figure('CPU of all parts', us / load.seconds / 10_000, '% of a core', {
      atMost: CPU_PERCENT_MAX,
    }),
    figure('CPU of the load generator', generator / load.seconds / 10_000, '% of a core'),
    figure('memory of all parts, most in the first sixth', most(first, 'memory'), 'MB'),
    figure('memory of all parts, most in the last sixth', most(last, 'memory'), 'MB', {
      atMost: MEMORY_MB_MAX,
    }),
    figure('open descriptors, most in the first sixth', most(first, 'descriptors')),
    figure('open descriptors, most in the last sixth', most(last, 'descriptors')),
    figure('files on disk, most in the last sixth', most(last, 'files')),
    figure('kept busy by other programs', usage.otherCores, 'cores'),
  ]
}

/**
 * What looks at the platform: each time, how much CPU it used since the last look.
 *
 * @param {import('../../support/stack.js').Stack} stack
 * @returns {() => Row}
 */
function looker(stack) {
  const parts = Object.entries(platformOf(stack).pids)
  const cpu = () => parts.map(([, pid]) => cpuUs(pid))
  let before = { ms: performance.now(), cpu: cpu() }
  const beganMs = before.ms
  return () => {
    const now = { ms: performance.now(), cpu: cpu() }
    const files = filesIn(stack.directory)
    /** @type {Row} */
    const row = { seconds: (now.ms - beganMs) / 1000 }
    for (const [name, pid] of parts) row[`memory, MB: ${name}`] = pssBytes(pid) / 1e6
    for (const [index, [name]] of parts.entries()) {
      const us = now.cpu[index] - before.cpu[index]
      row[`CPU, % of a core: ${name}`] = us / (now.ms - before.ms) / 10
    }
    for (const [name, pid] of parts) row[`open descriptors: ${name}`] = descriptors(pid)
    row['files on disk: all'] = files.count
    row['bytes on disk, MB: all'] = files.bytes / 1e6
    before = now
    return row
  }
}

/**
 * The largest sum of what begins with a word.
 *
 * @param {Row[]} rows
 * @param {string} word
 */
function most(rows, word) {
  const sums = rows.map((row) =>
    sum(Object.entries(row).flatMap(([name, value]) => (name.includes(word) ? [value] : []))),
  )
  return Math.max(...sums)
}

/** @param {number[]} values */
function sum(values) {
  return values.reduce((total, value) => total + value, 0)
}
