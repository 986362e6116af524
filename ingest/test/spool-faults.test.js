// The spool on a disk that crashes, fails and is damaged, by seeds: SPOOL_SEED is the first, and
// SPOOL_SEEDS says how many.
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { seeded } from './support/random.js'
import { SimulatedDisk } from './support/simulated-disk.js'
import { Life, recovered, World } from './support/spool-life.js'

/** @typedef {import('./support/simulated-disk.js').Random} Random */

const SEEDS = Number(process.env.SPOOL_SEEDS ?? 1_000)
const LIVES = 4
const CODES = ['EMFILE', 'EIO', 'ENOSPC']

/** @param {Random} random  @param {readonly any[]} list */
const oneOf = (random, list) => list[Math.floor(random() * list.length)]

/**
 * What goes wrong in a life: at most one end of the process, and failures by chance.
 *
 * @param {Random} random
 * @param {string} [reliable]  A file that never fails; then nor does it fail to cut one.
 * @returns {SimulatedDisk['fault']}
 */
function faults(random, reliable) {
  const end = Math.floor(random() * 120)
  const share = oneOf(random, [0, 0, 0.03, 0.15])
  return (call, kind, path) => {
    if (call === end) return 'off'
    const isReliable = reliable !== undefined && (path === reliable || kind === 'truncate')
    return !isReliable && random() < share ? oneOf(random, CODES) : undefined
  }
}

/**
 * One run of the process, and the files that it leaves.
 *
 * @param {World} world
 * @param {Map<string, Buffer>} files
 * @param {Random} random
 * @param {import('./support/simulated-disk.js').Crash} crash
 * @param {string} [reliable]
 */
async function live(world, files, random, crash, reliable) {
  const disk = new SimulatedDisk(random, files)
  disk.fault = faults(random, reliable)
  const life = new Life(world, disk, random)
  await life.until(async () => {
    try {
      await life.open()
    } catch {
      // A disk that fails ten times when it is read: ingest does not start, and is started again.
      return
    }
    void life.read(oneOf(random, [0, 0.5, 1]))
    const steps = Math.floor(random() * 15)
    for (let step = 0; step < steps; step++) await life.add()
    if (random() < 0.3) await life.spool.close()
  })
  return { life, files: disk.crash(crash, random) }
}

/** Those that occur more than once. @param {number[]} ids */
const doubled = (ids) => ids.filter((id, index) => ids.indexOf(id) !== index)

describe('whatever a crash or a failure does', () => {
  test(`what was promised comes out once in each life, and nothing is called lost: ${SEEDS} seeds`, async () => {
    const first = Number(process.env.SPOOL_SEED ?? Math.floor(Math.random() * 2 ** 31))
    let promised = 0
    for (let seed = first; seed < first + SEEDS; seed++) {
      const random = seeded(seed)
      const world = new World()
      /** @type {Map<string, Buffer>} */
      let files = new Map()
      for (let at = 0; at < LIVES; at++) {
        const { life, files: left } = await live(
          world,
          files,
          random,
          oneOf(random, ['kill', 'power']),
        )
        expect({ seed, at, doubled: doubled(life.given) }).toEqual({ seed, at, doubled: [] })
        expect({ seed, at, lost: life.lost + (life.found?.lost ?? 0) }).toEqual({
          seed,
          at,
          lost: 0,
        })
        files = left
      }
      const last = await recovered(files, random)
      const given = new Set(last.given)
      const missing = [...world.promised].filter((id) => !given.has(id) && !world.stored.has(id))
      expect({ seed, missing }).toEqual({ seed, missing: [] })
      const { messages, lost, lostLater, bytes } = last
      expect({ seed, messages, lost, lostLater, bytes, doubled: doubled(last.given) }).toEqual({
        seed,
        messages: given.size,
        lost: 0,
        lostLater: 0,
        bytes: 0,
        doubled: [],
      })
      expect({ seed, set: [...files.keys()].filter((name) => name.includes('damaged')) }).toEqual({
        seed,
        set: [],
      })
      promised += world.promised.size
    }
    // Else it shows nothing.
    expect(promised).toBeGreaterThan(SEEDS * 5)
  })
})

/** @typedef {(file: Buffer, random: Random, others: Buffer[]) => Buffer | undefined} Damage */

