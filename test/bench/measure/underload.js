// A platform with a steady load on it, metered.
import { startStack } from '../../support/stack.js'
import { prepareLoad } from '../load/load.js'
import { Meter } from './meter.js'

const PARTS = /** @type {const} */ (['engine', 'ingest', 'api'])

/**
 * @typedef {import('../../support/stack.js').Stack} Stack
 *
 * @typedef {object} Platform  What takes messages and stores them: ours, or others'.
 * @property {{ host: string, port: number }} mqtt
 * @property {Record<string, number>} pids  Its processes, by name.
 * @property {(acknowledged: number) => Promise<number>} rows  Rows that are stored, once so many
 *   of the messages are to be.
 *
 * @typedef {object} SteadyLoad
 * @property {number} connections
 * @property {number} sensors
 * @property {number} rate
 * @property {number} seconds
 * @property {number} [windows]  Of so many equal parts of the time the percentiles are given, too.
 *
 * @typedef {object} Measured
 * @property {import('../load/generator.js').LoadResult} load
 * @property {import('./meter.js').Usage} usage  Of each process, and of `generator`.
 * @property {number} rowsStored  Rows of measurements that came into the database.
 */

/**
 * Starts our platform, puts a load on it and, once the load is steady, calls `during`.
 *
 * @param {object} options
 * @param {SteadyLoad} options.load
 * @param {import('../../support/stack.js').StackOptions} [options.stack]
 * @param {(stack: Stack) => Promise<void>} [options.before]  While there is no load yet.
 * @param {(stack: Stack) => Promise<void>} [options.during]  While there is.
 * @param {(text: string) => void} options.progress
 * @returns {Promise<Measured & { slowLogWrites: number }>}  Writes of the engine's log that took
 *   more than 10 ms.
 */
export async function underLoad({ load, stack: options, before, during, progress }) {
  const stack = await startStack(options)
  try {
    await before?.(stack)
    const measured = await measure(platformOf(stack), {
      load,
      during: async () => during?.(stack),
      progress,
    })
    return { slowLogWrites: await slowLogWrites(stack), ...measured }
  } finally {
    await stack.end()
  }
}

/** @param {Stack} stack  @returns {Platform} */
export function platformOf(stack) {
  return {
    mqtt: stack.mqtt,
    get pids() {
      return Object.fromEntries(PARTS.map((name) => [name, stack.part(name).pid]))
    },
    rows: async () => {
      await stack.emptied()
      return measurementRows(stack)
    },
  }
}

/**
 * Puts a load on a platform and, once it is steady, calls `during`.
 *
 * @param {Platform} platform
 * @param {object} options
 * @param {SteadyLoad} options.load
 * @param {() => Promise<void>} [options.during]
 * @param {(text: string) => void} options.progress
 * @returns {Promise<Measured>}
 */
export async function measure(platform, { load, during, progress }) {
  const rowsBefore = await platform.rows(0)
  progress(`${load.connections} connections`)
  const generator = await prepareLoad({ ...platform.mqtt, ...load, prefix: 'bench' })
  try {
    progress(`${load.rate} messages/s, first to warm up`)
    await generator.begin()
    progress(`measuring for ${load.seconds} s`)
    const { pids } = platform
    const meter = new Meter({ ...pids, generator: generator.pid }, Object.keys(pids))
    meter.begin()
    const [result] = await Promise.all([generator.end(), during?.()])
    const usage = meter.end()
    progress('counting rows')
    const rowsStored = (await platform.rows(rowsBefore + result.acknowledgedInAll)) - rowsBefore
    return { load: result, usage, rowsStored }
  } finally {
    generator.kill()
  }
}

/** The longest that counting may take, in milliseconds. */
const COUNT_MS_MAX = 300_000

/** Rows of measurements that are stored. @param {Stack} stack */
export async function measurementRows(stack) {
  const client = await stack.client()
  const query = `SELECT count(*) FROM ${stack.keyspace}.measurement_30d`
  const { rows } = await client.execute(query, [], { readTimeout: COUNT_MS_MAX })
  return Number(rows[0].count)
}

/**
 * Since the engine was started, on all shards.
 *
 * @param {Stack} stack
 */
async function slowLogWrites({ engineUrl }) {
  const page = await (await fetch(`${engineUrl}/metrics`)).text()
  const sum = (/** @type {RegExp} */ pattern) => {
    const values = [...page.matchAll(pattern)].map(([, value]) => Number(value))
    if (values.length === 0) throw new Error(`the engine has no metric ${pattern.source}`)
    return values.reduce((a, b) => a + b)
  }
  const all = sum(/^sandglass_db_commitlog_write_seconds_count\S* (\d+)$/gm)
  return all - sum(/^sandglass_db_commitlog_write_seconds_bucket\{\S*le="0\.01"\} (\d+)$/gm)
}
