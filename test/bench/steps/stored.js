// What is stored: what reading it costs, and what keeping it in order does. The load is the
// engine's own example `stored`, and for a start the example `opening`.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ENGINE } from '../../support/stack.js'
import { figuresOf } from '../report/figure.js'

/**
 * @typedef {import('../report/figure.js').Figure} Figure
 * @typedef {import('../benchmarks.js').Context} Context
 * @typedef {{ cpu_us: number, p50_us: number, p99_us: number, errors: number }} Measured
 * @typedef {Record<string, Measured>} Reads
 *
 * @typedef {object} Run  An engine that was filled, and read.
 * @property {number} rows
 * @property {number} late_percent
 * @property {number} write_cpu_us_a_row
 * @property {number} compaction_cpu_us_a_row
 * @property {Reads} during
 * @property {Reads} after
 */

const MANIFEST = fileURLToPath(new URL('../../../db-engine/Cargo.toml', import.meta.url))
/** Where the examples are, if SANDGLASS_EXAMPLES says that they are built already. */
const EXAMPLES = process.env.SANDGLASS_EXAMPLES
/** The longest that building, filling and one run may take, in milliseconds. */
const RUN_MS_MAX = 3_600_000
/** Seconds of one step of many: what the engine's CPU costs settles soon. */
const STEP_S_MAX = 4

/** Million rows of the smallest run, beside which the others are put. */
const FEW_MILLION = 1

const READS = [
  { kind: 'row', name: 'row' },
  { kind: 'absent_row', name: 'absent row' },
  { kind: 'newest_100', name: 'newest 100 rows' },
  { kind: 'page_of_1000', name: 'page of 1,000 rows' },
  { kind: 'count_of_a_day', name: 'count of a day of 2,880 rows' },
]

/** A quarter of what Cassandra 5 took, in microseconds of the server's CPU. */
const WORKLOADS = [
  { kind: 'a', name: 'A, half updates', floor: 14 },
  { kind: 'b', name: 'B, 5 % updates', floor: 12.5 },
  { kind: 'c', name: 'C, reads', floor: 10.5 },
  { kind: 'd', name: 'D, latest', floor: 7.5 },
  { kind: 'read_uniform', name: 'reads, each row as often', floor: undefined },
  { kind: 'read_cached', name: 'reads of 10,000 rows in sstables', floor: 6 },
]

/**
 * @param {string} example
 * @param {string[]} args
 */
async function measured(example, args) {
  const cargo = ['run', '--release', '--quiet', '--manifest-path', MANIFEST, '--example', example]
  const [program, first] = EXAMPLES ? [`${EXAMPLES}/${example}`, []] : ['cargo', [...cargo, '--']]
  const options = { timeout: RUN_MS_MAX }
  const { stdout } = await promisify(execFile)(program, [...first, ...args], options)
  return JSON.parse(stdout)
}

/** @param {number} seconds */
const stepSeconds = (seconds) => ['--seconds', String(Math.min(seconds, STEP_S_MAX))]

/** @param {string} name  @param {Measured} result */
function checked(name, result) {
  if (result.errors > 0) throw new Error(`${name}: ${result.errors} answers were wrong`)
  return result
}

/**
 * Reads of measurements with more and more of them stored.
 *
 * @param {string} benchmark
 * @param {number[]} millions  Rows of the larger runs.
 * @param {number[]} latePercents  How many come late, in further runs of the first of these sizes.
 * @returns {(context: Context) => Promise<Figure[]>}
 */
export function flatReads(benchmark, millions, latePercents) {
  const figure = figuresOf(benchmark)
  return async ({ seconds, progress }) => {
    const args = [...stepSeconds(seconds), '--engine', ENGINE, 'reads']
    /** @param {number[]} sizes  @param {number[]} late  @returns {Promise<Run[]>} */
    const runs = async (sizes, late) => {
      const chosen = [
        ...sizes.flatMap((size) => ['--millions', String(size)]),
        ...late.flatMap((percent) => ['--late-percent', String(percent)]),
      ]
      return (await measured('stored', [...args, ...chosen])).runs
    }
    progress(`${FEW_MILLION} and ${millions.join(', ')} million rows`)
    const [few, ...more] = await runs([FEW_MILLION, ...millions], [0])
    if (!few) throw new Error('nothing was measured')
    const late = latePercents.length > 0 ? await runs(millions.slice(0, 1), latePercents) : []
    return [
      ...costs(figure, few),
      ...[...more, ...late].flatMap((run) => [...costs(figure, run), ...ratios(figure, run, few)]),
    ]
  }
}

/** @param {Run} run */
function nameOf({ rows, late_percent }) {
  const late = late_percent > 0 ? `, ${late_percent} % late` : ''
  return `${Math.round(rows / 1e6)} M${late}`
}

