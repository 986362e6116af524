// What ingest remembers of sensors, and when it forgets them.

import { beforeEach, describe, expect, test } from '@jest/globals'
import { KIND } from '@sandglass/common/measurement'
import { MemoryShare } from '@sandglass/common/memory-share'
import { sensorId } from '@sandglass/common/sensor'
import { BELIEVED_MS_MAX, Registry } from '../src/sensors/registry.js'
import { Recent } from '../src/write/recent.js'
import { Rows } from '../src/write/rows.js'
import { heapBytes } from './support/garbage.js'
import { until } from './support/ingest.js'
import { build } from './support/pipeline.js'

const HOUR_MS = 3_600_000
const T = Date.UTC(2026, 0, 1)

let nowMs = 0
/** Ids that the database was asked about, request by request. @type {string[][]} */
let requests = []
/** Sensors that cannot be read. @type {Set<string>} */
let unreadable = new Set()
/** What is to be done a little later. @type {(() => void)[]} */
let later = []
/** @type {MemoryShare} */
let share
/** @type {Registry} */
let registry
let isHidden = false
/** Metrics of each sensor that are stored. @type {Map<string, number>} */
let lastTimes = new Map()

beforeEach(() => {
  nowMs = 0
  requests = []
  unreadable = new Set()
  later = []
  isHidden = false
  lastTimes = new Map()
  share = new MemoryShare(1_000_000)
  registry = new Registry({
    reader: {
      async readSensors(ids) {
        requests.push([...ids])
        if (ids.some((id) => unreadable.has(id))) throw new Error('it cannot be read')
        return new Map(ids.map((id) => [id, known()]))
      },
      countSensors: async () => 0,
    },
    rows: new Rows('k'),
    sensorsMax: 1e6,
    className: '30d',
    share,
    now: () => nowMs,
    later: (call) => later.push(call),
  })
})

function known() {
  const layouts = [{ fromMs: 0, className: '30d', bucketS: 86_400 }]
  return { isRegistered: true, isHidden, layouts, lastTimes, units: new Map() }
}

/** A message of a sensor begins; the sensor. @param {string} name  @param {any} [message] */
async function use(name, message = {}) {
  const sensor = registry.sensor(name)
  registry.use(sensor, message)
  registry.refresh(sensor)
  await until(() => sensor.state === 'ready' && !sensor.isAsked)
  return sensor
}

