// Nodes of a real Apache Cassandra, each on a loopback address of its own.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isFree } from './ports.js'
import { until } from './until.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SCRIPTS = join(ROOT, 'test/cassandra')
const CQL_PORT = 9042
const STORAGE_PORT = 7000
/** Characters of a node's log that an error shows. */
const LOG_TAIL = 3000
/** Last parts of the addresses that are tried. */
const HOST_MIN = 20
const HOST_MAX = 250
/** First of them for a cluster: its tests and those of one node may run side by side. */
const CLUSTER_HOST_MIN = 120

/** Programs without which none can be started. */
export const CASSANDRA_PROGRAMS = ['java', 'mvn']

export class CassandraNode {
  #env

  /**
   * @param {object} parts
   * @param {string} parts.directory  Of its data.
   * @param {string} parts.host
   * @param {Record<string, string>} [parts.env]  What test/cassandra/start.sh reads.
   */
  constructor({ directory, host, env = {} }) {
    this.directory = directory
    this.host = host
    this.address = `${host}:${CQL_PORT}`
    // Without the JVM's second compiler. Of a node that lives for minutes it takes nearly half of
    // the processor time. And with it, though only after tens of thousands of statements, some rows
    // came without a value, or with that of another column: a fresh node agreed with us.
    this.#env = { HEAP: '768M', JVM_EXTRA: '-XX:TieredStopAtLevel=1', ...env }
  }

  /** Resolves once it takes connections. The first start of all fetches Cassandra's jars. */
  async start() {
    const start = join(SCRIPTS, 'start.sh')
    const { code, output } = await run('bash', [start, this.directory, this.host], this.#env)
    if (code !== 0) throw new Error(`Cassandra did not start:\n${output}${this.logTail()}`)
  }

  /** Ends it as a power cut would; resolves once it is gone. */
  async kill9() {
    const pid = Number(readFileSync(join(this.directory, 'pid'), 'utf8'))
    process.kill(pid, 'SIGKILL')
    await until(`${this.host} is gone`, () => isFree(this.host, CQL_PORT))
  }

  async stop() {
    await run('bash', [join(SCRIPTS, 'stop.sh'), this.directory])
  }

  /** The end of its log. */
  logTail() {
    try {
      const log = readFileSync(join(this.directory, 'logs/system.log'), 'utf8')
      return `\n${this.host}:\n${log.slice(-LOG_TAIL)}`
    } catch {
      return `\n${this.host} has no log\n`
    }
  }
}

/**
 * Loopback addresses on which nobody uses Cassandra's ports.
 *
 * @param {number} count
 */
export async function freeHosts(count) {
  /** @type {string[]} */
  const hosts = []
  const first = count > 1 ? CLUSTER_HOST_MIN : HOST_MIN
  for (let last = first; last < HOST_MAX && hosts.length < count; last++) {
    const host = `127.0.0.${last}`
    if ((await isFree(host, CQL_PORT)) && (await isFree(host, STORAGE_PORT))) hosts.push(host)
  }
  if (hosts.length < count) throw new Error('no loopback address is free for Cassandra')
  return hosts
}

/**
 * Runs a command to its end.
 *
 * @param {string} command
 * @param {string[]} args
 * @param {Record<string, string>} [env]  Added to the environment.
 * @returns {Promise<{ code: number | null, output: string }>}
 */
export function run(command, args, env = {}) {
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