/** @param {ReturnType<typeof figuresOf>} figure  @param {Run} run */
function costs(figure, run) {
  const of = nameOf(run)
  const { write_cpu_us_a_row: writing, compaction_cpu_us_a_row: compaction } = run
  return [
    figure(`${of}: row written, flushed and compacted, CPU`, writing, 'µs', { atMost: 1.5 }),
    figure(`${of}: compaction of everything, CPU a row`, compaction, 'µs', { atMost: 0.22 }),
    ...READS.flatMap(({ kind, name }) => {
      const after = checked(name, /** @type {Measured} */ (run.after[kind]))
      return [
        figure(`${of}: ${name}, CPU`, after.cpu_us, 'µs'),
        figure(`${of}: ${name}, median`, after.p50_us / 1000, 'ms'),
      ]
    }),
  ]
}

/**
 * Each beside the same with few rows.
 *
 * @param {ReturnType<typeof figuresOf>} figure
 * @param {Run} run
 * @param {Run} few
 */
function ratios(figure, run, few) {
  const of = nameOf(run)
  return READS.flatMap(({ kind, name }) => {
    const [now, during, before] = [run.after[kind], run.during[kind], few.after[kind]]
    if (!now || !during || !before) throw new Error(`${name} was not measured`)
    checked(name, during)
    const [compacted, ingest] = [now.cpu_us / before.cpu_us, during.p50_us / before.p50_us]
    return [
      figure(`${of}: ${name}, CPU beside 1 M`, compacted, 'times', { atMost: 1.5 }),
      figure(`${of}: ${name}, median during ingest beside 1 M`, ingest, 'times', { atMost: 3 }),
    ]
  })
}

const ycsbFigure = figuresOf('ycsb')

/**
 * @param {Context} context
 * @returns {Promise<Figure[]>}
 */
export async function ycsb({ seconds, progress }) {
  progress('rows of five times the memory, then eight steps')
  const result = await measured('stored', [...stepSeconds(seconds), '--engine', ENGINE, 'ycsb'])
  const { with: beside, without, ...compacting } = result.compacting
  checked('beside a compaction', compacting)
  const part = (/** @type {string} */ kind) => beside[kind] / without[kind]
  const atMost = (/** @type {number | undefined} */ floor) => ({ atMost: floor })
  return [
    ...WORKLOADS.flatMap(({ kind, name, floor }) => {
      const { cpu_us, rate, p99_us, cache_misses } = {
        ...checked(name, result[kind]),
        ...result[kind],
      }
      return [
        ycsbFigure(`${name}: CPU`, cpu_us, 'µs', atMost(floor)),
        ycsbFigure(`${name}: rate`, rate, 'requests/s'),
        ycsbFigure(`${name}: p99`, p99_us / 1000, 'ms'),
        ycsbFigure(`${name}: blocks read from disk`, cache_misses, 'a request'),
      ]
    }),
    ycsbFigure(
      'compaction of everything: CPU',
      result.compaction_cpu_us_a_row,
      'µs a row',
      atMost(1.8),
    ),
    ycsbFigure('read at 4,000/s: p99', without.read_p99_us / 1000, 'ms'),
    ycsbFigure('write at 4,000/s: p99', without.write_p99_us / 1000, 'ms'),
    ycsbFigure('read, p99 beside a compaction', part('read_p99_us'), 'times', atMost(2)),
    ycsbFigure('write, p99 beside a compaction', part('write_p99_us'), 'times', atMost(2)),
  ]
}

const manyFigure = figuresOf('many-sstables')

/**
 * @param {Context} context
 * @returns {Promise<Figure[]>}
 */
export async function manySstables({ seconds, progress }) {
  progress('1,000 sstables, 256 open files')
  const wait = ['--seconds', String(Math.min(seconds, 20))]
  const many = await measured('stored', [...wait, '--engine', ENGINE, 'sstables'])
  progress('a start with 10 GiB')
  const opened = await measured('opening', ['--json'])
  return [
    manyFigure('sstables', many.sstables, '', { atLeast: 1000 }),
    manyFigure('rows found in them, of 1,000', many.rows_found, '', { atLeast: 1000 }),
    manyFigure('rows of a read of all, of 1,000', many.rows_scanned, '', { atLeast: 1000 }),
    manyFigure('files and sockets open, of 256', many.open_files, '', { atMost: 256 }),
    manyFigure('wake-ups when idle', many.idle_sleeps, '', { atMost: 0 }),
    manyFigure('start with 10 GiB, sstables', opened.sstables),
    manyFigure('start with 10 GiB', opened.ms / 1000, 's', { atMost: 0.5 }),
  ]
}
