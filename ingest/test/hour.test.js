// An hour without the database, with a spool on a real disk and clients on real sockets, by a clock
// that the test moves on. Messages arrive all the time, and halfway the process is replaced.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { createRegistry } from '@sandglass/common/metrics'
import { HOUR_MS, startOf } from '@sandglass/common/rollup'
import { retentionClass } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import pino from 'pino'
import { openSpool } from '../src/ingest.js'
import { registerMetrics, stats } from '../src/metrics.js'
import { createRollupStore } from '../src/rollup/store.js'
import { RollupWorker } from '../src/rollup/worker.js'
import { LATEST_MS_MIN } from '../src/sensors/latest.js'
import { SANDGLASS_LIMITS } from '../src/write/batcher.js'
import { FakeStorage } from './support/fake-storage.js'
import { idleRules } from './support/idle-rules.js'
import { RawClient, startIngest } from './support/ingest.js'

const T = Date.UTC(2026, 0, 1, 9, 40)
const CLIENTS = 10
/** Every client publishes once in a step. */
const STEP_MS = 10_000
const STEPS = HOUR_MS / STEP_MS
/** Steps in which a client publishes what is no measurement. */
const POISON_STEPS = 60
/** How fine the clock is moved, in milliseconds. */
const TICK_MS = 100
/** How long real disks and sockets may take, in milliseconds. */
const REAL_MS_MAX = 30_000
/** Within what everything that waits has tried again, in milliseconds. */
const NOTICE_MS_MAX = 5_000
/** From when on what is written late says its time to live, in milliseconds. */
const LATE_MS = 60_000
const CLASS_MS = retentionClass('30d').ttlS * 1000

/** Lets everything else that is ready go first, and real disks and sockets answer. */
const turn = () => new Promise((resolve) => setImmediate(resolve))

/** The clock goes on. @param {number} ms */
async function pass(ms) {
  for (let left = ms; left > 0; left -= TICK_MS) {
    jest.advanceTimersByTime(TICK_MS)
    await turn()
  }
}

/** Waits while the clock stands still. @param {() => boolean} holds */
async function real(holds) {
  const untilNs = process.hrtime.bigint() + BigInt(REAL_MS_MAX) * 1_000_000n
  while (!holds()) {
    if (process.hrtime.bigint() > untilNs) throw new Error(`did not happen: ${holds}`)
    await turn()
  }
}

/** What a client published and was acknowledged, as it must be stored. */
/** @typedef {{ sensor: string, timeMs: number, value: number, receivedMs: number }} Sent */

/** @type {string} */
let directory
/** @type {FakeStorage} */
let storage
/** @type {Awaited<ReturnType<typeof open>>} */
let ingest
/** @type {Sent[]} */
let sent
let poison = 0
let packetId = 0

beforeEach(() => {
  jest.useFakeTimers({
    now: T,
    doNotFake: ['hrtime', 'nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate'],
  })
  directory = mkdtempSync(join(tmpdir(), 'sandglass-hour-'))
  storage = new FakeStorage()
  sent = []
})
afterEach(async () => {
  jest.useRealTimers()
  await ingest.close()
  rmSync(directory, { recursive: true })
})

/** A process on the spool and the database, with its clients connected. */
async function open() {
  const limits = { spoolDir: directory, spoolBytesMax: 64 * 2 ** 20 }
  const parts = await startIngest(limits, {}, storage)
  const { spool, drain, diversion, inFlight, measurements, places, counts, batcher } = parts
  if (!spool || !drain || !diversion) throw new Error('there is no spool')
  batcher.limits = SANDGLASS_LIMITS
  await openSpool(spool, counts)
  void drain.run()
  const timers = [
    setInterval(() => diversion.look(inFlight, performance.now()), 100),
    setInterval(() => {
      measurements.writeLatest()
      places.age()
      counts.age()
    }, 250),
  ]
  const rollups = new RollupWorker({
    store: createRollupStore(/** @type {any} */ ({ read() {} }), 'k'),
    id: 'me',
    logger: pino({ level: 'silent' }),
  })
  const widths = { counts: { narrower: 0, wider: 0, failures: 0 } }
  const rewrites = { counts: { rows: 0, expired: 0, deleted: 0, failures: 0 }, active: 0 }
  const ruleParts = idleRules()
  const deletionWorker = { counts: { partitions: 0, failures: 0 }, active: 0 }
  const desired = { counts: { published: 0, failures: 0 } }
  const asked = { rewrites, deletionWorker, desired }
  const measured = {
    ...parts,
    ...asked,
    ...ruleParts,
    rollups,
    widths,
    database: { isUp: true },
  }
  const registry = createRegistry('sandglass_ingest_')
  registerMetrics(registry, measured)
  const clients = Array.from({ length: CLIENTS }, () => new RawClient(parts.port))
  for (const [at, client] of clients.entries()) {
    client.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 4,
      clean: true,
      clientId: `client-${at}`,
      keepalive: 0,
    })
    await real(() => client.packets.some(({ cmd }) => cmd === 'connack'))
    client.packets.length = 0
  }
  return {
    batcher,
    counts,
    clients,
    stats: () => stats(measured),
    async ageS() {
      const metric = registry.getSingleMetric('sandglass_ingest_spool_age_seconds')
      return (await metric?.get())?.values[0].value
    },
    async close() {
      for (const client of clients) client.end()
      for (const timer of timers) clearInterval(timer)
      await parts.stop()
      await spool.close()
    },
  }
}

