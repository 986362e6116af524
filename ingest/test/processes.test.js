import { mkdtempSync, rmSync } from 'node:fs'
import { connect as connectTo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sensorId } from '@sandglass/common/sensor'
import { parseTopics } from '@sandglass/common/topics'
import { generate } from 'mqtt-packet'
import pino from 'pino'
import { Broker } from '../src/broker/broker.js'
import { Access } from '../src/broker/entrance/access.js'
import { sentTerms } from '../src/broker/routing/terms.js'
import { followDecoders } from '../src/decoder-followers.js'
import { KnownDecoders } from '../src/decoders/known.js'
import { MemoryBudget } from '../src/memory.js'
import { processesOf, shareOf } from '../src/options.js'
import { homeOf } from '../src/processes/handover.js'
import { Hub } from '../src/processes/hub.js'
import { KIND, Link, parsePublishBody, publishBody } from '../src/processes/link.js'
import { RemoteBroker } from '../src/processes/remote-broker.js'
import { joinHealth, joinMetrics, joinStats } from '../src/processes/reports.js'
import { pause, RawClient, startIngest, until } from './support/ingest.js'
import { seeded } from './support/random.js'

const topics = parseTopics('')

describe('the number of processes', () => {
  test.each([
    [1, 1],
    [2, 1],
    [7, 1],
    [8, 2],
    [16, 4],
  ])('%i cores have %i', (cores, count) => {
    expect(processesOf({}, cores)).toBe(count)
    expect(processesOf({ ingestProcesses: 3 }, cores)).toBe(3)
    expect(processesOf({ mqttUrl: 'mqtt://x' }, cores)).toBe(1)
  })

  test('divides what all may take; only the spool of the first is where that of one is', () => {
    const all = { memoryBytesMax: 900, spoolBytesMax: 90, spoolDir: '/s', other: 1 }
    const share = { memoryBytesMax: 300, spoolBytesMax: 30, shareSensors: true, other: 1 }
    expect(shareOf(all, 0, 3)).toMatchObject({ ...share, spoolDir: '/s' })
    expect(shareOf(all, 2, 3)).toMatchObject({ ...share, spoolDir: '/s/process-2' })
    expect(shareOf(all, 0, 3)).toHaveProperty('heldBytesMax', undefined)
  })

  test('shares clients evenly, each always with the same one', () => {
    const counts = [0, 0, 0, 0]
    for (let number = 0; number < 4_000; number++) counts[homeOf(`device-${number}`, 4)]++
    for (const count of counts) expect(Math.abs(count - 1_000)).toBeLessThan(150)
    expect(homeOf('device-7', 4)).toBe(homeOf('device-7', 4))
  })
})

describe('what they tell', () => {
  const one = {
    received: 3,
    stored: 1,
    deadLettered: 0,
    held: 2,
    spooled: 0,
    recovered: 0,
    droppedQos0: 0,
    lost: 0,
    duplicates: 1,
    connections: 4,
    heldBytes: 5,
    spoolBytes: 6,
    rollupLagS: 7,
    retentionClass: '30d',
    database: 'up',
    uptimeS: 90,
    pid: 11,
    publishToStoredMs: { p50: /** @type {number | null} */ (1), p99: /** @type {any} */ (2) },
  }
  const two = { ...one, received: 10, pid: 12, database: 'down', uptimeS: 5, rollupLagS: 1 }

  test('/stats is the sum, and the worst of what cannot be summed', () => {
    const unknown = { ...two, publishToStoredMs: { p50: null, p99: null } }
    const said = [
      { process: '0', value: one },
      { process: '1', value: unknown },
    ]
    expect(joinStats(/** @type {any} */ (said))).toMatchObject({
      received: 13,
      stored: 2,
      connections: 8,
      rollupLagS: 7,
      database: 'down',
      uptimeS: 5,
      publishToStoredMs: { p50: 1, p99: 2 },
      processes: [
        { process: '0', pid: 11, received: 3 },
        { process: '1', pid: 12 },
      ],
    })
  })

  test('/health is well if all are, and if none is missing', () => {
    const well = { process: '0', value: { ok: true, database: 'up' } }
    const ill = { process: '1', value: { ok: false, database: 'down' } }
    expect(joinHealth([well, well], 2)).toMatchObject({ ok: true, database: 'up' })
    expect(joinHealth([well], 2)).toMatchObject({ ok: false, processes: '1 of 2' })
    expect(joinHealth([well, ill], 2)).toMatchObject({ ok: false, database: 'down' })
  })

  test('/metrics has each value with its process, under one heading', async () => {
    const family = (/** @type {number} */ value) => ({
      name: 'x_total',
      help: 'h',
      type: 'counter',
      aggregator: 'sum',
      values: [{ value, labels: { kind: 'k' } }],
    })
    const page = await joinMetrics([
      { process: '0', value: [family(1)] },
      { process: '1', value: [family(2)] },
    ])
    const lines = page.split('\n').filter((line) => line !== '')
    expect(lines).toEqual([
      '# HELP x_total h',
      '# TYPE x_total counter',
      'x_total{kind="k",process="0"} 1',
      'x_total{kind="k",process="1"} 2',
    ])
  })
})

