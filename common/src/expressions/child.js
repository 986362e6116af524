/**
 * The process in which expressions are evaluated. It may end at any moment: by a payload that takes
 * all of its memory, or by its watchdog. Who started it finds out which message it was.
 */

import { Worker } from 'node:worker_threads'
import { compile, evaluate, harden, refused } from './evaluate.js'

/** Most expressions that are remembered compiled. */
const COMPILED_MAX = 256

/** How long an answer waits for those after it, in milliseconds. */
const ANSWER_MS = 10

/** @typedef {import('./evaluate.js').Compiled} Compiled */
/** @typedef {import('./evaluate.js').Said} Said */

/**
 * @typedef {object} Job
 * @property {number} id
 * @property {string} expression
 * @property {import('./evaluate.js').Reading} reading
 * @property {Uint8Array | undefined} payload  Without one it is only looked at the expression.
 * @property {string} topic
 * @property {string} [sensor]
 * @property {string} [metric]
 */

/** The number of the job that is being worked on: odd while it is. The watchdog reads it. */
const turn = new Int32Array(new SharedArrayBuffer(4))

/** Oldest first. @type {Map<string, Compiled | Error>} */
const known = new Map()

/** @param {string} text */
function compiledOf(text) {
  const found = known.get(text)
  if (found) return found
  /** @type {Compiled | Error} */
  let made
  try {
    made = compile(text)
  } catch (error) {
    made = /** @type {Error} */ (error)
  }
  if (known.size >= COMPILED_MAX) known.delete(/** @type {string} */ (known.keys().next().value))
  known.set(text, made)
  return made
}

/** @param {Job} job  @returns {Promise<Said>} */
async function work({ expression, reading, payload, ...place }) {
  const compiled = compiledOf(expression)
  if (compiled instanceof Error) return refused(compiled.message)
  if (payload === undefined) return { outcome: 0, said: '' }
  return evaluate(compiled, reading, Buffer.from(payload), place)
}

const { cpuMsMax, realMsMax } = JSON.parse(process.argv[2])
const watchdog = new Worker(new URL('./watchdog.js', import.meta.url), {
  workerData: { turn, cpuMsMax, realMsMax, parent: process.ppid },
})
watchdog.unref()
harden()

/** @param {Job[]} jobs */
async function answer(jobs) {
  /** @type {import('./evaluator.js').Answer[]} */
  let answers = []
  let sinceMs = performance.now()
  for (const job of jobs) {
    Atomics.add(turn, 0, 1)
    const beginMs = performance.now()
    const { outcome, said } = await work(job)
    Atomics.add(turn, 0, 1)
    answers.push([job.id, outcome, said, performance.now() - beginMs])
    if (performance.now() - sinceMs < ANSWER_MS) continue
    process.send?.(answers)
    answers = []
    sinceMs = performance.now()
  }
  if (answers.length > 0) process.send?.(answers)
}

process.on('message', (jobs) => void answer(/** @type {Job[]} */ (jobs)))
process.on('disconnect', () => process.exit())
