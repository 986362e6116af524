// The engine alone: what one operation costs it, without ingest and MQTT. The load is the engine's
// own example `load`, written in Rust, because a JavaScript driver would be the bottleneck.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ENGINE } from '../../support/stack.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../report/figure.js').Figure} Figure */

const figure = figuresOf('engine')

const MANIFEST = fileURLToPath(new URL('../../../db-engine/Cargo.toml', import.meta.url))
/** The load's executable, if SANDGLASS_LOAD names one that is built already. */
const LOAD = process.env.SANDGLASS_LOAD
/** The longest that building and all steps may take, in milliseconds. */
const LOAD_MS_MAX = 1_200_000

/** What each step of the load is, and the CPU that it may cost, in microseconds for each row. */
const STEPS = [
  { step: 'batch_of_50', name: 'one row of a prepared batch of 50', floor: 0.6 },
  { step: 'batch_of_50_sensors', name: 'the same, each row of another sensor', floor: undefined },
  { step: 'write_1kb_64_in_flight', name: 'durable write of 1 KB, 64 in flight', floor: 6 },
  { step: 'write_1kb_4000_a_second', name: 'durable write of 1 KB, 4,000/s', floor: 20 },
  { step: 'read_64_in_flight', name: 'single read, 64 in flight', floor: 5 },
  { step: 'read_4000_a_second', name: 'single read, 4,000/s', floor: undefined },
]

/**
 * @param {import('../benchmarks.js').Context} context
 * @returns {Promise<Figure[]>}
 */
export async function engine({ seconds, progress }) {
  const cargo = ['run', '--release', '--quiet', '--manifest-path', MANIFEST, '--example', 'load']
  progress(`building the load, then ${STEPS.length} steps of ${seconds} s`)
  const [program, first] = LOAD ? [LOAD, []] : ['cargo', [...cargo, '--']]
  const args = [...first, '--json', '--seconds', String(seconds), '--engine', ENGINE]
  const { stdout } = await promisify(execFile)(program, args, { timeout: LOAD_MS_MAX })
  const results = JSON.parse(stdout)
  return STEPS.flatMap(({ step, name, floor }) => figures(name, floor, results[step]))
}

/**
 * @param {string} name
 * @param {number | undefined} floor
 * @param {{ cpu_us_a_row: number, rows_a_second: number, p99_us: number, errors: number }} result
 * @returns {Figure[]}
 */
function figures(name, floor, { cpu_us_a_row, rows_a_second, p99_us, errors }) {
  if (errors > 0) throw new Error(`${name}: ${errors} requests were refused`)
  return [
    figure(`${name}: CPU`, cpu_us_a_row, 'µs', { atMost: floor }),
    figure(`${name}: rate`, rows_a_second, 'rows/s'),
    figure(`${name}: p99`, p99_us / 1000, 'ms'),
  ]
}
