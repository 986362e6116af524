// Alert rules are worked on whatever one series does, and whatever the clock does.
import { describe, expect, test } from '@jest/globals'
import { RULE_MARK_TTL_S, RULE_SLOT_MS } from '@sandglass/common/rules/tables'
import cassandra from 'cassandra-driver'
import { ABSENCES_MAX, awayFor, withAbsence } from '../src/rules/absence.js'
import { HELD_MAX } from '../src/rules/arrivals.js'
import { OWED_MAX } from '../src/rules/owed.js'
import { RuleStore } from '../src/rules/store.js'
import { Storage } from '../src/write/storage.js'
import { RuleWorld } from './support/rule-world.js'

const { Long } = cassandra.types

/** @param {object} [rule] */
function worldWith(rule) {
  const world = new RuleWorld()
  world.addRule({ receivers: ['duty'], ...rule })
  return world
}

/**
 * Values that are wrong and right in turn, a millisecond apart, the last one right.
 *
 * @param {number} count
 * @param {number} untilMs
 * @returns {[number, number][]}
 */
const flips = (count, untilMs) =>
  Array.from({ length: count }, (_, at) => [untilMs - count + at, at % 2 ? 10 : 91])

describe('a series that cannot be evaluated as others are', () => {
  test('is written in parts if it changes all the time, and others are told as ever', async () => {
    const world = worldWith()
    const worker = await world.start()
    await world.run(worker, 1)
    world.add('evil', flips(5_000, world.nowMs))
    world.add('boiler', [[world.nowMs, 95]])
    await world.run(worker, 3)
    expect(world.counts).toEqual({
      'evil fired': 2_500,
      'evil resolved': 2_500,
      'boiler fired': 1,
    })
    expect(worker.counts).toMatchObject({ failures: 0, fired: 2_501, resolved: 2_500 })
  })

  test('is gone on with after a restart in the middle, nothing is told twice', async () => {
    const world = worldWith()
    const first = await world.start()
    await world.run(first, 1)
    world.add('evil', flips(12_000, world.nowMs))
    await world.run(first, 1)
    expect(world.counts['evil fired']).toBeLessThan(6_000)
    await world.run(await world.start(), 40)
    expect(world.counts).toEqual({ 'evil fired': 6_000, 'evil resolved': 6_000 })
  })

  test('keeps no other waiting if it fails, says so, and is found when it can be', async () => {
    const world = worldWith()
    const worker = await world.start()
    await world.run(worker, 1)
    world.broken.add('evil')
    world.add('evil', [[world.nowMs, 95]])
    world.add('boiler', [[world.nowMs, 95]])
    await world.run(worker, 600)
    world.add('kettle', [[world.nowMs, 95]])
    await world.run(worker, 3)
    expect(world.counts).toEqual({ 'boiler fired': 1, 'kettle fired': 1 })
    // Pauses grow to a minute.
    expect(worker.counts.failures).toBeGreaterThan(10)
    expect(worker.counts.failures).toBeLessThan(30)
    expect(worker.lagS).toBeGreaterThan(590)
    const warned = world.logged.filter(({ level }) => level === 40)
    expect(warned[0]).toMatchObject({
      msg: expect.stringMatching(/have to wait for m of sensor/),
      reason: 'the rows of it cannot be read',
    })
    // Whoever takes over knows of it, although its mark is long worked off.
    world.broken.clear()
    const next = await world.start()
    await world.run(next, 3)
    expect(world.counts['evil fired']).toBe(1)
    expect(next.lagS).toBe(0)
  })

  test('keeps marks waiting only if very many fail, and none is lost', async () => {
    const world = worldWith()
    const worker = await world.start()
    await world.run(worker, 1)
    const sensors = Array.from({ length: OWED_MAX + 20 }, (_, at) => `s${at}`)
    for (const sensor of sensors) {
      world.broken.add(sensor)
      world.add(sensor, [[world.nowMs, 95]])
    }
    await expect(world.run(worker, 1)).rejects.toThrow('cannot be read')
    expect(worker.waiting).toBe(OWED_MAX)
    world.broken.clear()
    await world.run(worker, 120)
    expect(Object.values(world.counts)).toEqual(sensors.map(() => 1))
  })
})

