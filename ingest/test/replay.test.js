// Dead letters of every door, taken once more.
import { createRegistry } from '@sandglass/common/metrics'
import { sensorId } from '@sandglass/common/sensor'
import { parseTopics, Topics } from '@sandglass/common/topics'
import { buildHttp } from '../src/http/app.js'
import { replay } from '../src/http/replay.js'
import { Message } from '../src/message/message.js'
import { NO_SENSOR, Rights } from '../src/message/rights.js'
import { FakeStorage } from './support/fake-storage.js'
import { RawClient, startIngest, until } from './support/ingest.js'

const T = Date.UTC(2026, 0, 1)
const TOPICS = parseTopics('plant/{area}/{sensor}/{metric},sites/{site}/{sensor}')

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
/** @type {ReturnType<typeof buildHttp>} */
let app

/** @param {Topics} [topics]  @param {FakeStorage} [storage] */
async function start(topics = TOPICS, storage = new FakeStorage()) {
  ingest = await startIngest({}, { topics }, storage)
  app = buildHttp({
    bodies: ingest.memory.shares.bodies,
    bodyBytesMax: 100_000,
    sink: ingest.pipeline,
    registry: createRegistry('sandglass_test_'),
    health: () => ({ ok: true }),
    stats: () => ({}),
    replay: async () => ({ replayed: 0, refused: [], unknown: [] }),
    isLoopback: true,
  })
}

afterEach(async () => {
  await app.close()
  await ingest.stop()
})

const letters = () => ingest.storage.rowsOf('dead_letter')

const replayAll = () =>
  replay(
    letters().map(({ id }) => String(id)),
    { ...ingest, reader: ingest.storage, accept: (message) => ingest.pipeline.accept(message) },
  )

/** By sensor. @param {FakeStorage} storage */
const stored = (storage) =>
  storage
    .rowsOf('measurement_30d')
    .map(({ sensor_id: id, metric, ts, s }) => [String(id), metric, Number(ts), s])
    .sort()

/** By the sensor that it is of: an HTTP request, or a publish. */
const DOORS = /** @type {const} */ ([
  ['topic', 'sensors/topic/m', `{"t":${T},"v":"refused"}`],
  ['object', 'sensors/object', `{"t":${T},"m":"refused"}`],
  ['array', 'sensors/array/m', `[{"t":"2026-01-01","v":"refused"}]`],
  ['template', 'plant/hall/template/m', `{"t":${T},"v":"refused"}`],
  ['site', 'sites/x/site', `{"t":${T},"m":"refused"}`],
  ['lines', 'telegraf/x', `m,sensor=lines value="refused" ${T}000000`],
  ['json', 'application/json', `[ {"sensor" : "json","t":${T},"m":"refused"}]`],
  ['ndjson', 'application/x-ndjson', `{"sensor":"ndjson","metric":"m","t":${T},"v":"refused"}\n`],
  ['csv', 'text/csv', `sensor,t,m\ncsv,${T},refused\n`],
  ['line', 'text/plain', `m,sensor=line value="refused" ${T / 1000}`],
])

test('of every door are stored as what they were, whatever their topic looks like', async () => {
  await start()
  ingest.storage.refuses = ({ params }) => params.includes('refused')
  const client = await new RawClient(ingest.port).connect()
  for (const [at, [, place, payload]] of DOORS.entries()) {
    const headers = { host: '127.0.0.1', 'content-type': place }
    const url = '/v1/measurements?precision=s'
    if (MEDIA.test(place)) await app.inject({ method: 'POST', url, headers, payload })
    else client.publish(at + 1, { topic: place, payload })
  }
  await until(() => letters().length === DOORS.length)
  ingest.storage.refuses = () => false
  expect(await replayAll()).toEqual({ replayed: DOORS.length, refused: [], unknown: [] })
  expect(stored(ingest.storage)).toEqual(
    DOORS.map(([sensor]) => [sensorId(sensor), 'm', T, 'refused']).sort(),
  )
  client.end()
})

const MEDIA = /^(application|text)\//

/** @param {Partial<ConstructorParameters<typeof Message>[0]>} parts */
async function accept(parts) {
  await new Promise((resolve) =>
    ingest.pipeline.accept(
      new Message({
        origin: { settled: resolve },
        clientId: 'c',
        topic: 'sensors/other/m',
        payload: Buffer.from('1'),
        receivedMs: Date.now(),
        arrivedMs: performance.now(),
        ...parts,
      }),
    ),
  )
}

test('of a template that is gone stay dead letters, and are not said to be stored', async () => {
  await start()
  ingest.storage.refuses = ({ params }) => params.includes('refused')
  await accept({ topic: 'plant/hall/s/m', payload: Buffer.from('"refused"') })
  ingest.storage.refuses = () => false
  const { storage } = ingest
  await app.close()
  await ingest.stop()
  await start(new Topics(), storage)
  const outcome = await replayAll()
  expect([outcome.replayed, outcome.refused]).toEqual([
    0,
    [{ id: expect.any(String), reason: expect.stringContaining('topic is not sensors/') }],
  ])
  expect(letters()).toMatchObject([{ topic: 'plant/hall/s/m', format: 0 }])
})

test('are taken with the rights of their client, and with no others', async () => {
  await start()
  await accept({ rights: NO_SENSOR })
  await accept({ rights: new Rights('one', sensorId('own')) })
  await accept({ rights: new Rights('one', sensorId('other')), payload: Buffer.from('"') })
  await accept({ payload: Buffer.from('"') })
  expect(letters().map(({ rights }) => rights)).toEqual([
    '',
    sensorId('own'),
    sensorId('other'),
    undefined,
  ])
  const { replayed, refused } = await replayAll()
  expect([replayed, refused.map(({ reason }) => reason)]).toEqual([
    0,
    [
      'c may not publish here',
      'c may not publish here',
      expect.stringContaining('not JSON'),
      expect.stringContaining('not JSON'),
    ],
  ])
  expect(letters()).toHaveLength(4)
})

test('register a sensor in the class that was asked for when they came', async () => {
  await start()
  ingest.storage.refuses = ({ params }) => params.includes('refused')
  await accept({ topic: 'sensors/kept/m', payload: Buffer.from('"refused"'), retention: 'keep' })
  ingest.storage.refuses = () => false
  expect(letters()).toMatchObject([{ retention: 'keep' }])
  expect(await replayAll()).toMatchObject({ replayed: 1 })
  expect(ingest.storage.rowsOf('measurement_keep')).toHaveLength(1)
})

test('of an earlier version, which kept no format, are guessed by their topic', async () => {
  await start()
  ingest.storage.refuses = ({ params }) => params.includes('refused')
  const [topic, , , , , lines, , ndjson] = DOORS
  await accept({ topic: topic[1], payload: Buffer.from(topic[2]) })
  await accept({ topic: lines[1], payload: Buffer.from(lines[2]), format: 2 })
  await accept({ topic: '/v1/measurements', payload: Buffer.from(ndjson[2]), format: 1 })
  for (const letter of letters()) letter.format = null
  ingest.storage.refuses = () => false
  expect(await replayAll()).toMatchObject({ replayed: 3, refused: [] })
})
