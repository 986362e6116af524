// Three nodes of Apache Cassandra as it is released, with a replica of everything on each, and
// LOCAL_QUORUM. One of them goes without warning while devices publish: nothing that was
// acknowledged is lost, and reads go on. Then it comes back, another goes, and the same is found.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import cassandra from 'cassandra-driver'
import { unaccounted } from '../support/accounts.js'
import { CASSANDRA_PROGRAMS, CassandraNode, freeHosts } from '../support/cassandra.js'
import { openLoad } from '../support/load.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack } from '../support/stack.js'
import { getJson, readMeasurements, scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

/** One for each node: evenly around the ring. */
const TOKENS = ['-6148914691236517206', '0', '6148914691236517206']
const DATACENTER = 'datacenter1'
/**
 * How long ingest may take to make the schema, in milliseconds: for each table it waits until three
 * nodes that have just started agree, which takes one to three seconds.
 */
const SCHEMA_MS_MAX = 180_000
const DEVICES = 40
const PER_SECOND = 300
/**
 * How long the nodes may take to notice that one is gone, in milliseconds: about 18 s, by the
 * default threshold of their failure detector, and more on a busy machine. Until then they ask it
 * for reads, and wait in vain; writes need it no more than later.
 */
const NOTICE_MS_MAX = 60_000
/** Reads after that, and how many of them a busy machine may answer too late. */
const READS = 50
const LATE_READS_MAX = 5

describeWith(missingPrograms(CASSANDRA_PROGRAMS), 'three nodes of Apache Cassandra', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-three-'))
  /** @type {CassandraNode[]} */
  let nodes = []
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {Awaited<ReturnType<typeof openLoad>>} */
  let load

  beforeAll(async () => {
    const hosts = await freeHosts(TOKENS.length)
    nodes = hosts.map((host, at) => {
      // Seeds that know their tokens do not wait for each other: they start side by side.
      const env = { SEEDS: hosts.join(','), CLUSTER: 'three', TOKENS: TOKENS[at], HEAP: '1G' }
      return new CassandraNode({ directory: join(directory, host), host, env })
    })
    await Promise.all(nodes.map((node) => node.start()))
    const env = {
      CQL_HOSTS: nodes.map(({ address }) => address).join(','),
      CQL_REPLICATION: JSON.stringify({ class: 'NetworkTopologyStrategy', [DATACENTER]: 3 }),
      CQL_CONSISTENCY: 'localQuorum',
    }
    stack = await startStack({
      parts: ['ingest', 'api'],
      ingestEnv: env,
      apiEnv: env,
      healthyMsMax: SCHEMA_MS_MAX,
    })
    load = await openLoad(stack.mqtt, { name: 'three', devices: DEVICES, perSecond: PER_SECOND })
  }, 480_000)

  afterAll(async () => {
    await load?.close()
    await stack?.end()
    await Promise.all(nodes.map((node) => node.stop()))
    rmSync(directory, { recursive: true, force: true })
  }, 120_000)

  test('one is killed under load: messages are stored as before, and reads go on', async () => {
    await withLogs(async () => {
      load.start()
      await load.acknowledges(5 * PER_SECOND)
      await nodes[0].kill9()
      const before = await stack.stats()
      await load.acknowledges(4 * PER_SECOND)
      await until('the api reads', newest, { deadlineMs: NOTICE_MS_MAX })
      let late = 0
      for (let read = 0; read < READS; read++) {
        await newest().catch(() => late++)
        await load.acknowledges(PER_SECOND / 10)
      }
      expect(late).toBeLessThanOrEqual(LATE_READS_MAX)
      expect((await stack.stats()).stored).toBeGreaterThan(before.stored + 4 * PER_SECOND)
      await load.finish()
      await stack.emptied()
      expect(await stored(nodes[1])).toEqual(load.clean)
      expect(load.publishers.map(({ disconnects }) => disconnects)).toEqual(
        load.publishers.map(() => 0),
      )
      expect(unaccounted(await stack.stats())).toBe(0)
    })
  }, 180_000)

  test('it comes back, another one is killed, and nothing is missing', async () => {
    await withLogs(async () => {
      await nodes[0].start()
      await until('all know it again', () => knownByAll(), { deadlineMs: 60_000 })
      load.start()
      await load.acknowledges(PER_SECOND)
      await nodes[1].kill9()
      await load.acknowledges(PER_SECOND)
      await load.finish()
      await stack.emptied()
      expect(await stored(nodes[2])).toEqual(load.clean)
      // Each coordinator notices for itself that the node is gone: one that reads proves no other.
      const all = await until('the api reads all', readAll, { deadlineMs: NOTICE_MS_MAX })
      expect(load.compare(all)).toEqual(load.clean)
    })
  }, 240_000)

  /** What the api says of one device. */
  const newest = () => getJson(`${stack.apiUrl}/v1/sensors/three-0/latest`)

  /** Whatever the api has of all devices. */
  async function readAll() {
    /** @type {import('../support/ledger.js').Stored[]} */
    const rows = []
    for (let device = 0; device < DEVICES; device++) {
      const { items } = await readMeasurements(stack.apiUrl, `three-${device}`, { metric: 'm' })
      rows.push(...items)
    }
    return rows
  }

  /** A connection of the test's own, by way of one node. @param {CassandraNode} node */
  async function connect({ address }) {
    const client = new cassandra.Client({
      contactPoints: [address],
      localDataCenter: DATACENTER,
      queryOptions: { consistency: cassandra.types.consistencies.localQuorum },
      socketOptions: { readTimeout: 30_000 },
    })
    await client.connect()
    return client
  }

  /** How all that is stored differs from what was published. @param {CassandraNode} node */
  async function stored(node) {
    const client = await connect(node)
    try {
      const scanned = () => scanMeasurements(client, stack.keyspace)
      return load.compare(await until('it is read', scanned, { deadlineMs: NOTICE_MS_MAX }))
    } finally {
      await client.shutdown()
    }
  }

  /** Whether each node has both others as its peers, and the driver has all three. */
  async function knownByAll() {
    for (const node of nodes) {
      const client = await connect(node)
      const hosts = client.hosts.values().filter((host) => host.isUp())
      await client.shutdown()
      if (hosts.length < nodes.length) return false
    }
    return true
  }

  /** Lets an error show what the nodes have to say. @param {() => Promise<void>} body */
  async function withLogs(body) {
    try {
      await body()
    } catch (error) {
      const logs = nodes.map((node) => node.logTail()).join('')
      throw new Error(`${error instanceof Error ? error.message : error}\n${logs}`, {
        cause: error,
      })
    }
  }
})
