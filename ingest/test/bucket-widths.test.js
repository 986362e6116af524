import { describe, expect, test } from '@jest/globals'
import { layoutStart, WIDTHS_S } from '@sandglass/common/layout'
import { CLASS_NAMES, retentionClass } from '@sandglass/common/schema'
import pino from 'pino'
import { fill, fittingWidth, PARTITION_ROWS_MAX, widerWidth } from '../src/sensors/bucket-width.js'
import { BucketWidths, SAMPLE_MS } from '../src/sensors/bucket-widths.js'
import { Sensor } from '../src/sensors/series.js'
import { FakeStorage } from './support/fake-storage.js'

const [QUARTER, HOUR, SIX_HOURS, DAY, WEEK] = WIDTHS_S
const NOW = Date.UTC(2026, 0, 1, 12, 34)

/** @param {number} rowsPerS  @param {number} [bytesPerRow] */
const load = (rowsPerS, bytesPerRow = 40) => ({ rowsPerS, bytesPerS: rowsPerS * bytesPerRow })

describe('the width that fits', () => {
  test.each([
    ['one metric a second', '30d', DAY, load(1), DAY],
    ['a little more than that', '30d', DAY, load(1.3), DAY],
    ['two metrics a second', '30d', DAY, load(2), SIX_HOURS],
    ['ten a second', '30d', DAY, load(10), HOUR],
    ['fifty metrics a second', '30d', DAY, load(50), QUARTER],
    ['more than any width is good for', '30d', DAY, load(5_000), QUARTER],
    ['the same, when it is so already', '30d', QUARTER, load(5_000), QUARTER],
    ['one a second, kept for long', '400d', WEEK, load(1), DAY],
    ['one a minute, kept for ever', 'keep', WEEK, load(1 / 60), WEEK],
    ['four a second in six hours', '7d', SIX_HOURS, load(4), SIX_HOURS],
    ['six a second in six hours', '7d', SIX_HOURS, load(6), HOUR],
    ['a long text a second', '30d', DAY, load(1, 2_000), HOUR],
    ['a very long text a second', '30d', DAY, load(1, 60_000), QUARTER],
    ['nothing', '30d', DAY, load(0), DAY],
  ])('for %s of %s', (_name, className, bucketS, sent, expected) => {
    expect(fittingWidth({ bucketS }, sent)).toBe(expected)
    expect(bucketS).toBeLessThanOrEqual(retentionClass(className).bucketS)
  })

  test('never makes a partition too full where a narrower one is left, and never widens', () => {
    for (const className of CLASS_NAMES) {
      for (const bucketS of WIDTHS_S.filter((s) => s <= retentionClass(className).bucketS)) {
        for (let rowsPerS = 1e-4; rowsPerS < 1e4; rowsPerS *= 1.1) {
          const fitting = fittingWidth({ bucketS }, load(rowsPerS))
          const wider = widerWidth({ className, bucketS }, load(rowsPerS))
          expect(fitting).toBeLessThanOrEqual(bucketS)
          expect(fitting === QUARTER || fill(fitting, load(rowsPerS)) <= 1.2).toBe(true)
          expect(wider).toBeGreaterThanOrEqual(bucketS)
          expect(wider).toBeLessThanOrEqual(retentionClass(className).bucketS)
          // What was widened is far from being narrowed again, and the other way round.
          if (wider > bucketS) expect(4 * rowsPerS * wider).toBeLessThanOrEqual(PARTITION_ROWS_MAX)
          if (fitting < bucketS) {
            expect(widerWidth({ className, bucketS: fitting }, load(rowsPerS))).toBe(fitting)
          }
        }
      }
    }
  })
})

/** @param {{ isAlone?: boolean, storage?: FakeStorage }} [options] */
function build({ isAlone = true, storage = new FakeStorage() } = {}) {
  const clock = { nowMs: NOW }
  const sensor = new Sensor('0d1b3c5e-0000-4000-8000-000000000001', 's')
  sensor.state = 'ready'
  const widths = new BucketWidths({
    registry: { all: () => [sensor] },
    store: storage,
    isAlone: () => isAlone,
    logger: pino({ level: 'silent' }),
    now: () => clock.nowMs,
  })
  /** Sends so many rows a second for some samples, and hears what others decide. */
  /** @param {number} rowsPerS  @param {number} [samples] */
  const send = async (rowsPerS, samples = 1) => {
    for (let n = 0; n < samples; n++) {
      sensor.layouts = storage.isDown ? sensor.layouts : await storage.layouts(sensor.id)
      clock.nowMs += SAMPLE_MS
      sensor.liveRows = (rowsPerS * SAMPLE_MS) / 1000
      await widths.turn()
    }
  }
  const layouts = () => storage.layouts(sensor.id)
  return { clock, sensor, storage, widths, send, layouts }
}

