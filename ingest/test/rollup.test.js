import { randomInt } from 'node:crypto'
import {
  DAY_MS,
  HOUR_MS,
  MARK_TTL_S,
  ROLLUP_SHARDS,
  SLOT_GRACE_MS,
  SLOT_MS,
  STEP_BACK_MS_MAX,
  shardOf,
  startOf,
} from '@sandglass/common/rollup'
import { sensorId } from '@sandglass/common/sensor'
import { shardsOf } from '../src/rollup/owners.js'
import { seeded } from './support/random.js'
import { alone, Model, settle, store, tick } from './support/rollup-model.js'

const T = Date.UTC(2026, 0, 10, 12)
const MINUTE_MS = 60_000
const WEEK_MS = 7 * DAY_MS

/** @typedef {import('./support/rollup-model.js').Process} Process */

/** It was killed a while ago, and starts. @param {Model} model  @param {Process} process */
async function restart(model, process, offMs = 0) {
  process.kill()
  model.pass(offMs)
  const next = model.process(`after ${model.steadyMs}`)
  // Until the others count as gone.
  await next.turn()
  model.pass(MINUTE_MS)
  await next.turn()
  return next
}

test('an hour, its minutes and its day are summed up once they are over', async () => {
  const { model, process } = await alone(T)
  await store(process, 's', T + 1_000, 5)
  await store(process, 's', T + 61_000, 7)
  await settle(model, process)
  expect(model.rollup('s', '1m', T)).toBeUndefined()
  model.wallMs = T + HOUR_MS
  await settle(model, process)
  expect(model.rollup('s', '1m', T)).toMatchObject({ n: 1, sum: 5 })
  const hour = model.rollup('s', '1h', T)
  expect(hour).toMatchObject({ n: 2, sum: 12, min: 5, max: 7, first: 5, last: 7 })
  expect(hour?.sketch?.quantile(1)).toBeCloseTo(7, 0)
  expect(model.rollup('s', '1d', startOf(T, DAY_MS))).toBeUndefined()
  model.wallMs = startOf(T, DAY_MS) + DAY_MS
  await settle(model, process)
  expect(model.rollup('s', '1d', startOf(T, DAY_MS))).toMatchObject({ n: 2, sum: 12 })
})

test('a row that is late by days is in the rollups a slot later', async () => {
  const { model, process } = await alone(T)
  const timeMs = T - 5 * DAY_MS
  for (const v of [1, 2]) {
    await store(process, 's', timeMs + v, v)
    expect(model.lies()).toEqual([])
    await settle(model, process)
    expect(model.lies()).toEqual([])
    expect(model.rollup('s', '1d', startOf(timeMs, DAY_MS))?.n).toBe(v)
  }
})

test('an hour whose raw rows may be gone is left as it is, and counted', async () => {
  const { model, process } = await alone(T, '7d')
  const hourMs = T - 8 * DAY_MS
  // Imported today, it lives for seven days from now on: late rows of the same hour are taken in.
  for (const v of [1, 2]) {
    await store(process, 's', hourMs + v, v)
    await settle(model, process)
    expect(model.rollup('s', '1h', hourMs)?.n).toBe(v)
  }
  model.pass(7 * DAY_MS)
  await store(process, 's', hourMs + 3, 3)
  await settle(model, process)
  expect(model.rollup('s', '1h', hourMs)?.n).toBe(2)
  expect(process.worker.counts.expired).toBe(1)
})

test('a row that comes shortly before the others of its hour expire is counted', async () => {
  const { model, process } = await alone(T, '7d')
  await store(process, 's', T, 1)
  model.pass(HOUR_MS)
  await settle(model, process)
  model.pass(7 * DAY_MS - 2 * HOUR_MS)
  await store(process, 's', T + 1, 2)
  await settle(model, process)
  expect(model.rollup('s', '1h', T)?.n).toBe(2)
  expect(model.faults()).toEqual([])
})

test('each part of the work has one process, and few change hands when one is gone', () => {
  const ids = ['a', 'b', 'c']
  const all = ids.flatMap((id) => shardsOf(id, ids))
  expect(all.sort((a, b) => a - b)).toEqual(Array.from({ length: ROLLUP_SHARDS }, (_, at) => at))
  expect(ids.every((id) => shardsOf(id, ids).length > 0)).toBe(true)
  const after = shardsOf('a', ['a', 'b'])
  expect(shardsOf('a', ids).every((shard) => after.includes(shard))).toBe(true)
  expect(shardsOf('z', ids)).toEqual([])
})