describe('values of a series', () => {
  test('are read from the newest that counted on, if all rules know it', async () => {
    const world = worldWith()
    const worker = await world.start()
    world.add('s', [...flips(5_000, world.nowMs), [world.nowMs, 91]])
    await world.run(worker, 10)
    expect(world.counts['s fired']).toBe(2_501)
    world.rowsRead.clear()
    // Its mark is of before; what is before the newest one changes nothing.
    world.add('s', [[world.nowMs - 400_000, 5]])
    await world.run(worker, 2)
    expect(world.rowsRead.get('s')).toBe(1)
    expect(world.counts['s resolved']).toBe(2_500)
  })

  test('that are late beside very many are counted once, and few are held', async () => {
    const world = worldWith()
    const worker = await world.start()
    const count = 3 * HELD_MAX
    const fromMs = world.nowMs - 500_000
    world.add(
      's',
      Array.from({ length: count }, (_, at) => [fromMs + at, 5]),
    )
    await world.run(worker, 2)
    world.rowsRead.clear()
    for (let second = 0; second < 10; second++) {
      // Wrong, and late: a newer one was received before.
      world.add('s', [[fromMs + 1, 99]])
      await world.run(worker, 1)
    }
    expect(world.counts).toEqual({})
    expect(world.rowsRead.get('s')).toBeLessThan(count + 100)
  })

  test('may be hundreds of thousands', async () => {
    const row = { seq: Long.ZERO, v: 5, wv: Long.fromNumber(7_000_000) }
    const count = 300_000
    const execute = async (
      /** @type {string} */ query,
      /** @type {any[]} */ _,
      { pageState = 0 },
    ) => {
      if (query.includes('LIMIT')) return { rows: [] }
      const rows = Array.from({ length: 5_000 }, (_, at) => {
        return { ...row, ts: new Date(pageState + at) }
      })
      const next = pageState + rows.length
      return { rows, pageState: next < count ? next : null }
    }
    const database = /** @type {any} */ ({ keyspace: 'k', isUp: true, client: { execute } })
    const store = new RuleStore(new Storage(database), 'k')
    const layout = { fromMs: 0, className: '30d', bucketS: 86_400, generation: 0 }
    const known = /** @type {any} */ ({ layouts: [layout], lastMs: new Map([['m', 1_000]]) })
    let read = 0
    for await (const some of store.values.since('s', 'm', known, 0)) read += some.length
    expect(read).toBe(count)
    expect(await store.values.newestReceivedMs('s', 'm', known, 0)).toBe(7_000)
  })
})

const HOUR_MS = 3_600_000