/** @param {FakeStorage} storage  @param {number} [bucketS] */
const register = (storage, bucketS = DAY) =>
  storage.putLayout(
    '0d1b3c5e-0000-4000-8000-000000000001',
    { fromMs: 0, className: '30d', bucketS },
    1,
  )

describe('layouts by what is sent', () => {
  test('a sensor that sends much gets narrower buckets after an hour, once', async () => {
    const { send, layouts, storage, widths, clock } = build()
    register(storage)
    await send(10, 3)
    expect(await layouts()).toHaveLength(1)
    await send(10)
    const fromMs = layoutStart(clock.nowMs)
    const added = { fromMs, className: '30d', bucketS: HOUR }
    expect((await layouts())[1]).toEqual(added)
    await send(400, 80)
    expect(await layouts()).toHaveLength(2)
    expect(widths.counts).toEqual({ narrower: 1, wider: 0, failures: 0 })
    // As soon as that holds the next change may come.
    await send(400, 30)
    expect((await layouts())[2]).toMatchObject({ bucketS: QUARTER })
  })

  test('a burst of some minutes changes nothing', async () => {
    const { send, layouts, storage, sensor } = build()
    register(storage)
    await send(0.1, 10)
    await send(5)
    await send(0.1, 10)
    expect(await layouts()).toHaveLength(1)
    expect(sensor.rate).toBeUndefined()
  })

  test('buckets get wider when little was sent for a whole day, and not before', async () => {
    const { send, layouts, storage, widths } = build()
    register(storage, HOUR)
    await send(0.1, 90)
    await send(20)
    await send(0.1, 95)
    expect(await layouts()).toHaveLength(1)
    await send(0.1)
    expect((await layouts())[1]).toMatchObject({ className: '30d', bucketS: DAY })
    expect(widths.counts.wider).toBe(1)
  })

  test('a process that is not alone sees a part, and makes no bucket wider', async () => {
    const { send, layouts, storage } = build({ isAlone: false })
    register(storage, HOUR)
    await send(0.1, 200)
    expect(await layouts()).toHaveLength(1)
    await send(100, 10)
    expect((await layouts())[1]).toMatchObject({ bucketS: QUARTER })
  })

  test('two processes that decide at the same time add one layout', async () => {
    const storage = new FakeStorage()
    register(storage)
    const processes = [10, 50, 10].map((rowsPerS) => ({ rowsPerS, ...build({ storage }) }))
    // Each reads before any has written.
    const { layouts: before } = storage
    const known = await storage.layouts(processes[0].sensor.id)
    storage.layouts = async () => known
    for (const { send, rowsPerS } of processes) await send(rowsPerS, 4)
    storage.layouts = before
    expect((await processes[0].layouts()).map(({ bucketS }) => bucketS)).toEqual([DAY, QUARTER])
  })

  test('what a person asked for is not replaced', async () => {
    const { storage, sensor } = build()
    register(storage)
    const fromMs = layoutStart(NOW)
    storage.putLayout(sensor.id, { fromMs, className: '7d', bucketS: SIX_HOURS }, NOW * 1000)
    await storage.addLayout(sensor.id, { fromMs, className: '30d', bucketS: HOUR })
    expect((await storage.layouts(sensor.id))[1]).toMatchObject({ className: '7d' })
  })

  test('while the database is away it is counted, and decided again later', async () => {
    const { send, layouts, storage, widths } = build()
    register(storage)
    await send(10, 3)
    storage.isDown = true
    await send(10, 2)
    storage.isDown = false
    expect(widths.counts.failures).toBe(2)
    await send(10)
    expect(await layouts()).toHaveLength(2)
  })

  test('only rows of about now count', () => {
    const { sensor } = build()
    sensor.count(86_400_000, 'long ago')
    expect(sensor.liveRows).toBe(0)
    sensor.count(1_000, 'text')
    sensor.count(-1_000, 5)
    expect([sensor.liveRows, sensor.liveTextBytes]).toEqual([2, 4])
  })
})
