import { createRegistry } from '@sandglass/common/metrics'
import pino from 'pino'
import { registerMetrics, stats } from '../src/metrics.js'
import { createRollupStore } from '../src/rollup/store.js'
import { RollupWorker } from '../src/rollup/worker.js'
import { BucketWidths } from '../src/sensors/bucket-widths.js'
import { idleRules } from './support/idle-rules.js'
import { RawClient, startIngest, until } from './support/ingest.js'

test('/stats and /metrics tell the same numbers, and they add up', async () => {
  const ingest = await startIngest()
  const rollups = new RollupWorker({
    store: createRollupStore(/** @type {any} */ ({ read() {} }), 'k'),
    id: 'me',
    logger: pino({ level: 'silent' }),
  })
  const widths = new BucketWidths({
    registry: ingest.registry,
    store: ingest.storage,
    isAlone: () => true,
    logger: pino({ level: 'silent' }),
  })
  const rewrites = { counts: { rows: 0, expired: 0, deleted: 0, failures: 0 }, active: 0 }
  const ruleParts = idleRules()
  const deletionWorker = { counts: { partitions: 0, failures: 0 }, active: 0 }
  const measured = {
    ...ingest,
    rollups,
    rewrites,
    deletionWorker,
    ...ruleParts,
    desired: { counts: { published: 0, failures: 0 } },
    widths,
    database: { isUp: true },
  }
  const registry = createRegistry('sandglass_ingest_')
  registerMetrics(registry, measured)
  const client = await new RawClient(ingest.port).connect()
  for (const payload of ['1', '2', 'poison', '3'])
    client.publish(client.packets.length + 1, { payload })
  await until(() => client.ids('puback').length === 4)
  ingest.storage.isDown = true
  client.publish(9)
  await until(() => ingest.inFlight.count === 1)

  const shown = stats(measured)
  expect(shown).toMatchObject({
    received: 5,
    stored: 3,
    deadLettered: 1,
    held: 1,
    droppedQos0: 0,
    connections: 1,
    duplicates: 0,
    database: 'up',
    rollupLagS: rollups.lagS,
  })
  expect(shown.publishToStoredMs.p99).toBeGreaterThanOrEqual(
    shown.publishToStoredMs.p50 ?? Infinity,
  )
  const text = await registry.metrics()
  const value = (/** @type {string} */ name) =>
    Number(new RegExp(`^sandglass_ingest_${name} (.*)$`, 'm').exec(text)?.[1])
  expect(value('messages_received_total')).toBe(5)
  expect(value('messages_stored_total')).toBe(3)
  expect(value('messages_held')).toBe(1)
  expect(value('dead_letters_total\\{reason="json"\\}')).toBe(1)
  expect(value('publish_to_stored_seconds_count')).toBe(3)
  expect(value('publish_to_stored_seconds_bucket\\{le="300"\\}')).toBe(3)
  expect(value('database_up')).toBe(1)
  client.end()
  await ingest.stop()
})
