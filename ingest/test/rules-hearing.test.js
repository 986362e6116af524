// A device is told as silent only if nothing of it can be on its way, wherever it may be held up.
import { describe, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import { SlotClock } from '../src/rollup/slot-clock.js'
import { Hearing } from '../src/rules/hearing.js'
import { Silences } from '../src/rules/silences.js'
import { RuleWorld } from './support/rule-world.js'

const FOR_S = 60

const TOLD = { receivers: ['duty'] }

/** A process that watches for silence, with a sensor that has just sent. */
async function listening() {
  const world = new RuleWorld()
  world.addRule({ ...TOLD, kind: 'silence', for_s: FOR_S, above: undefined, metric: undefined })
  const worker = await world.start()
  await world.run(worker, 10)
  world.add('s', [[world.nowMs, 1]])
  await world.run(worker, 2)
  return { world, worker }
}

/**
 * @param {RuleWorld} world
 * @param {import('../src/rules/worker.js').RuleWorker} worker
 * @param {number} seconds
 */
async function sending(world, worker, seconds) {
  for (let at = 0; at < seconds; at += 20) {
    world.add('s', [[world.nowMs, 1]])
    await world.run(worker, 20)
  }
}

describe('a device that goes on sending is not told as silent', () => {
  test('while what it sent is in the spool, nor as it comes out', async () => {
    const { world, worker } = await listening()
    const [spool] = world.held.spools
    const awayMs = world.nowMs
    spool.oldestMs = awayMs
    await world.run(worker, 1_800)
    const backMs = world.nowMs
    // Half an hour comes out in five minutes, while more goes in.
    for (let atMs = awayMs; atMs < backMs; atMs += 20_000) {
      world.add('s', [[atMs, 1]], atMs)
      spool.oldestMs = atMs
      await world.run(worker, 3)
    }
    spool.oldestMs = undefined
    world.add('s', [[world.nowMs, 1]])
    await sending(world, worker, 200)
    expect(world.counts).toEqual({})
  })

  test('while what it sent waits in memory', async () => {
    const { world, worker } = await listening()
    const atMs = world.nowMs
    world.held.inFlight.oldestMs = world.steadyMs
    await world.run(worker, 300)
    world.held.inFlight.oldestMs = undefined
    world.add('s', [[atMs, 1]], atMs)
    world.add('s', [[world.nowMs, 1]])
    await sending(world, worker, 100)
    expect(world.counts).toEqual({})
  })

  test('while another process has not stored what it received', async () => {
    const { world, worker } = await listening()
    world.heard.set('other', { storedMs: world.nowMs })
    await world.run(worker, 600)
    world.heard.set('other', { storedMs: world.nowMs })
    await sending(world, worker, 100)
    expect(world.counts).toEqual({})
  })

  test.each([
    [
      'without a broker',
      (/** @type {RuleWorld} */ world, /** @type {boolean} */ isThere) => {
        world.isConnected = isThere
      },
    ],
    [
      'while they wait for an acknowledgement',
      (/** @type {RuleWorld} */ world, /** @type {boolean} */ isThere) => {
        world.held.inFlight.oldestMs = isThere ? undefined : world.steadyMs
      },
    ],
  ])('while nothing could be received: %s, nor afterwards', async (_, make) => {
    const { world, worker } = await listening()
    make(world, false)
    await world.run(worker, 600)
    make(world, true)
    await world.run(worker, 8)
    await sending(world, worker, 100)
    expect(world.counts).toEqual({})
  })

  test('while a broker has vanished without a word, nor when that is noticed', async () => {
    const { world, worker } = await listening()
    world.brokerMs = world.steadyMs
    await world.run(worker, 600)
    world.isConnected = false
    await world.run(worker, 30)
    world.isConnected = true
    world.brokerMs = undefined
    await world.run(worker, 8)
    await sending(world, worker, 100)
    expect(world.counts).toEqual({})
  })

  test('when its measurements are deleted', async () => {
    const { world, worker } = await listening()
    world.samples.set(sensorId('s'), [])
    world.deletedMs.set('s', world.nowMs)
    await world.run(worker, 50)
    expect(world.counts).toEqual({})
    await sending(world, worker, 100)
    expect(world.counts).toEqual({})
  })

  test('while another process could receive nothing', async () => {
    const { world, worker } = await listening()
    const deafMs = world.nowMs
    const away = { storedMs: deafMs, deafMs }
    for (let at = 0; at < 60; at++) {
      world.heard.set('other', { ...away, storedMs: world.nowMs })
      await world.run(worker, 10)
    }
    const absence = { fromMs: deafMs, toMs: world.nowMs + 10_000 }
    world.heard.set('other', { storedMs: world.nowMs, deafMs: undefined, absence })
    await world.run(worker, 40)
    world.heard.delete('other')
    await sending(world, worker, 100)
    expect(world.counts).toEqual({})
  })

  test('after the machine slept', async () => {
    const { world, worker } = await listening()
    world.nowMs += 8 * 3_600_000
    await world.run(worker, 20)
    await sending(world, worker, 100)
    expect(world.counts).toEqual({})
  })

  test('by a restart: who begins again waits for what the others say', async () => {
    const { world } = await listening()
    world.nowMs += 600_000
    world.heard.set('other', { storedMs: world.nowMs - 600_000 })
    const next = await world.start()
    await world.run(next, 600)
    expect(world.counts).toEqual({})
  })
})

describe('a device that is silent is told', () => {
  test('once, when all that was received is stored', async () => {
    const { world, worker } = await listening()
    const lastMs = world.nowMs - 2_000
    const [spool] = world.held.spools
    spool.oldestMs = world.nowMs
    await world.run(worker, 600)
    expect(world.counts).toEqual({})
    spool.oldestMs = lastMs + FOR_S * 1000 - 1_000
    await world.run(worker, 20)
    expect(world.counts).toEqual({})
    spool.oldestMs = lastMs + FOR_S * 1000 + 1_000
    await world.run(worker, 20)
    expect(world.counts).toEqual({ 's fired': 1 })
  })

  test('after the broker is back, less the time in which nothing came', async () => {
    const { world, worker } = await listening()
    world.isConnected = false
    await world.run(worker, 600)
    world.isConnected = true
    await world.run(worker, FOR_S)
    expect(world.counts).toEqual({})
    await world.run(worker, 20)
    expect(world.counts).toEqual({ 's fired': 1 })
  })

  test('although another process is gone that had not stored all', async () => {
    const { world, worker } = await listening()
    world.heard.set('other', { storedMs: world.nowMs })
    await world.run(worker, 600)
    expect(world.counts).toEqual({})
    world.heard.delete('other')
    await world.run(worker, 20)
    expect(world.counts).toEqual({ 's fired': 1 })
  })
})

test('what is wrong for long enough waits for values in the spool that may be right', async () => {
  const world = new RuleWorld()
  world.addRule({ ...TOLD, for_s: FOR_S })
  const worker = await world.start()
  await world.run(worker, 10)
  world.add('s', [[world.nowMs, 91]])
  await world.run(worker, 2)
  const [spool] = world.held.spools
  const rightMs = world.nowMs
  spool.oldestMs = rightMs
  await world.run(worker, 600)
  const { evaluations } = worker.counts
  // It is looked at now and then, not in every turn.
  expect(evaluations).toBeGreaterThan(100)
  expect(evaluations).toBeLessThan(250)
  world.add('s', [[rightMs, 20]], rightMs)
  spool.oldestMs = undefined
  await world.run(worker, 20)
  expect(world.counts).toEqual({})
  world.add('s', [[world.nowMs, 91]])
  await world.run(worker, FOR_S + 5)
  expect(world.counts).toEqual({ 's fired': 1 })
})

describe('that silence cannot be judged', () => {
  test('of all, for a message of long ago is not stored, shows as lag', async () => {
    const { world, worker } = await listening()
    world.held.spools[0].oldestMs = world.nowMs
    await world.run(worker, 600)
    expect(world.counts).toEqual({})
    expect(Math.round(worker.lagS / 60)).toBe(10)
    world.held.spools[0].oldestMs = undefined
    await world.run(worker, 20)
    expect(worker.lagS).toBe(0)
    expect(world.counts).toEqual({ 's fired': 1 })
  })

  test('of one, for it cannot be read, keeps no other waiting', async () => {
    const { world, worker } = await listening()
    world.broken.add('s')
    world.add('t', [[world.nowMs, 1]])
    await world.run(worker, 150)
    expect(world.counts).toEqual({ 't fired': 1 })
    expect(worker.counts.failures).toBeGreaterThan(0)
    expect(worker.counts.failures).toBeLessThan(10)
    expect(world.logged.map(({ msg }) => msg).join()).toContain('it is not known whether sensor')
    world.broken.clear()
    await world.run(worker, 70)
    expect(world.counts).toEqual({ 't fired': 1, 's fired': 1 })
  })

  test('of very many, for the database is away, ends the turn', async () => {
    const { world, worker } = await listening()
    for (let at = 0; at < 100; at += 1) {
      world.add(`s${at}`, [[world.nowMs, 1]])
      world.broken.add(`s${at}`)
    }
    await expect(world.run(worker, 90)).rejects.toThrow('cannot be read')
  })

  test('in a turn, for more are due, leaves nobody out', async () => {
    const sensors = [...Array.from({ length: 3_000 }, (_, at) => `s${at}`), 'dead']
    let nowMs = 1_000_000
    const received = async (/** @type {string} */ id) =>
      new Map([['m', { timeMs: 0, receivedMs: id === 'dead' ? 0 : nowMs - 500 }]])
    const silences = new Silences({ store: { received }, absencesOf: () => [] })
    const rules = [/** @type {any} */ ({ kind: 'silence', for_s: 1 })]
    silences.watch(new Map(sensors.map((id) => [id, rules])), true)
    /** @type {string[]} */
    const silent = []
    for (let turn = 0; turn < 20; turn += 1) {
      nowMs += 500
      for (const due of silences.due(nowMs)) {
        const { isSilent, next } = await silences.look(due, nowMs)
        if (isSilent) silent.push(due.sensorId)
        next()
      }
      silences.watch(new Map(sensors.map((id) => [id, rules])), false)
    }
    expect(silent).toEqual(['dead'])
  })
})

describe('a process', () => {
  const T = 1_767_225_600_000

  /** @param {{ storedMs: number }[]} others */
  function hearingOf(others) {
    const world = { ms: 0, isUp: true, others }
    const clock = new SlotClock({ now: () => T + world.ms, steadyNow: () => world.ms })
    const hearing = new Hearing({
      id: 'this',
      clock,
      held: { inFlight: { oldestMs: undefined }, spools: [] },
      store: {
        tellHeard: async () => {
          if (!world.isUp) throw new Error('the database is away')
        },
        heard: async () =>
          new Map(world.others.map((one, at) => [`${at}`, /** @type {any} */ (one)])),
      },
    })
    return { world, hearing }
  }

  test('knows nothing before it has heard of the others', async () => {
    const { hearing } = hearingOf([])
    expect(hearing.storedMs).toBe(-Infinity)
    await hearing.meet()
    expect(hearing.storedMs).toBe(T)
  })

  test('knows nothing new after the database was away, until all have told again', async () => {
    const { world, hearing } = hearingOf([{ storedMs: T + 1_000_000 }])
    await hearing.meet()
    expect(hearing.heardMs).toBe(T)
    Object.assign(world, { ms: 10_000, isUp: false })
    await expect(hearing.meet()).rejects.toThrow('is away')
    // What the other told has expired meanwhile, and it has much that is not stored.
    Object.assign(world, { ms: 100_000, isUp: true, others: [] })
    await hearing.meet()
    expect(hearing.heardMs).toBe(T)
    Object.assign(world, { ms: 106_000, others: [{ storedMs: T + 9_000 }] })
    await hearing.meet()
    world.ms = 108_000
    hearing.look()
    expect(hearing.heardMs).toBe(T + 9_000)
  })
})
