// What the engine does when there is nothing to do.
import { setTimeout as delay } from 'node:timers/promises'
import { startStack } from '../../support/stack.js'
import { cpuUs, sleeps } from '../measure/usage.js'
import { figuresOf } from '../report/figure.js'

const figure = figuresOf('idle')

/** Time that the engine is given to finish what starting began, in milliseconds. */
const SETTLE_MS = 3000

/**
 * The engine alone, with an open connection that is silent.
 *
 * @param {import('../benchmarks.js').Context} context
 * @returns {Promise<import('../report/figure.js').Figure[]>}
 */
export async function idle({ seconds, progress }) {
  const stack = await startStack({ parts: ['engine'] })
  try {
    const client = await stack.client()
    await client.execute('SELECT key FROM system.local')
    await delay(SETTLE_MS)
    const quietS = Math.min(seconds, 20)
    progress(`watching for ${quietS} s`)
    const { pid } = stack.part('engine')
    const before = { sleeps: sleeps(pid), cpuUs: cpuUs(pid) }
    await delay(quietS * 1000)
    const wakeUps = sleeps(pid) - before.sleeps
    const usPerSecond = (cpuUs(pid) - before.cpuUs) / quietS
    return [figure('wake-ups', wakeUps, '', { atMost: 0 }), figure('CPU', usPerSecond, 'µs/s')]
  } finally {
    await stack.end()
  }
}