describe('a sensor', () => {
  test('that was deleted is refused within a minute, though it publishes all the time', async () => {
    const sensor = await use('s')
    isHidden = true
    for (; !sensor.isHidden && nowMs <= 2 * BELIEVED_MS_MAX; nowMs += 1_000) {
      registry.refresh(sensor)
      for (const call of later.splice(0)) call()
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(nowMs).toBeGreaterThan(1_000)
    expect(nowMs).toBeLessThanOrEqual(BELIEVED_MS_MAX + 2_000)
    expect(BELIEVED_MS_MAX).toBe(60_000)
  })

  test('that is idle for an hour is forgotten, and asked about when it is back', async () => {
    const message = {}
    const sensor = await use('s', message)
    sensor.seriesOf('m')
    registry.release(/** @type {any} */ (message))
    nowMs = HOUR_MS - 1
    registry.age()
    expect([...registry.all()]).toEqual([sensor])
    nowMs = HOUR_MS + 1
    registry.age()
    registry.age()
    expect([...registry.all()]).toEqual([])
    expect([sensor.state, share.bytes]).toEqual(['forgotten', 0])
    expect(await use('s')).not.toBe(sensor)
    expect(requests).toEqual([[sensorId('s')], [sensorId('s')]])
  })

  test.each([
    ['a message of it is not settled', () => {}],
    ['a row is on its way', (/** @type {any} */ series) => series.sent(5)],
    ['its newest value is not written', (/** @type {any} */ series) => (series.isLatestDue = true)],
    ['its extent is not', (/** @type {any} */ series) => series.coverRows.push({})],
    ['its dirty hours are not', (/** @type {any} */ series) => series.markRows.push({})],
    ['its registration is not', ({ sensor }) => sensor.registrationRows.push({})],
  ])('is remembered while %s, however short memory is', async (why, keep) => {
    const message = {}
    const sensor = await use('s', message)
    keep(sensor.seriesOf('m'))
    if (why !== 'a message of it is not settled') registry.release(/** @type {any} */ (message))
    share.add(1_000_000)
    nowMs = 10 * HOUR_MS
    registry.age()
    registry.age()
    expect([...registry.all()]).toEqual([sensor])
  })

  test('is counted with its metrics, those that are only in the database too', async () => {
    await use('s')
    const alone = share.bytes
    expect(alone).toBeGreaterThan(1_000)
    for (let at = 0; at < 100; at++) lastTimes.set(`m${at}`, T)
    const rich = await use('rich')
    expect(share.bytes - 2 * alone).toBeGreaterThan(5_000)
    const before = share.bytes
    for (const metric of lastTimes.keys()) rich.seriesOf(metric)
    expect(share.bytes - before).toBeGreaterThan(100_000)
  })

  /** @type {[string, (name: string, at: number) => void][]} */
  const keeping = [
    ['a name of a sensor', (name) => registry.sensor(name)],
    ['an id of a sensor', (name) => registry.sensor(sensorId(name))],
    ['a metric', (name) => registry.sensor('s').seriesOf(name)],
    [
      'a text that is told from others',
      (name, at) => recent.place(registry.sensor('s').seriesOf('m'), at, KIND.text, name),
    ],
  ]
  const recent = new Recent()

  test.each(keeping)('keeps of the topic or the text in which %s came only that', (what, keep) => {
    const count = 200
    const textLength = 60_000
    const isId = what.startsWith('an id')
    registry.sensor('s').seriesOf('m')
    const beforeBytes = heapBytes()
    for (let at = 0; at < count; at++) {
      const name = `what is kept of ${at}`
      const text = Buffer.from(`${'x'.repeat(textLength)}/${isId ? sensorId(name) : name}`)
      keep(text.toString().slice(textLength + 1), at)
    }
    expect(heapBytes() - beforeBytes).toBeLessThan((count * textLength) / 4)
  })
})

describe('sensors that are heard of together', () => {
  const names = Array.from({ length: 300 }, (_, at) => `s${at}`)

  test('are asked about in few requests, each of them once', async () => {
    const sensors = await Promise.all(names.map((name) => use(name)))
    expect(sensors.every(({ state }) => state === 'ready')).toBe(true)
    expect(requests.flat().sort()).toEqual(names.map(sensorId).sort())
    // As many as may be under way, and then the others with as many as one may ask about.
    const sizes = [...Array(32).fill(1), ...Array(8).fill(32), 300 - 32 - 8 * 32]
    expect(requests.map(({ length }) => length)).toEqual(sizes)
  })

  test('do not wait for one that cannot be read', async () => {
    unreadable.add(sensorId('s150'))
    const ready = names.filter((name) => name !== 's150').map((name) => use(name))
    const [poor] = [registry.sensor('s150')]
    registry.refresh(poor)
    await Promise.all(ready)
    expect(poor.state).toBe('reading')
    unreadable.clear()
    await until(() => poor.state === 'ready')
  })

  test('are asked about together again, and at once when somebody waits for one', async () => {
    const sensors = await Promise.all(names.slice(0, 20).map((name) => use(name)))
    requests = []
    nowMs += BELIEVED_MS_MAX + 1
    for (const sensor of sensors) registry.refresh(sensor)
    for (const sensor of sensors) registry.refresh(sensor)
    expect(requests).toEqual([])
    expect(later.length).toBe(1)
    later[0]()
    expect(requests.map(({ length }) => length)).toEqual([20])
    await until(() => sensors.every(({ isAsked }) => !isAsked))

    nowMs += BELIEVED_MS_MAX + 1
    for (const sensor of sensors) registry.refresh(sensor)
    registry.ask(sensors[3])
    expect(requests.map(({ length }) => length)).toEqual([20, 20])
  })
})

test('where memory is short, whoever is idle is forgotten, and nobody else', async () => {
  const busy = await use('busy')
  for (let at = 0; share.bytes < share.bytesMax; at++) {
    const message = {}
    await use(`idle-${at}`, message)
    registry.release(/** @type {any} */ (message))
    nowMs += 1
  }
  const many = [...registry.all()].length
  registry.age()
  expect(share.isFull).toBe(false)
  expect(registry.sensor('busy')).toBe(busy)
  expect([...registry.all()].length).toBeGreaterThan(many / 2)
})

test('a fleet that was forgotten goes on where it was, value by value', async () => {
  const { settle, registry: sensors, storage, memory, places } = build()
  await settle('sensors/s/m', { t: T, v: 1 })
  const [before] = [...sensors.all()]
  memory.shares.sensors.add(1e9)
  // Its newest value was written at once, and its rows are durable.
  await until(() => {
    sensors.age()
    return before.state === 'forgotten'
  })
  memory.shares.sensors.give(1e9)
  await settle('sensors/s/m', { t: T, v: 2 })
  await settle('sensors/s/m', { t: T, v: 1 })
  const rows = storage.rowsOf('measurement_30d').map(({ ts, seq, v }) => [ts, seq, v])
  expect(new Set(rows.map(String))).toEqual(new Set([`${T},0,1`, `${T},1,2`]))
  expect([...sensors.all()]).not.toContain(before)
  expect(places.sameTime).toBeGreaterThan(0)
})