/** What may happen to a file. @type {Damage[]} */
const DAMAGES = [
  (file, random) => {
    const bad = Buffer.from(file)
    if (bad.length > 0) bad[Math.floor(random() * bad.length)] ^= 1 << Math.floor(random() * 8)
    return bad
  },
  (file, random) => file.subarray(0, Math.floor(random() * file.length)),
  (file, random) => {
    const bad = Buffer.from(file)
    const from = Math.floor((random() * bad.length) / 512) * 512
    return bad.fill(0, from, Math.min(bad.length, from + 512 * Math.ceil(random() * 4)))
  },
  (_file, random, others) => Buffer.from(oneOf(random, others)),
  () => undefined,
]

/** @param {Map<string, Buffer>} files  @param {Random} random */
function damage(files, random) {
  const bad = new Map(files)
  const names = [...files.keys()].filter((name) => /spool-\d{10}$/.test(name))
  const count = Math.ceil(random() * 2)
  for (let index = 0; index < count && names.length > 0; index++) {
    const name = oneOf(random, names)
    const others = names.map((other) => /** @type {Buffer} */ (files.get(other)))
    const file = bad.get(name)
    if (!file) continue
    const after = oneOf(random, DAMAGES)(file, random, others)
    if (after) bad.set(name, after)
    else bad.delete(name)
  }
  return bad
}

describe('whatever is damaged', () => {
  test(`after a process died, exactly what is missing is counted: ${SEEDS} seeds`, async () => {
    const first = Number(process.env.SPOOL_SEED ?? 1)
    let lostInAll = 0
    for (let seed = first; seed < first + SEEDS; seed++) {
      const random = seeded(seed)
      const world = new World()
      /** @type {Map<string, Buffer>} */
      let files = new Map()
      // What HEAD covers: all that was promised, and what an opened spool had.
      const covered = world.promised
      /** @type {number[]} */
      let had = []
      // What looks torn, and may look damaged later.
      let uncounted = 0
      for (let at = 0; at < LIVES; at++) {
        const { life, files: left } = await live(world, files, random, 'kill', 'd/HEAD')
        if (life.found) for (const id of had) covered.add(id)
        const whole = await recovered(left, random)
        const bad = damage(left, random)
        const found = await recovered(bad, random)
        const before = new Set(whole.given)
        // A block that a crash tore may look damaged after a byte of it was changed.
        for (const id of life.added) if (!covered.has(id) && !before.has(id)) uncounted++
        const after = new Set(found.given)
        expect({ seed, at, doubled: doubled(found.given) }).toEqual({ seed, at, doubled: [] })
        // A block whose write failed may come out where those that were put in after it are gone.
        const revived = found.given.filter((id) => !before.has(id))
        const missing = whole.given.filter((id) => !after.has(id))
        // A block that was written, but not promised yet, may look as if it had been torn.
        const promised = missing.filter((id) => covered.has(id))
        const { lost, messages } = found
        const most = missing.length + whole.lost + uncounted
        expect({ seed, at, lost, messages }).toEqual({
          seed,
          at,
          messages: after.size + lost,
          lost: Math.min(Math.max(lost, promised.length - revived.length), most),
        })
        expect({ seed, at, isNoted: found.life.spool.damaged > 0 || lost === 0 }).toEqual({
          seed,
          at,
          isNoted: true,
        })
        lostInAll += lost
        files = bad
        had = found.given
        uncounted += missing.length + whole.lost - lost
      }
    }
    expect(lostInAll).toBeGreaterThan(SEEDS)
  })

  test(`what was counted is not counted again by the next start: ${SEEDS / 10} seeds`, async () => {
    const first = Number(process.env.SPOOL_SEED ?? 1)
    for (let seed = first; seed < first + SEEDS / 10; seed++) {
      const random = seeded(seed)
      const { files } = await live(new World(), new Map(), random, 'kill')
      const bad = damage(files, random)
      const counts = []
      let left = bad
      for (let at = 0; at < 3; at++) {
        const life = new Life(new World(), new SimulatedDisk(random, left), random)
        await life.open()
        // Nothing is stored: what is left is there again.
        void life.read(0)
        for (let turns = 0; turns < 20; turns++) await turn()
        counts.push(life.found)
        left = life.disk.crash(oneOf(random, ['kill', 'power']), random)
      }
      const [now, ...later] = counts
      const rest = (now?.messages ?? 0) - (now?.lost ?? 0)
      expect({ seed, later }).toEqual({
        seed,
        later: [0, 1].map(() => ({ messages: rest, lost: 0 })),
      })
    }
  })
})
