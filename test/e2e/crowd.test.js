// Ten thousand devices at once, each with its own connection and sensor, while the engine and then
// ingest are killed. Each device keeps the record of what it published; all of it is stored once.
import { readFileSync } from 'node:fs'
import { unaccounted } from '../support/accounts.js'
import { openLoad } from '../support/load.js'
import { describeWith } from '../support/requirement.js'
import { startStack } from '../support/stack.js'
import { scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const DEVICES = 10_000
const PER_SECOND = 2_000
/** Of one process: a socket for each device, and some more. */
const FILES_MAX_MIN = DEVICES + 1_000
/**
 * Devices that lost their broker do not come back in the same moment, in milliseconds: what is too
 * much for the kernel's queue waits for its retransmissions.
 */
const RECONNECT_MS_MAX = 12_000
/** How long a busy machine may take until all are back, in milliseconds. */
const BACK_MS_MAX = 150_000

/** What is missing for so many connections: Node raises the soft limit to the hard one. */
function missingFiles() {
  const [, hard] =
    /^Max open files +\S+ +(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  const isEnough = hard === 'unlimited' || Number(hard) >= FILES_MAX_MIN
  return isEnough ? [] : [`${FILES_MAX_MIN} open files (ulimit -Hn)`]
}

describeWith(missingFiles(), `${DEVICES} connections`, () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {Awaited<ReturnType<typeof openLoad>>} */
  let load

  beforeAll(async () => {
    stack = await startStack({ parts: ['engine', 'ingest'] })
    load = await openLoad(
      { ...stack.mqtt, keepAliveS: 60, reconnectMsMax: RECONNECT_MS_MAX },
      { name: 'crowd', devices: DEVICES, perSecond: PER_SECOND },
    )
  })
  afterAll(async () => {
    await load?.close()
    await stack?.end()
  })

  test('are taken, and each device is heard', async () => {
    expect(await stack.stats()).toMatchObject({ connections: DEVICES })
    load.start()
    await load.acknowledges(DEVICES)
    await until('each was acknowledged', () =>
      load.publishers.every(({ acknowledged }) => acknowledged > 0),
    )
  })

  test('stay while the engine is killed and started', async () => {
    await stack.databaseAway()
    await load.acknowledges(2 * PER_SECOND)
    await stack.databaseBack()
    await load.acknowledges(2 * PER_SECOND)
    expect(await stack.stats()).toMatchObject({ connections: DEVICES })
    expect(load.publishers.filter(({ disconnects }) => disconnects > 0)).toEqual([])
  })

  test('come back when ingest is killed and started', async () => {
    await stack.part('ingest').kill9()
    await stack.part('ingest').start()
    await until('all are back', () => load.publishers.every(({ connected }) => connected), {
      deadlineMs: BACK_MS_MAX,
    })
    await load.acknowledges(2 * PER_SECOND)
    // What a device gave up while it waited is taken after those that wait, and found to be over.
    const isNone = async () => (await stack.stats()).connections === DEVICES
    await until('no other connection is left', isNone)
    expect(load.publishers.filter(({ disconnects }) => disconnects > 1)).toEqual([])
  }, 240_000)

  test('have published nothing that is not stored once', async () => {
    await load.finish()
    await stack.emptied()
    const client = await stack.client()
    const rows = await until('the database answers', () => scanMeasurements(client, stack.keyspace))
    expect(load.compare(rows)).toEqual(load.clean)
    expect(unaccounted(await stack.stats())).toBe(0)
  })
})