describe('after the clock was ahead', () => {
  for (const [name, aheadMs] of /** @type {const} */ ([
    ['by an hour', HOUR_MS],
    ['by three years', 3 * 365 * 24 * HOUR_MS],
  ])) {
    for (const isRestarted of [false, true]) {
      const then = isRestarted ? ', and all was started again' : ''
      test(`${name}${then}, values are looked at as soon as ever`, async () => {
        const world = worldWith()
        let worker = await world.start()
        await world.run(worker, 5)
        world.nowMs += aheadMs
        await world.run(worker, 60)
        world.nowMs -= aheadMs
        if (isRestarted) {
          world.clock = world.newClock()
          worker = await world.start()
        }
        for (let turn = 0; turn < 5; turn++) {
          world.add(`s${turn}`, [[world.nowMs, 95]])
          await world.run(worker, 10)
          expect(world.counts[`s${turn} fired`]).toBe(1)
        }
        expect(worker.lagS).toBe(0)
      })
    }
  }

  test('a sensor that is silent is found as soon as ever', async () => {
    const world = worldWith({ kind: 'silence', above: undefined, for_s: 30 })
    const worker = await world.start()
    world.nowMs += 2 * HOUR_MS
    await world.run(worker, 90)
    world.nowMs -= 2 * HOUR_MS
    world.add('pump', [[world.nowMs, 5]])
    await world.run(worker, 29)
    expect(world.counts).toEqual({})
    await world.run(worker, 65)
    expect(world.counts).toEqual({ 'pump fired': 1 })
  })

  test('a process that starts meanwhile makes marks where one that works reads them', async () => {
    const world = worldWith()
    const worker = await world.start()
    world.nowMs += HOUR_MS
    await world.run(worker, 60)
    world.nowMs -= HOUR_MS
    const itsClock = world.clock
    world.clock = world.newClock()
    const other = await world.start()
    world.add('s', [[world.nowMs, 95]])
    expect(other.waiting).toBe(0)
    expect(itsClock.now() - world.clock.now()).toBeLessThan(60_000)
    await world.run(worker, 3)
    expect(world.counts).toEqual({ 's fired': 1 })
  })

  test('no slots are read whose marks have expired', async () => {
    const world = worldWith()
    const worker = await world.start()
    await world.run(worker, 1)
    world.nowMs += 30 * 24 * HOUR_MS
    await world.run(worker, 1)
    expect(world.slotsRead * RULE_SLOT_MS).toBeLessThan(RULE_MARK_TTL_S * 1000 + 600_000)
  })

  test('how far ahead marks are worked off is a lag', async () => {
    const world = worldWith()
    const worker = await world.start()
    await world.run(worker, 1)
    world.nowMs += 30 * 24 * HOUR_MS
    await world.run(worker, 1)
    world.nowMs -= 30 * 24 * HOUR_MS
    expect(worker.lagS).toBeGreaterThan(29 * 24 * 3_600)
  })
})

describe('time in which nobody worked', () => {
  test('is no silence, however often it happened', async () => {
    const world = worldWith({ kind: 'silence', above: undefined, for_s: 600 })
    await world.run(await world.start(), 10)
    world.add('pump', [[world.nowMs, 5]])
    // The sensor would send again after five minutes.
    await world.run(await world.start(), 60)
    world.nowMs += HOUR_MS
    await world.run(await world.start(), 60)
    world.nowMs += 60_000
    const worker = await world.start()
    await world.run(worker, 60)
    expect(world.counts).toEqual({})
    // What is left of ten minutes.
    await world.run(worker, 300)
    expect(world.counts).toEqual({})
    await world.run(worker, 240)
    expect(world.counts).toEqual({ 'pump fired': 1 })
  })

  test('is added up where it lies within a silence, and is forgotten after the longest one', () => {
    const dayMs = 24 * HOUR_MS
    let all = withAbsence([], { fromMs: 100, toMs: 200 }, 200)
    all = withAbsence(all, { fromMs: 150, toMs: 250 }, 250)
    all = withAbsence(all, { fromMs: 400, toMs: 500 }, 500)
    expect(all).toEqual([
      { fromMs: 100, toMs: 250 },
      { fromMs: 400, toMs: 500 },
    ])
    expect([0, 120, 300, 450, 600].map((sinceMs) => awayFor(all, sinceMs, 480))).toEqual([
      230, 210, 80, 30, 0,
    ])
    const lateMs = 30 * dayMs + 400
    expect(withAbsence(all, { fromMs: lateMs, toMs: lateMs + 1 }, lateMs)).toEqual([
      { fromMs: 400, toMs: 500 },
      { fromMs: lateMs, toMs: lateMs + 1 },
    ])
  })

  test('is remembered in bounds: of too many absences those that lie closest become one', () => {
    /** @type {import('../src/rules/absence.js').Absence[]} */
    let all = []
    for (let at = 0; at < ABSENCES_MAX; at++) {
      all = withAbsence(all, { fromMs: at * 100, toMs: at * 100 + (at === 7 ? 90 : 50) }, 0)
    }
    expect(all).toHaveLength(ABSENCES_MAX)
    all = withAbsence(all, { fromMs: ABSENCES_MAX * 100, toMs: ABSENCES_MAX * 100 + 50 }, 0)
    expect(all).toHaveLength(ABSENCES_MAX)
    expect(all[7]).toEqual({ fromMs: 700, toMs: 850 })
  })
})