describe('a broker in another process', () => {
  /** @type {Hub} */
  let hub
  /** @type {Awaited<ReturnType<typeof startIngest>>[]} */
  let processes
  /** @type {string} */
  let directory
  /** @type {RawClient[]} */
  const clients = []

  /** @type {Record<string, import('@sandglass/common/keys').Grant>} */
  const keys = Object.fromEntries(
    [
      { keyId: 'all', scopes: ['read', 'write'], sensor: undefined },
      { keyId: 'device', scopes: ['write'], sensor: 'boiler' },
    ].map(({ keyId, scopes, sensor }) => {
      const own = { sensorId: sensor && sensorId(sensor), expiresMs: undefined }
      return [keyId, { keyId, name: keyId, scopes: new Set(scopes), ...own }]
    }),
  )

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'sandglass-hub-'))
    const path = join(directory, 'broker')
    const broker = new Broker({ shares: new MemoryBudget().shares })
    // Topics of its own, as in a process of its own.
    hub = new Hub({ broker, topics: parseTopics('') })
    await hub.start(path)
    const access = new Access({
      topics,
      keys: {
        unasked: 0,
        find: async (text) => keys[text],
        confirm: async () => new Map(Object.entries(keys)),
      },
    })
    processes = []
    for (const remote of [new RemoteBroker(path), new RemoteBroker(path)]) {
      processes.push(await startIngest({}, { topics, access, broker: remote }))
    }
  })

  afterEach(async () => {
    for (const one of clients.splice(0)) one.end()
    for (const one of processes) await one.stop()
    await hub.stop()
    rmSync(directory, { recursive: true, force: true })
  })

  /** @param {number} process  @param {string} key  @param {object} [fields] */
  async function open(process, key, fields = {}) {
    const one = new RawClient(processes[process].port)
    clients.push(one)
    const clientId = `c${clients.length}`
    const password = Buffer.from(key)
    return one.connect({ clientId, username: 'u', password, ...fields })
  }

  /** What it was granted. @param {RawClient} one  @param {string[]} filters */
  async function subscribe(one, filters) {
    const subscriptions = filters.map((topic) => ({ topic, qos: /** @type {const} */ (1) }))
    one.send({ cmd: 'subscribe', messageId: 9, subscriptions })
    await until(() => one.ids('suback').length === 1)
    return /** @type {any} */ (one.packets.find(({ cmd }) => cmd === 'suback')).granted
  }

  /** @param {RawClient} one */
  const heard = (one) =>
    one.packets.flatMap((packet) => (packet.cmd === 'publish' ? [packet.topic] : []))

  test('grants what the key allows, and no more, whichever process asks', async () => {
    const device = await open(0, 'device')
    expect(await subscribe(device, ['sensors/boiler/#', 'sensors/other/#', '#'])).toEqual([
      1, 128, 128,
    ])
    const reader = await open(1, 'all')
    expect(await subscribe(reader, ['sensors/#'])).toEqual([1])
    const writer = await open(1, 'all')
    writer.publish(1, { topic: 'sensors/other/m' })
    writer.publish(2, { topic: 'sensors/boiler/m' })
    await until(() => heard(reader).length === 2 && heard(device).length === 1)
    expect(heard(device)).toEqual(['sensors/boiler/m'])
    expect(writer.ids('puback')).toEqual([1, 2])
  })

  test('publishes no will that its key does not allow any more', async () => {
    const reader = await open(1, 'all')
    await subscribe(reader, ['wills/#'])
    const will = (/** @type {string} */ topic) => ({
      will: { topic, payload: Buffer.from('x'), qos: /** @type {const} */ (1), retain: false },
    })
    const revoked = await open(0, 'all', will('wills/revoked'))
    const [owner] = [...(processes[0].server?.sessions.owners ?? [])]
    processes[0].server?.sessions.endAll(owner, 'its key was revoked')
    await until(() => revoked.isClosed)
    const lost = await open(0, 'all', will('wills/lost'))
    lost.end()
    await until(() => heard(reader).length > 0)
    expect(heard(reader)).toEqual(['wills/lost'])
  })

  test('hears of decoders, which tell whose a topic is', async () => {
    const logger = pino({ level: 'silent' })
    const known = new KnownDecoders({ topics, lineTopic: 'lines', logger })
    followDecoders(known, processes[0])
    const reader = await open(1, 'all')
    await subscribe(reader, ['hall/#'])
    const decoder = { name: 'own', version: 1, template: 'hall/{sensor}', changedMs: 0 }
    const expression = { expression: '$', reads: /** @type {const} */ ('json') }
    known.take({ revision: 1, set: [{ ...decoder, ...expression }] })
    const payload = Buffer.from('x')
    const will = { topic: 'hall/boiler', payload, qos: /** @type {const} */ (1), retain: false }
    const device = await open(0, 'device', { will })
    device.end()
    await until(() => heard(reader).length > 0)
    expect(heard(reader)).toEqual(['hall/boiler'])

    // Once they are gone, the topic is nobody's again.
    const last = await open(0, 'device', { will })
    known.take({ revision: 2, set: [] })
    await open(0, 'all', { will: { ...will, topic: 'hall/end' } }).then((one) => one.end())
    last.end()
    await until(() => heard(reader).includes('hall/end'))
    await pause(50)
    expect(heard(reader)).toEqual(['hall/boiler', 'hall/end'])
  })

  test('publishes the wills of a process that is killed, and forgets its sessions', async () => {
    const reader = await open(1, 'all')
    await subscribe(reader, ['wills/#'])
    const payload = Buffer.from('x')
    const will = { topic: 'wills/a', payload, qos: /** @type {const} */ (1), retain: false }
    const terms = {
      name: 'all/kept',
      version: 4,
      clean: true,
      isKept: true,
      receiveMax: 10,
      packetBytesMax: 1_000,
      will: { ...will, delayMs: 0, expiryS: undefined, passOn: Buffer.alloc(0) },
    }
    const socket = connectTo(join(directory, 'broker'))
    let acknowledged = 0
    const link = new Link(socket, (kind, port) => {
      if (kind === KIND.subscribers) link.send(KIND.known, 0)
      if (kind === KIND.ask) link.tell(KIND.answer, port, [0])
      if (kind === KIND.data) acknowledged++
    })
    const grant = { ...keys.all, scopes: ['read', 'write'] }
    link.tell(KIND.open, 1, { name: 'all/kept', grant, terms: sentTerms(terms) })
    const subscriptions = [{ topic: 'news', qos: /** @type {const} */ (1) }]
    link.send(KIND.data, 1, generate({ cmd: 'subscribe', messageId: 1, subscriptions }))
    await until(() => acknowledged === 1)
    socket.destroy()
    await until(() => heard(reader).length === 1)
    const writer = await open(1, 'all')
    writer.publish(1, { topic: 'news' })
    await until(() => writer.ids('puback').length === 1)
    const back = new RawClient(processes[1].port)
    clients.push(back)
    back.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 4,
      clean: false,
      keepalive: 0,
      clientId: 'kept',
      username: 'u',
      password: Buffer.from('all'),
    })
    await subscribe(back, ['other'])
    expect(heard(back)).toEqual([])
    expect(heard(reader)).toEqual(['wills/a'])
  })
})

