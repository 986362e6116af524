// Our platform and what many put together instead, by turns, under the same loads.
import { startStack } from '../../support/stack.js'
import { measure, platformOf } from '../measure/underload.js'
import { othersName, startOthers } from '../others/others.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../measure/underload.js').Platform} Platform */

const figure = figuresOf('comparison')

const CLIENTS = { connections: 500, sensors: 500 }

/** The loads, in messages a second, and what is promised of ours. */
const LOADS = [
  { rate: 10_000, cpuUsMax: 28, ackP50MsMax: 3, ackP99MsMax: 5 },
  { rate: 20_000, cpuUsMax: 25, ackP50MsMax: 3, ackP99MsMax: 5 },
  { rate: 50_000, cpuUsMax: 15, ackP50MsMax: 3, ackP99MsMax: 20 },
]

/** @typedef {Partial<typeof LOADS[0]>} Promised */

/** @type {() => Promise<Platform & { end: () => Promise<void> }>} */
async function startOurs() {
  const stack = await startStack()
  const { mqtt, pids, rows } = platformOf(stack)
  return { mqtt, pids, rows, end: () => stack.end() }
}

/**
 * Each load is put on both before the next one comes: what else the machine does meets both.
 *
 * @param {import('../benchmarks.js').Context} context
 */
export async function comparison({ seconds, progress }) {
  const figures = []
  const theirs = othersName()
  for (const load of LOADS) {
    for (const [name, start, promised] of /** @type {const} */ ([
      ['Sandglass', startOurs, load],
      [theirs, startOthers, {}],
    ])) {
      progress(`${name}, ${load.rate} messages/s`)
      const platform = await start()
      try {
        const measured = await measure(platform, {
          load: { ...CLIENTS, rate: load.rate, seconds },
          progress,
        })
        figures.push(...figuresFor(`${name}: ${load.rate} messages/s`, measured, promised))
      } finally {
        await platform.end()
      }
    }
  }
  return figures
}

/**
 * @param {string} name  Of the platform and of the load.
 * @param {import('../measure/underload.js').Measured} measured
 * @param {Promised} promised
 */
function figuresFor(name, { load, usage, rowsStored }, promised) {
  const { generator, ...parts } = usage.cpuUs
  const us = Object.values(parts).reduce((total, value) => total + value, 0)
  const { cpuUsMax, ackP50MsMax, ackP99MsMax } = promised
  const count = load.acknowledgedByEnd
  // What was stored and never acknowledged makes it less than none.
  const missing = Math.max(0, load.acknowledgedInAll - rowsStored)
  return [
    figure(`${name}, acknowledged`, load.acknowledged / load.seconds, 'messages/s'),
    figure(`${name}, CPU of all parts`, us / count, 'µs/message', { atMost: cpuUsMax }),
    figure(`${name}, due to PUBACK, median`, load.ackP50Ms, 'ms', { atMost: ackP50MsMax }),
    figure(`${name}, due to PUBACK, p99`, load.ackP99Ms, 'ms', { atMost: ackP99MsMax }),
    figure(`${name}, memory of all parts`, usage.pssBytesMax / 1e6, 'MB'),
    figure(`${name}, never acknowledged`, load.unacknowledged),
    figure(`${name}, acknowledged and not stored`, missing),
    figure(`${name}, CPU of the load generator`, generator / count, 'µs/message'),
    figure(`${name}, kept busy by other programs`, usage.otherCores, 'cores'),
  ]
}
