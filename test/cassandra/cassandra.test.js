// The same end-to-end tests against a real Apache Cassandra: what our services promise must not
// rest on something that only our engine does.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CASSANDRA_PROGRAMS, CassandraNode, freeHosts, run } from '../support/cassandra.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
// In one file, and so one after the other: four nodes at once starve a small machine.
import './three.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** The first start fetches Cassandra's jars. */
const START_MS_MAX = 300_000
const TESTS_MS_MAX = 1_200_000
/** Tests in which the answers of the database matter, not those of what stands in front of it. */
const OF_THE_DATABASE =
  'e2e/(api|http|outage|pipeline|proof|restart|rollup|security|spool|storm|year)\\.test'

describeWith(missingPrograms(CASSANDRA_PROGRAMS), 'Apache Cassandra', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-cassandra-'))
  /** @type {CassandraNode} */
  let node

  beforeAll(async () => {
    const [host] = await freeHosts(1)
    node = new CassandraNode({ directory, host })
    await node.start()
  }, START_MS_MAX)

  afterAll(async () => {
    await node?.stop()
    rmSync(directory, { recursive: true, force: true })
  })

  test(
    'passes the same end-to-end tests',
    async () => {
      const jest = join(ROOT, 'node_modules/jest/bin/jest.js')
      const { code, output } = await run(
        process.execPath,
        [
          ...[jest, '--config', join(ROOT, 'jest.config.js'), '--selectProjects', 'e2e'],
          ...['--runInBand', '--testPathPatterns', OF_THE_DATABASE],
        ],
        { CQL_HOSTS: node.address },
      )
      if (code !== 0) throw new Error(`against Cassandra on ${node.address}:\n${output}`)
    },
    TESTS_MS_MAX,
  )
})
