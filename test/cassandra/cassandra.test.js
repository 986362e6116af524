// The same end-to-end tests against a real Apache Cassandra: what our services promise must not
// rest on something that only our engine does.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isFree } from '../support/ports.js'
import { describeWith, missingPrograms } from '../support/requirement.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const HERE = fileURLToPath(new URL('.', import.meta.url))
const CQL_PORT = 9042
const STORAGE_PORT = 7000
/** The first start fetches Cassandra's jars. */
const START_MS_MAX = 300_000
const TESTS_MS_MAX = 600_000

describeWith(missingPrograms(['java', 'mvn']), 'Apache Cassandra', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-cassandra-'))
  let host = ''

  beforeAll(async () => {
    host = await freeHost()
    const { code, output } = await run('bash', [join(HERE, 'start.sh'), directory, host], {
      HEAP: '768M',
    })
    if (code !== 0) throw new Error(`Cassandra did not start:\n${output}${systemLog()}`)
  }, START_MS_MAX)

  afterAll(async () => {
    await run('bash', [join(HERE, 'stop.sh'), directory])
    rmSync(directory, { recursive: true, force: true })
  }, 90_000)

  test(
    'passes the same end-to-end tests',
    async () => {
      const jest = join(ROOT, 'node_modules/jest/bin/jest.js')
      const { code, output } = await run(
        process.execPath,
        [jest, '--config', join(ROOT, 'jest.config.js'), '--selectProjects', 'e2e', '--runInBand'],
        { CQL_HOSTS: `${host}:${CQL_PORT}` },
      )
      if (code !== 0) throw new Error(`against Cassandra on ${host}:\n${output}`)
    },
    TESTS_MS_MAX,
  )

  function systemLog() {
    try {
      return readFileSync(join(directory, 'logs/system.log'), 'utf8').slice(-3000)
    } catch {
      return ''
    }
  }
})

/** A loopback address on which nobody uses Cassandra's ports. */
async function freeHost() {
  for (let last = 20; last < 250; last++) {
    const host = `127.0.0.${last}`
    if ((await isFree(host, CQL_PORT)) && (await isFree(host, STORAGE_PORT))) return host
  }
  throw new Error('no loopback address is free for Cassandra')
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {Record<string, string>} [env]
 * @returns {Promise<{ code: number | null, output: string }>}
 */
function run(command, args, env = {}) {
  const child = spawn(command, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve({ code, output }))
  })
}