describe('after ingest was away', () => {
  test.each([
    ['a week', WEEK_MS],
    ['two months', 60 * DAY_MS],
  ])('for %s, hours of before are summed up, and believed only then', async (_, offMs) => {
    const { model, process } = await alone(T, 'keep')
    // Of this hour, of one long ago, and of one that is only to come.
    await store(process, 's', T + 1, 1)
    await store(process, 's', T - 400 * DAY_MS, 2)
    await store(process, 's', T + 23 * HOUR_MS, 3)
    process.kill()
    model.pass(offMs)
    expect(model.lies()).toEqual([])
    const next = await restart(model, process)
    expect(model.faults()).toEqual([])
    expect(next.worker.counts.begun).toBe(0)
    expect(next.worker.counts.windows).toBe(6)
  })

  test('over midnight, a day is summed up whose mark comes in the same turn', async () => {
    const dayMs = startOf(T, DAY_MS)
    const { model, process } = await alone(dayMs + 22 * HOUR_MS + 45 * MINUTE_MS)
    await store(process, 's', model.wallMs, 5)
    process.kill()
    model.pass(2 * HOUR_MS)
    await restart(model, process)
    expect(model.rollup('s', '1h', dayMs + 22 * HOUR_MS)?.n).toBe(1)
    expect(model.rollup('s', '1d', dayMs)?.n).toBe(1)
    expect(model.lies()).toEqual([])
  })

  test('for longer than marks are kept, nothing is believed until all is computed anew', async () => {
    const { model, process } = await alone(T, 'keep')
    await store(process, 's', T + 1, 1)
    await store(process, 's', T - 40 * DAY_MS, 2)
    process.kill()
    model.pass(MARK_TTL_S * 1000 + WEEK_MS)
    expect(model.lies()).toEqual([])
    const next = await restart(model, process)
    expect(model.lies()).toEqual([])
    await settle(model, next)
    expect(model.faults()).toEqual([])
    expect(next.worker.counts.begun).toBe(1)
  })

  test('in the middle of an hour’s work, its day is summed up though its rows have expired', async () => {
    const { model, process } = await alone(T, '7d')
    const timeMs = T - DAY_MS
    await store(process, 's', timeMs, 1)
    model.pass(SLOT_MS + SLOT_GRACE_MS)
    void process.turn()
    while (!model.rollup('s', '1h', timeMs)) await tick()
    process.kill()
    expect(model.rollup('s', '1d', startOf(timeMs, DAY_MS))).toBeUndefined()
    await restart(model, process, 3 * WEEK_MS)
    expect(model.rollup('s', '1d', startOf(timeMs, DAY_MS))?.n).toBe(1)
    expect(model.faults()).toEqual([])
  })
})

describe('after a version whose marks lived for three days', () => {
  /** What such a version left. @param {Model} model  @param {number} doneMs */
  function before(model, doneMs) {
    for (let shard = 0; shard < ROLLUP_SHARDS; shard++) {
      model.rollups.progressBefore.set(shard, doneMs)
    }
    model.rollups.progress.clear()
    for (const marks of model.rollups.rows.marks.values()) {
      for (const mark of marks.values()) mark.expiresMs -= MARK_TTL_S * 1000 - 3 * DAY_MS
    }
  }

  test('marks of a moment ago are kept for longer', async () => {
    const { model, process } = await alone(T, 'keep')
    await store(process, 's', T + 1, 1)
    process.kill()
    before(model, T - 10 * MINUTE_MS)
    const next = await restart(model, process)
    expect(model.lies()).toEqual([])
    const later = await restart(model, next, WEEK_MS)
    expect(model.faults()).toEqual([])
    expect([next.worker.counts.begun, later.worker.counts.begun]).toEqual([0, 0])
  })

  test('marks of days ago may be gone: all is computed anew', async () => {
    const { model, process } = await alone(T, 'keep')
    await store(process, 's', T + 1, 1)
    process.kill()
    before(model, T - 10 * MINUTE_MS)
    const next = await restart(model, process, 4 * DAY_MS)
    expect(model.lies()).toEqual([])
    await settle(model, next)
    expect(model.faults()).toEqual([])
    expect(next.worker.counts.begun).toBe(1)
  })
})

