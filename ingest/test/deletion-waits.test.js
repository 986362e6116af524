// A deletion deletes all it can while something is away or slow, and says what it waits for.
import { expect, test } from '@jest/globals'
import { HOUR_MS } from '@sandglass/common/rollup'
import { sensorId } from '@sandglass/common/sensor'
import { Deletion } from '../src/deletion/deletion.js'
import { halvesOf } from '../src/deletion/ranges.js'

const T = Date.UTC(2026, 0, 7)

/** @param {{ isWhole: boolean, hours: number }} what */
function build({ isWhole, hours }) {
  const range = { fromMs: T, toMs: T + hours * HOUR_MS }
  /** @type {any} */
  const job = { sensorId: sensorId('s'), id: 'x', askedMs: T, metrics: null, ...range, isWhole }
  const world = {
    job,
    steadyMs: 0,
    isBrokerUp: true,
    /** How long the rollups of an hour take. */
    msPerHour: 0,
    /** @type {string[]} */
    done: [],
    /** Until nothing can be done at once. */
    async run() {
      for (let steps = 0; steps < 3_000; steps++) {
        const backMs = await deletion.step(job)
        if (job.state.phase === 'done' || (job.state.waitsFor === 'broker' && backMs >= 10_000))
          return
        world.steadyMs += backMs
      }
      throw new Error('it has no end')
    },
  }
  const nothing = async () => {}
  /** @type {any} */
  const store = {
    save: async (/** @type {any} */ _job, /** @type {any} */ state) => {
      job.state = structuredClone(state)
    },
    layouts: async () => [{ fromMs: 0, className: '30d', bucketS: 86_400, generation: 0 }],
    left: async () => [],
    extents: async () => [{ metric: 'm', ...range, era: 0, coverEra: 0 }],
    dropRows: async () => void world.done.push('rows'),
    dropRollups: async (
      /** @type {{ name: string }} */ { name },
      /** @type {string} */ _id,
      /** @type {string} */ _metric,
      /** @type {{ fromMs: number, toMs: number }} */ { fromMs, toMs },
    ) => {
      if (name !== '1h') return
      world.steadyMs += (world.msPerHour * (toMs - fromMs)) / HOUR_MS
      world.done.push(`rollups ${(fromMs - T) / HOUR_MS} ${(toMs - T) / HOUR_MS}`)
    },
    ...Object.fromEntries(
      [
        'latest',
        'setEra',
        'setCoverEra',
        'dropLatest',
        'dropCover',
        'showNewest',
        'times',
        'cover',
      ].map((name) => [name, nothing]),
    ),
  }
  const deletion = new Deletion(job, {
    store,
    rollups: /** @type {any} */ ({
      progress: nothing,
      setProgress: nothing,
      markDirty: nothing,
      async *rawHours() {},
    }),
    runner: 'me',
    clock: /** @type {any} */ ({ ready: Promise.resolve(), now: () => T, wallNow: () => T }),
    now: () => world.steadyMs,
    rest: nothing,
    settleMs: 5_000,
    isStopped: () => false,
    counts: { partitions: 0 },
    onEra: () => {},
    belongings: /** @type {any} */ ({
      name: async () => 's',
      drop: async () => void world.done.push('sensor'),
      dropDesired: async () => world.isBrokerUp,
      dropLetters: async () => void world.done.push('letters'),
      dropAlerts: nothing,
      revive: nothing,
    }),
  })
  return world
}

test('without the broker all else is deleted, and the job says what it waits for', async () => {
  const world = build({ isWhole: true, hours: 1 })
  world.isBrokerUp = false
  await world.run()
  expect(new Set(world.done)).toEqual(new Set(['sensor', 'rows', 'rollups 0 1', 'letters']))
  expect(world.job.state).toMatchObject({ phase: 'again', waitsFor: 'broker', goneMs: T })
  world.isBrokerUp = true
  await world.run()
  expect(world.job.state.phase).toBe('done')
  expect(world.job.state.waitsFor).toBeUndefined()
})

test('rollups of a week that take too long at once are deleted in parts', async () => {
  const world = build({ isWhole: false, hours: 168 })
  world.msPerHour = 1_000
  await world.run()
  expect(world.job.state.phase).toBe('done')
  const parts = world.done
    .filter((what) => what.startsWith('rollups'))
    .map((what) => what.split(' '))
  const quick = parts.filter(([, from, to]) => Number(to) - Number(from) <= 15)
  const hours = new Set(
    quick.flatMap(([, from, to]) =>
      Array.from({ length: Number(to) - Number(from) }, (_, n) => Number(from) + n),
    ),
  )
  expect(hours.size).toBe(168)
})

test('one whose rollups of an hour take too long waits, and others have their turn', async () => {
  const world = build({ isWhole: false, hours: 2 })
  world.msPerHour = 16_000
  await expect(world.run()).rejects.toThrow('the database takes too long')
  expect(world.done.length).toBeLessThan(10)
  world.msPerHour = 0
  await world.run()
  expect(world.job.state.phase).toBe('done')
})

test('a range is halved at whole hours, until it lies in one', () => {
  const range = { fromMs: T + 1, toMs: T + 3 * HOUR_MS + 1 }
  expect(halvesOf(range)).toEqual([
    { fromMs: T + 1, toMs: T + 2 * HOUR_MS },
    { fromMs: T + 2 * HOUR_MS, toMs: T + 3 * HOUR_MS + 1 },
  ])
  expect(halvesOf({ fromMs: T + 1, toMs: T + HOUR_MS })).toBeUndefined()
  expect(halvesOf({ fromMs: T + 1, toMs: T + HOUR_MS + 1 })).toHaveLength(2)
})
