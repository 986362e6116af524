// What an alert rule costs ingest: the share of its code in a profile of V8. Of the CPU of a whole
// process, with a rule and without, a difference of a microsecond a message cannot be told.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { shareOf } from '../measure/profile.js'
import { underLoad } from '../measure/underload.js'
import { cpuUs } from '../measure/usage.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../../support/stack.js').Stack} Stack */

const figure = figuresOf('rules')

const LOAD = { connections: 500, sensors: 10_000, rate: 4_000 }

/** What a rule may cost, in microseconds of ingest's CPU for a message. */
const RULE_US_MAX = 2

/** Of all sensors, and never wrong: each value is looked at. */
const RULES = [
  { name: 'bench', kind: 'threshold', metric: 'value', above: 1e9 },
  { name: 'bench', kind: 'rate', metric: 'value', above: 1e9 },
  { name: 'bench', kind: 'silence', for_s: 3600 },
]

/** The code of rules; with it counts all that it calls. */
const CODE = '/ingest/src/rules/'

/** How long a rule takes until it is known and has looked at the newest values, in ms. */
const KNOWN_MS = 9_000

/** How often V8 looks where the thread is, in microseconds. */
const SAMPLE_US = 200

/** The clock of profiles, in microseconds. */
const nowUs = () => Number(process.hrtime.bigint() / 1000n)

/**
 * @param {Stack} stack
 * @param {number} ms
 */
async function lookAt(stack, ms) {
  const { pid } = stack.part('ingest')
  const before = { us: cpuUs(pid), stored: (await stack.stats()).stored }
  const fromUs = nowUs()
  await delay(ms)
  const toUs = nowUs()
  const after = { us: cpuUs(pid), stored: (await stack.stats()).stored }
  return { fromUs, toUs, messageUs: (after.us - before.us) / (after.stored - before.stored) }
}

/**
 * @param {import('../benchmarks.js').Context} context
 * @returns {Promise<import('../report/figure.js').Figure[]>}
 */
export async function rules({ seconds, progress }) {
  const turnMs = (seconds * 1000) / (RULES.length + 1)
  const totalS = Math.ceil(((RULES.length + 1) * (turnMs + KNOWN_MS)) / 1000 + 5)
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-bench-'))
  /** @type {{ kind: string, time: Awaited<ReturnType<typeof lookAt>> }[]} */
  const turns = []
  try {
    await underLoad({
      load: { ...LOAD, seconds: totalS },
      stack: {
        ingestNode: [
          '--cpu-prof',
          `--cpu-prof-dir=${directory}`,
          `--cpu-prof-interval=${SAMPLE_US}`,
        ],
      },
      async during(stack) {
        const url = `${stack.apiUrl}/v1/rules`
        const headers = { 'content-type': 'application/json' }
        turns.push({ kind: 'no', time: await lookAt(stack, turnMs) })
        for (const rule of RULES) {
          const body = JSON.stringify(rule)
          const response = await fetch(url, { method: 'POST', headers, body })
          if (response.status !== 201) throw new Error(await response.text())
          const { id } = /** @type {any} */ (await response.json())
          await delay(KNOWN_MS)
          turns.push({ kind: rule.kind, time: await lookAt(stack, turnMs) })
          await fetch(`${url}/${id}`, { method: 'DELETE' })
        }
      },
      progress,
    })
    const [name] = readdirSync(directory)
    const profile = JSON.parse(readFileSync(join(directory, name), 'utf8'))
    return turns.map(({ kind, time }) => {
      const us = time.messageUs * shareOf(profile, CODE, time)
      progress(`${kind} rule: ${us.toFixed(2)} us of ${time.messageUs.toFixed(1)}`)
      const bound = kind === 'no' ? undefined : { atMost: RULE_US_MAX }
      return figure(`the code of rules, ${kind} rule`, us, 'us a message', bound)
    })
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
