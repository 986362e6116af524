// How the engine serves another client while it is attacked. The load is the engine's own example
// `attacks`, the same attacks as those of its test, at a low priority.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ENGINE } from '../../support/stack.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../report/figure.js').Figure} Figure */

const figure = figuresOf('attacks')

const MANIFEST = fileURLToPath(new URL('../../../db-engine/Cargo.toml', import.meta.url))
const CARGO = ['run', '--release', '--quiet', '--manifest-path', MANIFEST, '--example', 'attacks']
/** The longest that building, filling and one run may take, besides the run, in milliseconds. */
const BESIDES_MS_MAX = 1_200_000

/**
 * @param {import('../benchmarks.js').Context} context
 * @returns {Promise<Figure[]>}
 */
export async function attacks({ seconds, progress }) {
  progress(`building the attacks, then ${seconds} s of them`)
  const args = [...CARGO, '--', '--seconds', String(seconds), '--engine', ENGINE]
  const timeout = BESIDES_MS_MAX + seconds * 1000
  const { stdout } = await promisify(execFile)('cargo', args, { timeout })
  const measured = JSON.parse(stdout)
  const residentParts = measured.resident_bytes / measured.memory_bytes
  return [
    figure('requests of another client', measured.requests),
    figure('its median', measured.p50_ms, 'ms'),
    figure('its p99', measured.p99_ms, 'ms', { atMost: 20 }),
    figure('p99 of its durable writes', measured.write_p99_ms, 'ms'),
    figure('p99 of its reads', measured.read_p99_ms, 'ms'),
    figure('its longest', measured.longest_ms, 'ms'),
    figure('resident memory of the engine, in parts of --memory', residentParts, '', {
      atMost: 1.5,
    }),
    figure('rows acknowledged and lost', measured.lost_rows, '', { atMost: 0 }),
  ]
}