describe('when the clock steps', () => {
  test('back by less than an hour, late rows are counted once it is where it was', async () => {
    const { model, process } = await alone(T)
    const hourMs = T - 5 * HOUR_MS
    await store(process, 's', hourMs, 1)
    await settle(model, process)
    model.step(-50 * MINUTE_MS)
    await store(process, 's', hourMs + 1, 2)
    await settle(model, process)
    expect(model.lies()).toEqual([])
    const next = await restart(model, process)
    await store(next, 's', hourMs + 2, 3)
    await settle(model, next)
    expect(model.lies()).toEqual([])
    model.pass(HOUR_MS)
    await next.turn()
    expect(model.faults()).toEqual([])
    expect(next.worker.counts.begun).toBe(0)
  })

  test('back, a process that starts stores nothing before it knows what was worked off', async () => {
    const { model, process } = await alone(T)
    const hourMs = T - 5 * HOUR_MS
    await store(process, 's', hourMs, 1)
    await settle(model, process)
    process.kill()
    model.step(-50 * MINUTE_MS)
    const next = model.process('b')
    const message = next.publish('s', hourMs + 1, 2)
    for (let ticks = 0; ticks < 50; ticks++) {
      await tick()
      next.land()
    }
    expect(message.isSettled).toBe(false)
    await next.turn()
    while (!message.isSettled) {
      await tick()
      next.land()
    }
    expect(model.lies()).toEqual([])
    model.pass(2 * HOUR_MS)
    await next.turn()
    expect(model.faults()).toEqual([])
  })

  test('back in the middle of the work, that is done again', async () => {
    const { model, process } = await alone(T)
    const hourMs = T - 5 * HOUR_MS
    // Of the first part of the work: no other tells that the clock was ahead.
    const names = Array.from({ length: 1_000 }, (_, at) => `s${at}`)
    const first = names.find((name) => shardOf(sensorId(name)) === 0) ?? ''
    await store(process, first, hourMs, 1)
    model.pass(SLOT_MS + SLOT_GRACE_MS)
    const turn = process.turn()
    // It has read the hour.
    while (!model.rollup(first, '1m', hourMs)) await tick()
    process.stop()
    model.step(-2 * MINUTE_MS)
    const other = model.process('b')
    await other.turn()
    await store(other, first, hourMs + 1, 2)
    process.goOn()
    await turn
    expect(model.lies()).toEqual([])
    model.pass(5 * MINUTE_MS)
    await process.turn()
    expect(model.faults()).toEqual([])
  })

  test('back, a row on its way is marked again by a process that did not look for a while', async () => {
    const { model, process } = await alone(T)
    const message = process.publish('s', T - DAY_MS, 1)
    while (process.requests === 0) await tick()
    // It sends no beat: the others take its part of the work.
    const other = model.process('b')
    for (let minutes = 0; minutes < 10; minutes++) {
      model.pass(MINUTE_MS)
      await other.turn()
    }
    model.step(-30 * MINUTE_MS)
    while (!message.isSettled) {
      await tick()
      process.land()
    }
    expect(model.lies()).toEqual([])
    model.pass(2 * HOUR_MS)
    await other.turn()
    expect(model.faults()).toEqual([])
  })

  test('back by a month, nothing is believed until all is computed anew', async () => {
    const { model, process } = await alone(T, 'keep')
    await store(process, 's', T - HOUR_MS, 1)
    await settle(model, process)
    const late = process.publish('s', T - HOUR_MS + 1, 2)
    await tick()
    model.step(-30 * DAY_MS)
    expect(model.lies()).toEqual([])
    // Its mark lies a month ahead.
    while (!late.isSettled) {
      await tick()
      process.land()
    }
    await store(process, 's', T - 31 * DAY_MS, 3)
    expect(model.lies()).toEqual([])
    await process.turn()
    expect(model.lies()).toEqual([])
    await settle(model, process)
    model.pass(30 * DAY_MS + HOUR_MS)
    await process.turn()
    expect(model.faults()).toEqual([])
  })

  test('forward by a month and back, late rows are counted', async () => {
    const { model, process } = await alone(T, 'keep')
    const hourMs = T - 5 * HOUR_MS
    await store(process, 's', hourMs, 1)
    model.step(30 * DAY_MS)
    await process.turn()
    expect(model.rollup('s', '1h', hourMs)?.n).toBe(1)
    model.step(-30 * DAY_MS)
    await store(process, 's', hourMs + 1, 2)
    expect(model.lies()).toEqual([])
    await process.turn()
    await settle(model, process)
    expect(model.faults()).toEqual([])
    expect(model.rollup('s', '1h', hourMs)?.n).toBe(2)
  })
})