test('frames arrive as they were sent, wherever they are cut', async () => {
  const random = seeded(1)
  const path = join(mkdtempSync(join(tmpdir(), 'sandglass-link-')), 's')
  /** @type {[number, number, string][]} */
  const got = []
  const server = createServer((socket) => {
    new Link(socket, (kind, port, body) => got.push([kind, port, body.toString('latin1')]))
  })
  await new Promise((resolve) => server.listen(path, () => resolve(undefined)))
  // What a link writes, cut into pieces.
  /** @type {Buffer[]} */
  const written = []
  const fake = Object.assign(connectTo(path), { write: (/** @type {any} */ b) => written.push(b) })
  const { write } = Object.getPrototypeOf(fake)
  const link = new Link(/** @type {any} */ (fake), () => {})
  /** @type {[number, number, string][]} */
  const sent = []
  for (let count = 0; count < 200; count++) {
    const body = 'x'.repeat(Math.floor(random() * (count % 20 === 0 ? 100_000 : 40)))
    sent.push([count % 13, count, body])
    link.send(count % 13, count, Buffer.from(body))
  }
  await until(() => written.length > 0)
  const bytes = Buffer.concat(written)
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + Math.floor(random() * 3_000)
    write.call(fake, bytes.subarray(at, end))
    at = end
    if (at % 7 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  await until(() => got.length === sent.length)
  expect(got).toEqual(sent)
  fake.destroy()
  server.close()
  rmSync(join(path, '..'), { recursive: true })
})

test('a publish is told with all that a subscriber hears of it', () => {
  const message = {
    topic: 'ä/b',
    payload: Buffer.from('p'),
    qos: /** @type {2} */ (2),
    retain: true,
  }
  expect(parsePublishBody(Buffer.concat(publishBody(message)))).toEqual(message)
  const delivery = { passOn: Buffer.from([3, 0, 1, 120]), from: 'k/ä' }
  const told = { ...message, delivery: { ...delivery, expiresMs: performance.now() + 5_000 } }
  const { delivery: heard } = parsePublishBody(Buffer.concat(publishBody(told)))
  expect(heard).toMatchObject(delivery)
  expect(heard?.expiresMs).toBeCloseTo(told.delivery.expiresMs, -3)
  const forever = { ...message, delivery: { ...delivery, expiresMs: Number.POSITIVE_INFINITY } }
  expect(parsePublishBody(Buffer.concat(publishBody(forever)))).toEqual(forever)
  const empty = { ...message, payload: Buffer.alloc(0), qos: /** @type {0} */ (0), retain: false }
  expect(parsePublishBody(Buffer.concat(publishBody(empty)))).toEqual(empty)
})
