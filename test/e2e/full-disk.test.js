// Disks that are really full: the one of the spool while the database is away, and the one of the
// database under load. What was acknowledged is stored once, the rest is held, and all of it goes
// on when there is space again.
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { unaccounted } from '../support/accounts.js'
import { openLoad } from '../support/load.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { missingForSmallDisk, SmallDisk } from '../support/small-disk.js'
import { startStack } from '../support/stack.js'
import { getJson, scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const DEVICES = 20
const SPOOL_DISK_BYTES = 8 * 2 ** 20
/** Room for a few segments of the commit log, which are 16 MiB each. */
const ENGINE_DISK_BYTES = 144 * 2 ** 20
/** Largest file of a spool whose files must not grow. */
const FILE_BYTES_MAX = 256 * 1024

/** @typedef {import('../support/stack.js').Stack} Stack */

/** @param {Stack} stack */
async function scanned(stack) {
  const client = await stack.client()
  return until('the database answers', () => scanMeasurements(client, stack.keyspace))
}

/** One metric of a part. @param {string} url  @param {string} name */
async function metric(url, name) {
  const text = await (await fetch(`${url}/metrics`)).text()
  const found = new RegExp(`^${name}(?:{[^}]*})? (.*)$`, 'm').exec(text)
  if (!found) throw new Error(`there is no ${name}`)
  return Number(found[1])
}

/**
 * @typedef {object} Disk  What a spool lies on.
 * @property {() => void} fill
 * @property {() => void} free
 * @property {() => Promise<void>} close
 */

/** A small file system. @param {Stack} stack  @returns {Promise<Disk>} */
async function smallDisk(stack) {
  const directory = join(stack.directory, 'spool')
  mkdirSync(directory)
  const disk = new SmallDisk(directory, SPOOL_DISK_BYTES)
  await disk.open()
  disk.give(stack.part('ingest'))
  return disk
}

/** Files that must not grow, which needs no rights. @param {Stack} stack  @returns {Disk} */
function shortFiles(stack) {
  const limit = (/** @type {number | string} */ bytes) =>
    execFileSync('prlimit', [`--pid=${stack.part('ingest').pid}`, `--fsize=${bytes}:`])
  return {
    fill: () => limit(FILE_BYTES_MAX),
    free: () => limit('unlimited'),
    close: async () => {},
  }
}

describe.each([
  { name: 'whose disk is full', missing: missingForSmallDisk(), make: smallDisk },
  { name: 'whose files cannot grow', missing: missingPrograms(['prlimit']), make: shortFiles },
])('a spool $name', ({ missing, make }) => {
  describeWith(missing, 'while the database is away', () => {
    /** @type {Stack} */
    let stack
    /** @type {Disk} */
    let disk
    /** @type {Awaited<ReturnType<typeof openLoad>>} */
    let load

    beforeAll(async () => {
      stack = await startStack({
        parts: ['engine', 'ingest'],
        prepare: async (prepared) => {
          disk = await make(prepared)
        },
      })
      const options = { name: 'spooled', devices: DEVICES, perSecond: 500, filler: 'x'.repeat(500) }
      load = await openLoad({ ...stack.mqtt, inFlightMax: 50 }, options)
    })
    afterAll(async () => {
      await load?.close()
      await stack?.end()
      await disk?.close()
    })

    test('holds what it cannot take, and goes on when there is space', async () => {
      load.start()
      await stack.databaseAway()
      await load.acknowledges(1_000)
      disk.fill()
      await until('it is full', async () => {
        const { held } = await stack.stats()
        const failures = await metric(stack.ingestUrl, 'sandglass_ingest_spool_failures_total')
        return failures > 2 && held > 0
      })
      const full = await stack.stats()
      expect([unaccounted(full), full.lost]).toEqual([0, 0])
      disk.free()
      await load.acknowledges(1_000)
      await load.finish()
    })

    test('has what it acknowledged when ingest is killed while it is full', async () => {
      load.start()
      await load.acknowledges(500)
      disk.fill()
      await until('messages are held', async () => (await stack.stats()).held > 0)
      const { spooled } = await stack.stats()
      await stack.part('ingest').kill9()
      stack.part('ingest').spawn()
      const after = await until('ingest answers', () => stack.stats())
      expect(after.recovered).toBeGreaterThanOrEqual(spooled)
      expect(unaccounted(after)).toBe(0)
      disk.free()
      await load.acknowledges(1_000)
    })

    test('is emptied when the database is back, and each message is stored once', async () => {
      await stack.databaseBack()
      await load.finish()
      await stack.emptied()
      expect(load.compare(await scanned(stack))).toEqual(load.clean)
      const stats = await stack.stats()
      expect([unaccounted(stats), stats.lost, stats.deadLettered]).toEqual([0, 0, 0])
    })
  })
})

describeWith(missingForSmallDisk(), 'the database, whose disk is full', () => {
  /** @type {Stack} */
  let stack
  /** @type {SmallDisk} */
  let disk
  /** @type {Awaited<ReturnType<typeof openLoad>>} */
  let load

  beforeAll(async () => {
    stack = await startStack({
      prepare: async (prepared) => {
        const directory = join(prepared.directory, 'data')
        mkdirSync(directory)
        disk = new SmallDisk(directory, ENGINE_DISK_BYTES)
        await disk.open()
        disk.give(prepared.part('engine'))
      },
    })
    const options = { name: 'full', devices: DEVICES, perSecond: 1_000, filler: 'x'.repeat(3_000) }
    load = await openLoad({ ...stack.mqtt, inFlightMax: 50 }, options)
  })
  afterAll(async () => {
    await load?.close()
    await stack?.end()
    await disk?.close()
  })

  test('refuses writes, is read, and devices are acknowledged by the spool', async () => {
    load.start()
    await load.acknowledges(1_000)
    disk.fill()
    await until('it is out of space', isOutOfSpace, { deadlineMs: 60_000 })
    await until('messages are spooled', async () => (await stack.stats()).spooled > 0)
    await load.acknowledges(2_000)
    const [{ v }] = (await getJson(`${stack.apiUrl}/v1/sensors/full-0/measurements?metric=m`)).items
    expect(typeof v).toBe('number')
    expect(unaccounted(await stack.stats())).toBe(0)
    stack.check()
  })

  test('goes on when there is space, and has each message once', async () => {
    disk.free()
    await load.acknowledges(1_000)
    await load.finish()
    await stack.emptied()
    expect(await isOutOfSpace()).toBe(false)
    expect(load.compare(await scanned(stack))).toEqual(load.clean)
    expect(unaccounted(await stack.stats())).toBe(0)
  })

  test('is killed while it is full, says why it cannot start, and then has all of it', async () => {
    load.start()
    disk.fill()
    await until('it is out of space', isOutOfSpace, { deadlineMs: 60_000 })
    await stack.databaseAway()
    await load.acknowledges(1_000)
    disk.fill()
    const engine = stack.part('engine')
    engine.spawn()
    await expect(engine.ended()).rejects.toThrow('No space left on device')
    disk.free()
    await stack.databaseBack()
    await load.finish()
    await stack.emptied()
    expect(load.compare(await scanned(stack))).toEqual(load.clean)
    expect(unaccounted(await stack.stats())).toBe(0)
  })

  const isOutOfSpace = async () =>
    (await metric(stack.engineUrl, 'sandglass_db_database_out_of_space')) === 1
})
