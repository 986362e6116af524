// mosquitto as docs/operating.md says to configure it, on a port and with a directory of its own.
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Part } from './part.js'
import { freePort } from './ports.js'
import { until } from './until.js'

const HOST = '127.0.0.1'
const CONFIGURATION = fileURLToPath(new URL('../../docker/mosquitto.conf', import.meta.url))

/** Its part of a platform: what is killed and started. */
export class Mosquitto {
  #part
  #database

  /**
   * @param {object} place
   * @param {string} place.directory
   * @param {number} place.port
   * @param {string[]} place.more  Lines of the configuration in the place of `allow_anonymous`.
   */
  constructor({ directory, port, more }) {
    this.host = HOST
    this.port = port
    const data = join(directory, 'mosquitto/')
    mkdirSync(data)
    const file = join(directory, 'mosquitto.conf')
    writeFileSync(file, configuration(data, port, more))
    this.#database = join(data, 'mosquitto.db')
    this.#part = new Part({
      name: 'mosquitto',
      directory,
      command: 'mosquitto',
      args: ['-c', file],
      env: {},
      logFile: join(directory, 'mosquitto.log'),
      healthUrl: '',
    })
  }

  /** Resolves once it takes connections. */
  async start() {
    this.#part.spawn()
    await until('mosquitto listens', async () => {
      this.#part.check()
      return isListening(this.port)
    })
  }

  /** Ends it in order: it writes its sessions to disk. */
  async stop() {
    await this.#part.stop()
  }

  async kill9() {
    await this.#part.kill9()
  }

  /** Has it write its sessions to disk; resolves when they are there. */
  async save() {
    const savedMs = () => statSync(this.#database, { throwIfNoEntry: false })?.mtimeMs ?? 0
    const beforeMs = savedMs()
    process.kill(this.#part.pid, 'SIGUSR1')
    await until('mosquitto has saved', () => savedMs() > beforeMs)
  }
}

/** @param {string} directory  Where it keeps its files.  @param {string[]} [more] */
export async function openMosquitto(directory, more = ['allow_anonymous true']) {
  return new Mosquitto({ directory, port: await freePort(HOST), more })
}

/**
 * The documented configuration, elsewhere.
 *
 * @param {string} data
 * @param {number} port
 * @param {string[]} more
 */
function configuration(data, port, more) {
  // Started by root it would change to a user that may not look into our directory.
  const user = process.getuid?.() === 0 ? ['user root'] : []
  const changes = /** @type {const} */ ([
    ['listener 1883 127.0.0.1', `listener ${port} ${HOST}`],
    ['persistence_location /var/lib/mosquitto/', `persistence_location ${data}`],
    ['allow_anonymous true', [...more, ...user].join('\n')],
  ])
  let text = readFileSync(CONFIGURATION, 'utf8')
  for (const [documented, ours] of changes) {
    if (!text.includes(`\n${documented}\n`)) throw new Error(`there is no line: ${documented}`)
    text = text.replace(`\n${documented}\n`, `\n${ours}\n`)
  }
  return text
}

/** @param {number} port */
function isListening(port) {
  return new Promise((resolve) => {
    const socket = connect(port, HOST)
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
