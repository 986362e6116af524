// A whole platform with a steady load on it, metered.
import { startStack } from '../support/stack.js'
import { prepareLoad } from './load.js'
import { Meter } from './meter.js'

const PLATFORM = ['engine', 'ingest', 'api']

/**
 * @typedef {import('../support/stack.js').Stack} Stack
 *
 * @typedef {object} Measured
 * @property {import('./generator.js').LoadResult} load
 * @property {import('./meter.js').Usage} usage  Of `engine`, `ingest`, `api` and `generator`.
 * @property {number} rowsStored  Rows of measurements that came into the database.
 * @property {number} slowLogWrites  Writes of the engine's log that took more than 10 ms.
 */

/**
 * Starts the platform, puts a load on it and, once the load is steady, calls `during`.
 *
 * @param {object} options
 * @param {{ connections: number, sensors: number, rate: number, seconds: number }} options.load
 * @param {(stack: Stack) => Promise<void>} [options.before]  While there is no load yet.
 * @param {(stack: Stack) => Promise<void>} [options.during]  While there is.
 * @param {(text: string) => void} options.progress
 * @returns {Promise<Measured>}
 */
export async function underLoad({ load, before, during, progress }) {
  const stack = await startStack()
  try {
    await before?.(stack)
    const rowsBefore = await measurementRows(stack)
    progress(`${load.connections} connections`)
    const generator = await prepareLoad({ ...stack.mqtt, ...load, prefix: 'bench' })
    try {
      progress(`${load.rate} messages/s, first to warm up`)
      await generator.begin()
      progress(`measuring for ${load.seconds} s`)
      const meter = new Meter(pids(stack, generator.pid), PLATFORM)
      meter.begin()
      const [result] = await Promise.all([generator.end(), during?.(stack)])
      const usage = meter.end()
      const slow = await slowLogWrites(stack)
      progress('counting rows')
      const rowsStored = (await measurementRows(stack)) - rowsBefore
      return { load: result, usage, rowsStored, slowLogWrites: slow }
    } finally {
      generator.kill()
    }
  } finally {
    await stack.end()
  }
}

/** The longest that counting may take, in milliseconds. */
const COUNT_MS_MAX = 300_000

/** @param {Stack} stack */
async function measurementRows(stack) {
  const client = await stack.client()
  const query = `SELECT count(*) FROM ${stack.keyspace}.measurement_30d`
  const { rows } = await client.execute(query, [], { readTimeout: COUNT_MS_MAX })
  return Number(rows[0].count)
}

/** @param {Stack} stack @param {number} generator */
function pids(stack, generator) {
  const platform = PLATFORM.map((name) => [
    name,
    stack.part(/** @type {import('../support/stack.js').PartName} */ (name)).pid,
  ])
  return { ...Object.fromEntries(platform), generator }
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