describe('whatever is late, fails, dies, stands still or is off', () => {
  /** How old events are when they are published. */
  const AGES_MS = [0, 0, 0, 5_000, 10 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, DAY_MS, -HOUR_MS]
  /** After how many steps there is a leap in time. */
  const LEAP_STEPS = 400
  const AGES_OF_IMPORTS_MS = [
    3 * DAY_MS,
    20 * DAY_MS,
    400 * DAY_MS,
    11 * 365 * DAY_MS,
    -23 * HOUR_MS,
  ]

  /**
   * @param {object} what
   * @param {number} what.steps
   * @param {number} what.leapMsMax  Longest time in which nothing happens.
   * @param {boolean} what.hasSteps  Whether the clock steps.
   * @param {readonly number[]} what.ages
   */
  async function history({ steps, leapMsMax, hasSteps, ages }) {
    const seed = Number(process.env.SEED ?? randomInt(2 ** 31))
    const fraction = seeded(seed)
    const random = (/** @type {number} */ below) => Math.floor(fraction() * below)
    const className = ['7d', '30d', 'keep'][random(3)]
    const model = new Model({ startMs: T, className })
    let isFailing = true
    model.fails = () => isFailing && random(150) === 0
    const start = () => model.process(`${random(1e9)}`, random(4_000) - 2_000)
    let processes = [start(), start()]
    const check = (/** @type {number} */ step) => {
      expect({ seed, step, lies: model.lies() }).toEqual({ seed, step, lies: [] })
    }
    for (let step = 0; step < steps; step++) {
      const chance = random(100)
      const one = processes[random(processes.length)]
      if (chance < 35) {
        const timeMs = model.wallMs - ages[random(ages.length)] - model.published.length
        if (one && !one.isStill) one.publish(`s${random(3)}`, timeMs, random(1_000))
      } else if (chance < 60) {
        // Some requests take minutes.
        if (one?.requests) one.land(random(one.requests))
      } else if (chance < 75) {
        model.pass(random(4) === 0 ? random(20 * MINUTE_MS) : random(20_000))
      } else if (chance < 92) {
        const turn = one?.turn()
        if (random(2)) await Promise.race([turn, ticks(random(400))])
      } else if (chance < 94) {
        one?.kill(() => random(2) === 0)
        processes = processes.filter(({ isOff }) => !isOff)
      } else if (chance < 97) {
        if (processes.length < 3) processes.push(start())
      } else if (chance === 97) {
        if (one?.isStill) one.goOn()
        else one?.stop()
      } else if (chance === 98) {
        if (hasSteps) await stepClock(model, processes, random)
      }
      if (step % LEAP_STEPS === LEAP_STEPS - 1) model.pass(leapMsMax / 2 + random(leapMsMax / 2))
      await ticks(random(8))
      if (step % 10 === 0) check(step)
    }
    isFailing = false
    for (const one of processes) one.goOn()
    const last = start()
    processes.push(last)
    await finish(model, processes, last)
    expect({ seed, faults: model.faults() }).toEqual({ seed, faults: [] })
    return { seed, model, className }
  }

  /**
   * @param {Model} model
   * @param {Process[]} processes
   * @param {(below: number) => number} random
   */
  async function stepClock(model, processes, random) {
    if (random(2)) return model.step(random(4) === 0 ? random(2 * DAY_MS) : random(2 * HOUR_MS))
    const backMs = random(4) === 0 ? random(30 * DAY_MS) : random(HOUR_MS)
    // Of several steps what counts is how far they lead back in all.
    if (model.peakMs - model.wallMs + backMs < STEP_BACK_MS_MAX) return model.step(-backMs)
    // While rollups lag behind, a long step back is noticed by processes only, a second later.
    const done = [...model.rollups.progress.values()].map(({ doneMs }) => doneMs)
    const isLagging = done.some((doneMs) => doneMs < model.peakMs - 3 * MINUTE_MS)
    if (isLagging || processes.some(({ isStill }) => isStill)) return
    model.step(-backMs)
    // That it was so long is stored before the clock is near to where it was.
    for (let turns = 0; turns < 100 && processes.length > 0; turns++) await processes[0].turn()
  }

  /** @param {number} count */
  async function ticks(count) {
    for (let left = count; left > 0; left--) await tick()
  }

  /** All is stored, the others are gone, and all is worked off. */
  /** @param {Model} model  @param {Process[]} processes  @param {Process} last */
  async function finish(model, processes, last) {
    const isStored = () => processes.every((one) => one.requests === 0)
    for (let quiet = 0; quiet < 20; quiet = isStored() ? quiet + 1 : 0) {
      for (const one of processes) one.land()
      await tick()
    }
    for (const one of processes) if (one !== last) one.kill()
    for (let minute = 0; minute < 5; minute++) {
      await last.turn()
      model.pass(MINUTE_MS)
    }
    // Whatever was marked ahead of its time.
    model.pass(2 * DAY_MS)
    await last.turn()
    model.pass(SLOT_MS + SLOT_GRACE_MS)
    await last.turn()
  }

  test('for minutes, no rollup that is believed is wrong', async () => {
    const { seed, model } = await history({
      steps: 3_000,
      leapMsMax: HOUR_MS,
      hasSteps: false,
      ages: AGES_MS,
    })
    expect({ seed, rows: model.published.length > 100 }).toEqual({ seed, rows: true })
  })

  test('for weeks, and the clock steps, no rollup that is believed is wrong', async () => {
    const ages = [...AGES_MS, ...AGES_OF_IMPORTS_MS]
    const { seed, model } = await history({
      steps: 3_000,
      leapMsMax: 2 * WEEK_MS,
      hasSteps: true,
      ages,
    })
    const weeks = model.steadyMs / WEEK_MS
    expect({ seed, areWeeks: weeks > 6 }).toEqual({ seed, areWeeks: true })
  })
})
