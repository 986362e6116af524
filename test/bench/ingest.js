// How many messages a second are made durable and acknowledged, and what one costs.
import { underLoad } from './underload.js'

/** @typedef {import('./figure.js').Figure} Figure */
/** @typedef {import('./benchmarks.js').Context} Context */

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
 */
export function throughput(benchmark, load) {
  const { connections, sensors, floor, ackP99MsMax, slowLogWritesMax } = load
  /** @param {Context} context  @returns {Promise<Figure[]>} */
  return async ({ seconds, progress }) => {
    const rate = Math.ceil(floor * MARGIN)
    const measured = await underLoad({ load: { connections, sensors, rate, seconds }, progress })
    const { load: result, usage, rowsStored, slowLogWrites } = measured
    const perSecond = result.acknowledged / result.seconds
    const count = perSecond * seconds
    return [
      figure('acknowledged, each durable', perSecond, 'messages/s', 'at least', floor),
      figure(
        'acknowledged and not in the database',
        result.acknowledgedInAll - rowsStored,
        '',
        'at most',
        0,
      ),
      figure('connections lost', result.disconnects, '', 'at most', 0),
      figure('due to PUBACK, median', result.ackP50Ms, 'ms'),
      figure('due to PUBACK, p99', result.ackP99Ms, 'ms', 'at most', ackP99MsMax),
      figure('of these, due to sent, p99', result.sentP99Ms, 'ms'),
      figure('log writes of more than 10 ms', slowLogWrites, '', 'at most', slowLogWritesMax),
      figure('CPU of broker and ingest', usage.cpuUs.ingest / count, 'µs/message'),
      figure('CPU of engine', usage.cpuUs.engine / count, 'µs/message'),
      figure('CPU of the load generator', usage.cpuUs.generator / count, 'µs/message'),
      figure('kept busy by other programs', usage.otherCores, 'cores'),
      ...memoryFigures(benchmark, usage),
    ]
  }

  /**
   * @param {string} name
   * @param {number} value
   * @param {string} unit
   * @param {Figure['bound']} [bound]
   * @param {number | ''} [floor]  Without one, there is no bound.
   * @returns {Figure}
   */
  function figure(name, value, unit, bound = '', floor = '') {
    return { benchmark, name, value, unit, bound: floor === '' ? '' : bound, floor }
  }
}

/** Memory at a rate at which a small team's platform runs. */
const MEMORY_LOAD = { connections: 100, sensors: 100, rate: 1000 }
const MEMORY_MB_MAX = 512

/** @param {Context} context  @returns {Promise<Figure[]>} */
export async function memory({ seconds, progress }) {
  const benchmark = 'memory'
  const { usage } = await underLoad({ load: { ...MEMORY_LOAD, seconds }, progress })
  return [
    {
      benchmark,
      name: 'memory of all processes',
      value: usage.pssBytesMax / 2 ** 20,
      unit: 'MiB',
      bound: 'at most',
      floor: MEMORY_MB_MAX,
    },
    ...memoryFigures(benchmark, usage),
  ]
}

/**
 * @param {string} benchmark
 * @param {import('./meter.js').Usage} usage
 * @returns {Figure[]}
 */
function memoryFigures(benchmark, usage) {
  return Object.entries(usage.pssBytes).map(([name, bytes]) => ({
    benchmark,
    name: `memory of ${name}`,
    value: bytes / 2 ** 20,
    unit: 'MiB',
    bound: '',
    floor: '',
  }))
}