/** @param {number} step */
function publish(step) {
  const nowMs = Date.now()
  for (const [at, client] of ingest.clients.entries()) {
    packetId = (packetId % 60_000) + 1
    const sensor = `sensor-${at}`
    const topic = `sensors/${sensor}/m`
    if (step % POISON_STEPS === at) {
      poison++
      client.publish(packetId, { topic, payload: '{poison' })
      continue
    }
    // Half of them have no clock, and of those that have some are late.
    const timeMs = at % 2 === 0 ? nowMs : nowMs - (at % 3) * 1_500_000
    const payload = at % 2 === 0 ? String(step) : JSON.stringify({ t: timeMs, v: step })
    sent.push({ sensor, timeMs, value: step, receivedMs: nowMs })
    client.publish(packetId, { topic, payload })
  }
}

/** Received = stored + …, now. */
function expectEquation() {
  const { received, recovered, stored, deadLettered, spooled, held, droppedQos0, lost } =
    ingest.stats()
  expect(stored + deadLettered + spooled + held).toBe(received + recovered)
  expect([droppedQos0, lost]).toEqual([0, 0])
}

/** One step: all publish, time passes, and all are acknowledged. @param {number} step */
async function goThrough(step) {
  const before = ingest.counts.received
  publish(step)
  await real(() => ingest.counts.received === before + CLIENTS)
  expectEquation()
  await pass(STEP_MS)
  await real(() => ingest.clients.every((client) => client.ids('puback').length === 1))
  for (const client of ingest.clients) client.packets.length = 0
  expectEquation()
}

test('everything of an hour without the database is stored once, and lives as long as it should', async () => {
  ingest = await open()
  await goThrough(0)
  await real(() => ingest.counts.storedMessages === sent.length)

  storage.isDown = true
  const goneMs = Date.now()
  for (let step = 1; step <= STEPS; step++) {
    await goThrough(step)
    const { spooled } = ingest.stats()
    expect(spooled).toBe(CLIENTS * step)
    expect(await ingest.ageS()).toBeCloseTo((Date.now() - goneMs) / 1000, 3)
    if (step === STEPS / 2) {
      await ingest.close()
      ingest = await open()
      expect(ingest.stats().recovered).toBe(spooled)
    }
  }
  expect(Date.now() - goneMs).toBe(HOUR_MS)

  storage.isDown = false
  const backMs = Date.now()
  await pass(NOTICE_MS_MAX)
  await real(() => {
    expectEquation()
    return ingest.stats().spooled === 0
  })
  const doneMs = Date.now()
  await pass(LATEST_MS_MIN)
  expect(ingest.stats()).toMatchObject({ spooled: 0, held: 0, spoolBytes: 0 })
  expect(await ingest.ageS()).toBe(0)
  await real(() => !readdirSync(directory).some((name) => name.startsWith('spool-')))

  await real(() => ingest.batcher.isIdle)
  expect(storage.rowsOf('dead_letter')).toHaveLength(poison)
  expect(storedRows()).toEqual(sent.map(placeOf).sort())
  expectLifetimes(goneMs, backMs, doneMs)
  expectLatest()
  expectMarks()
})

/** @param {Sent} one */
const placeOf = ({ sensor, timeMs, value, receivedMs }) =>
  `${sensorId(sensor)} ${timeMs} ${value} since ${receivedMs * 1000}`

const storedRows = () =>
  storage
    .rowsOf('measurement_30d')
    .map((row) => `${row.sensor_id} ${row.ts} ${row.v} since ${row.timestamp}`)
    .sort()

/** What waited lives shorter by that. */
/** @param {number} goneMs  @param {number} backMs  @param {number} doneMs */
function expectLifetimes(goneMs, backMs, doneMs) {
  let shortened = 0
  for (const { timestamp, ttlS } of storage.rowsOf('measurement_30d')) {
    const receivedMs = timestamp / 1000
    if (ttlS === undefined) {
      expect(receivedMs < goneMs || receivedMs >= backMs - LATE_MS).toBe(true)
      continue
    }
    shortened++
    const expiresMs = receivedMs + CLASS_MS
    // As of the moment at which it was written, in whole seconds.
    expect(backMs + ttlS * 1000).toBeLessThanOrEqual(expiresMs + 1_000)
    expect(doneMs + ttlS * 1000).toBeGreaterThanOrEqual(expiresMs)
  }
  expect(shortened).toBeGreaterThan(0.95 * CLIENTS * STEPS - poison)
}

/** The newest event of each sensor is its latest. */
function expectLatest() {
  /** @type {Map<string, number>} */
  const newest = new Map()
  for (const { sensor, timeMs } of sent) {
    newest.set(sensorId(sensor), Math.max(timeMs, newest.get(sensorId(sensor)) ?? 0))
  }
  const latest = storage.rowsOf('latest').map((row) => [String(row.sensor_id), row.ts])
  expect(new Map(/** @type {[string, number][]} */ (latest))).toEqual(newest)
}

/** Each hour in which there are rows is to be summed up. */
function expectMarks() {
  const marked = new Set(storage.rowsOf('late_mark').map((row) => `${row.sensor_id} ${row.ts}`))
  for (const { sensor, timeMs } of sent) {
    expect(marked).toContain(`${sensorId(sensor)} ${startOf(timeMs, HOUR_MS)}`)
  }
}
