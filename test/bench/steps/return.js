// How soon all clients are connected again after ingest was killed, while they go on measuring.
import { setTimeout as delay } from 'node:timers/promises'
import { startStack } from '../../support/stack.js'
import { prepareLoad } from '../load/load.js'
import { measurementRows } from '../measure/underload.js'
import { cpuUs } from '../measure/usage.js'
import { figuresOf } from '../report/figure.js'

const figure = figuresOf('ingest-return')

const CONNECTIONS = 10_000
/** Each measures once a second. */
const LOAD = { connections: CONNECTIONS, sensors: CONNECTIONS, rate: CONNECTIONS, prefix: 'bench' }
/** The pause of mqtt.js, in milliseconds: all try again in the same moment, which is the worst. */
const RECONNECT_MS = 1_000
/** How long the load runs before ingest is killed, in milliseconds. */
const BEFORE_MS = 5_000
const BACK_S_MAX = 5

/** @param {import('../benchmarks.js').Context} context */
export async function comeBack({ seconds, progress }) {
  const stack = await startStack({ parts: ['engine', 'ingest'] })
  try {
    progress(`${CONNECTIONS} connections`)
    const load = { ...stack.mqtt, ...LOAD, seconds, reconnectMs: RECONNECT_MS }
    const generator = await prepareLoad(load)
    try {
      await generator.begin()
      await delay(BEFORE_MS)
      progress('killing ingest')
      const ingest = stack.part('ingest')
      const generatorUs = cpuUs(generator.pid)
      const killedMs = performance.now()
      await ingest.kill9()
      await ingest.start()
      const servesMs = performance.now()
      await generator.back()
      const backMs = performance.now()
      const usUntilBack = cpuUs(ingest.pid)
      const generatorUsUntilBack = cpuUs(generator.pid) - generatorUs
      progress('all are back; the load goes on')
      const result = await generator.end()
      await stack.emptied()
      const missing = result.acknowledgedInAll - (await measurementRows(stack))
      const backS = (backMs - killedMs) / 1000
      return [
        figure('killed until all are back', backS, 's', { atMost: BACK_S_MAX }),
        figure('of these, until ingest serves', (servesMs - killedMs) / 1000, 's'),
        figure('CPU of ingest meanwhile, from its start', usUntilBack / 1e6, 's'),
        figure('CPU of the load generator meanwhile', generatorUsUntilBack / 1e6, 's'),
        figure('due to PUBACK, longest', result.ackMaxMs / 1000, 's'),
        figure('connections lost', result.disconnects, '', { atMost: CONNECTIONS }),
        figure('never acknowledged', result.unacknowledged, '', { atMost: 0 }),
        figure('acknowledged and not in the database', missing, '', { atMost: 0 }),
      ]
    } finally {
      generator.kill()
    }
  } finally {
    await stack.end()
  }
}
