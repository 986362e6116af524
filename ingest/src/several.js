/** Ingest as several processes: what the first of them does, which starts the others. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRegistry } from '@sandglass/common/metrics'
import { Broker } from './broker/broker.js'
import { MemoryBudget } from './memory.js'
import { registerBrokerAlone } from './metrics.js'
import { First } from './processes/first.js'
import { Hub } from './processes/hub.js'
import { HUB } from './processes/member.js'

/**
 * Runs an ingest of several processes.
 *
 * @param {object} parts
 * @param {Record<string, any>} parts.options
 * @param {number} parts.count
 * @param {import('pino').Logger} parts.logger
 * @param {(name: string, stop: () => unknown) => void} parts.onStop
 */
export async function runFirst({ options, count, logger, onStop }) {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-ingest-'))
  onStop('sockets', () => rmSync(directory, { recursive: true, force: true }))
  const { fanout, retained, queues } = new MemoryBudget(options.memoryBytesMax).shares
  const shares = { fanout, retained, queues }
  const broker = new Broker({ shares })
  const { topicTemplates: topics, lineTopic } = options
  const hub = new Hub({ broker, topics, lineTopic })
  await hub.start(join(directory, HUB))
  onStop('broker', () => hub.stop())
  const registry = createRegistry('sandglass_ingest_')
  registerBrokerAlone(registry, { memory: { shares } }, broker)
  const own = async (/** @type {import('./processes/member.js').Question} */ what) =>
    what === 'metrics' ? [{ process: HUB, value: await registry.getMetricsAsJSON() }] : []
  const first = new First({ count, directory, own, logger })
  onStop('processes', () => first.stop())
  await first.start()
  logger.info({ processes: count }, 'ready')
}
