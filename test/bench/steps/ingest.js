// How many messages a second are made durable and acknowledged, and what one costs.
import { underLoad } from '../measure/underload.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../report/figure.js').Figure} Figure */
/** @typedef {import('../benchmarks.js').Context} Context */
/** @typedef {import('../measure/meter.js').Usage} Usage */

/** A load this much above the floor, so that a platform that keeps up is above it too. */
const MARGIN = 1.01

/**
 * @param {string} benchmark
 * @param {object} load
 * @param {number} load.connections
 * @param {number} load.sensors
 * @param {number} load.floor  Messages a second that must be acknowledged.
 * @param {number} [load.ackP99MsMax]
 * @param {number} [load.slowLogWritesMax]
 * @param {number} [load.cpuUsMax]  Of all parts, for a message.
 * @param {number} [load.ingestMbMax]  Memory of ingest, in millions of bytes.
 */
export function throughput(benchmark, load) {
  const { connections, sensors, floor } = load
  const figure = figuresOf(benchmark)
  /** @param {Context} context  @returns {Promise<Figure[]>} */
  return async ({ seconds, progress }) => {
    const rate = Math.ceil(floor * MARGIN)
    const measured = await underLoad({ load: { connections, sensors, rate, seconds }, progress })
    const { load: result, usage, rowsStored, slowLogWrites } = measured
    const perSecond = result.acknowledged / result.seconds
    const count = result.acknowledgedByEnd
    const missing = result.acknowledgedInAll - rowsStored
    const { ingest, engine, api, generator } = usage.cpuUs
    const all = (ingest + engine + api) / count
    const ingestMb = usage.pssBytes.ingest / 1e6
    return [
      figure('acknowledged, each durable', perSecond, 'messages/s', { atLeast: floor }),
      figure('acknowledged and not in the database', missing, '', { atMost: 0 }),
      figure('connections lost', result.disconnects, '', { atMost: 0 }),
      figure('due to PUBACK, median', result.ackP50Ms, 'ms'),
      figure('due to PUBACK, p99', result.ackP99Ms, 'ms', { atMost: load.ackP99MsMax }),
      figure('of these, due to sent, p99', result.sentP99Ms, 'ms'),
      figure('log writes of more than 10 ms', slowLogWrites, '', { atMost: load.slowLogWritesMax }),
      figure('CPU of all parts', all, 'µs/message', { atMost: load.cpuUsMax }),
      figure('CPU of broker and ingest', ingest / count, 'µs/message'),
      figure('CPU of engine', engine / count, 'µs/message'),
      figure('CPU of the load generator', generator / count, 'µs/message'),
      figure('kept busy by other programs', usage.otherCores, 'cores'),
      figure('memory of ingest', ingestMb, 'MB', { atMost: load.ingestMbMax }),
      figure('memory of engine', usage.pssBytes.engine / 1e6, 'MB'),
      figure('memory of api', usage.pssBytes.api / 1e6, 'MB'),
    ]
  }
}
