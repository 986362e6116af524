// All that a harmful or broken client is known to try, at once, while honest devices publish: they
// are acknowledged in time, nothing of theirs is lost, and no part takes more memory than promised.
import { execFile, execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { constants, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { freePort } from '../support/ports.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack } from '../support/stack.js'
import { stolenMs } from '../support/stolen.js'
import { scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const run = promisify(execFile)
const file = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url))

const KEYS = file('../../common/keys/main.js')
const ATTACKS = file('../support/attacks.js')
const HOST = '127.0.0.1'

/** How long the attacks go on, in milliseconds: longer than a slow body is waited for. */
const ATTACK_MS = 36_000
/** When a key is revoked, and when the engine is killed, after their beginning. */
const REVOKED_AFTER_MS = 3_000
const KILLED_AFTER_MS = 12_000
/** How long a revoked key is believed at most, and how long a busy machine may take besides. */
const BELIEVED_MS_MAX = 10_000
const BUSY_MS = 3_000
/** Pause between two messages of an honest device, in milliseconds. */
const EVERY_MS = 20
const STREAMS_MAX = 32
/** How long a message waits for the database before it is spooled, in milliseconds. */
const SPOOL_AFTER_MS = 300

const PARTS = /** @type {const} */ (['engine', 'ingest', 'api'])

/** What is promised of the resident memory of each part, in bytes. */
function promisedMemory() {
  const page = readFileSync(file('../../docs/operating.md'), 'utf8')
  const rows = page.matchAll(/^\| (engine|ingest|api) \| (\d+) MiB \|/gm)
  return Object.fromEntries([...rows].map(([, part, count]) => [part, Number(count) * 2 ** 20]))
}

/** The most memory that was ever resident, in bytes. @param {number} pid */
function peakMemory(pid) {
  const [, kib] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kib) * 1024
}

/** A device that publishes steadily, and keeps a record of what was acknowledged, and when. */
class Honest {
  published = 0
  /** Of what was acknowledged. @type {number[]} */
  times = []
  disconnects = 0
  /** @type {mqtt.MqttClient | undefined} */
  #client
  #isOver = false
  /** How long each acknowledgement took, in milliseconds that were the machine's. */
  /** @type {number[]} */
  waits = []

  /** @param {string} name  @param {0 | 1 | 2} qos */
  constructor(name, qos) {
    this.name = name
    this.qos = qos
  }

  /** @param {import('../support/stack.js').Stack} stack  @param {string} password */
  async open(stack, password) {
    this.#client = await mqtt.connectAsync(stack.mqttUrl, {
      clientId: this.name,
      username: 'honest',
      password,
      clean: false,
      reconnectPeriod: 100,
    })
    this.#client.on('close', () => {
      this.disconnects += 1
    })
  }

  /** Until it is told to stop, and all is acknowledged; each value is its time. */
  async publish() {
    while (!this.#isOver) {
      this.published += 1
      void this.#publishOne(Date.now())
      await delay(EVERY_MS)
    }
    const isDone = () => this.times.length === this.published
    await until(`all of ${this.name} is acknowledged`, isDone).catch(() => {})
  }

  /** @param {number} t */
  async #publishOne(t) {
    const [beganMs, stolenBeforeMs] = [performance.now(), stolenMs()]
    const payload = JSON.stringify({ t, v: t })
    const topic = `sensors/${this.name}/m`
    // What is never acknowledged is missing in the end.
    await this.#client?.publishAsync(topic, payload, { qos: this.qos }).then(
      () => {
        this.waits.push(performance.now() - beganMs - (stolenMs() - stolenBeforeMs))
        this.times.push(t)
      },
      () => {},
    )
  }

  /** @param {string} topic  @param {string} payload */
  async tell(topic, payload) {
    await this.#client?.publishAsync(topic, payload, { qos: 1 })
  }

  stop() {
    this.#isOver = true
  }

  async close() {
    this.#client?.removeAllListeners('close')
    await this.#client?.endAsync(true)
  }
}

/** @param {number[]} values  @param {number} share */
function quantile(values, share) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * share)]
}

/** A certificate, for TLS. @param {string} directory */
function certify(directory) {
  const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')]
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const files = ['-keyout', key, '-out', cert, '-days', '2']
  execFileSync('openssl', ['req', '-x509', ...curve, ...files, '-subj', '/CN=localhost'], {
    stdio: 'ignore',
  })
  return { cert, key }
}

/** @typedef {import('../support/stack.js').Stack} Stack */

/** @param {Stack} stack  @param {string[]} args */
async function keyCommand(stack, ...args) {
  const where = ['--cql-hosts', stack.cqlHosts, '--cql-keyspace', stack.keyspace]
  const { stdout } = await run(process.execPath, [KEYS, ...where, ...args], { timeout: 30_000 })
  return stdout.trim()
}

/** Starts the platform with keys and TLS. @param {string} directory  For the certificate. */
async function startLocked(directory) {
  const { cert, key } = certify(directory)
  const mqtts = await freePort(HOST)
  const apiEnv = { REQUIRE_KEYS: 'true', STREAMS_MAX: `${STREAMS_MAX}` }
  const stack = await startStack({
    ingestEnv: {
      REQUIRE_KEYS: 'true',
      MQTTS_LISTEN: `${HOST}:${mqtts}`,
      MQTT_TLS_CERT: cert,
      MQTT_TLS_KEY: key,
      SPOOL_AFTER_MS: `${SPOOL_AFTER_MS}`,
    },
    apiEnv,
  })
  const api = await stack.addApi('api-tls', { ...apiEnv, API_TLS_CERT: cert, API_TLS_KEY: key })
  api.part.spawn()
  await until('the api with TLS listens', async () => {
    const socket = connect({ host: HOST, port: Number(new URL(api.url).port) })
    await once(socket, 'connect')
    socket.destroy()
    return true
  })
  const target = {
    host: HOST,
    mqtt: stack.mqtt.port,
    mqtts,
    ingestUrl: stack.ingestUrl,
    apiUrl: stack.apiUrl,
    apiTlsUrl: api.url.replace('http:', 'https:'),
  }
  return { stack, target, tlsPart: api.part }
}

describeWith(missingPrograms(['openssl']), 'while all attacks go on at once', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-attack-'))
  /** @type {Stack} */
  let stack
  /** What the attackers were given. @type {Record<string, any>} */
  let reports
  /** @type {Record<string, number>} */
  const peaks = Object.fromEntries(PARTS.map((name) => [name, 0]))
  const devices = [new Honest('honest', 1), new Honest('exact', 2)]
  /** What the subscriber that was away is given. @type {string[]} */
  const news = []
  let revokedMs = 0
  /** While the engine was away a message waited for it, then for the spool. */
  const away = { fromMs: 0, toMs: 0 }

  beforeAll(async () => {
    const { target, tlsPart, ...started } = await startLocked(directory)
    stack = started.stack
    const create = (/** @type {string} */ name) =>
      keyCommand(stack, 'create', '--name', name, '--scopes', 'read,write')
    const [key, revokedKey, honestKey] = await Promise.all(
      ['attacker', 'revoked', 'honest'].map(create),
    )
    for (const device of devices) await device.open(stack, honestKey)
    const subscribe = async () => {
      const client = mqtt.connect(stack.mqttUrl, {
        clientId: 'subscriber',
        username: 'honest',
        password: honestKey,
        clean: false,
        reconnectPeriod: 0,
      })
      // Some may come with the CONNACK.
      client.on('message', (_topic, payload) => news.push(`${payload}`))
      await new Promise((resolve) => client.once('connect', resolve))
      return client
    }
    const before = await subscribe()
    await before.subscribeAsync('news/#', { qos: 1 })
    await before.endAsync()
    for (let count = 0; count < 20; count += 1) await devices[0].tell('news/all', `${count}`)

    const publishing = devices.map((device) => device.publish())
    const attacker = fork(ATTACKS, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    // They compute elsewhere: what they take of these cores is not what they attack with.
    setPriority(Number(attacker.pid), constants.priority.PRIORITY_LOW)
    const clientIds = ['honest', 'subscriber']
    attacker.send({ target: { ...target, key, revokedKey, clientIds }, ms: ATTACK_MS })
    const reported = once(attacker, 'message')
    const notePeaks = () => {
      for (const name of PARTS.filter((part) => part !== 'engine' || stack.ours)) {
        peaks[name] = Math.max(peaks[name], peakMemory(stack.part(name).pid))
      }
      peaks.api = Math.max(peaks.api, peakMemory(tlsPart.pid))
    }
    const disturbing = (async () => {
      await delay(REVOKED_AFTER_MS)
      await keyCommand(stack, 'revoke', revokedKey.split('_')[1])
      revokedMs = Date.now()
      await delay(KILLED_AFTER_MS - REVOKED_AFTER_MS)
      notePeaks()
      away.fromMs = Date.now() - SPOOL_AFTER_MS
      await stack.databaseAway()
      await delay(1_000)
      await stack.databaseBack()
      away.toMs = Date.now() + SPOOL_AFTER_MS
    })()
    await disturbing
    ;[reports] = await reported
    for (const device of devices) device.stop()
    await Promise.all(publishing)
    await stack.emptied().catch(() => {})
    notePeaks()
    const after = await subscribe()
    await until('the news are there', () => news.length >= 20).catch(() => {})
    await after.endAsync()
  })
  afterAll(async () => {
    await Promise.all(devices.map((device) => device.close()))
    await stack?.end()
    rmSync(directory, { recursive: true, force: true })
  })

  test('an honest device is acknowledged within a second, and is not thrown out', () => {
    for (const { name, published, times, waits, disconnects } of devices) {
      const served = waits.filter((_, at) => times[at] < away.fromMs || times[at] > away.toMs)
      const isEnough = waits.length > ATTACK_MS / EVERY_MS / 4 && waits.length === published
      expect({ name, isEnough, disconnects }).toEqual({ name, isEnough: true, disconnects: 0 })
      expect(quantile(served, 0.99)).toBeLessThan(1_000)
    }
  })

  test('nothing of it is lost, and nothing is there that it did not publish', async () => {
    const rows = await scanMeasurements(await stack.client(), stack.keyspace)
    for (const { name, times } of devices) {
      const stored = rows.filter((row) => row.sensorId === sensorId(name)).map(({ value }) => value)
      expect(stored.sort()).toEqual([...times].sort())
    }
  })

  test('nobody hears what is for another, who hears all of it', () => {
    expect(reports.takeSessions).toMatchObject({ heard: 0 })
    expect(news).toEqual(Array.from({ length: 20 }, (_, count) => `${count}`))
  })

  test('a key that was revoked works for ten seconds at most', () => {
    const workedMs = reports.useRevokedKey.closedMs - revokedMs
    expect(reports.useRevokedKey.closedMs).toBeGreaterThan(0)
    expect(workedMs).toBeLessThan(BELIEVED_MS_MAX + BUSY_MS)
  })

  test('handshakes and bodies that do not go on are closed, and streams are limited', () => {
    expect(reports.startHandshakes).toMatchObject({ openOf: { mqtts: 0, api: 0 } })
    expect(reports.sendSlowBodies).toMatchObject({ open: 0 })
    expect(reports.openStreams.openMax).toBeLessThanOrEqual(STREAMS_MAX)
    expect(reports.openStreams.openMax).toBeGreaterThan(0)
  })

  test('what is nested too deeply is refused as such', () => {
    expect(reports.nestJson).toMatchObject({ statuses: [400, 400] })
  })

  test.each(PARTS)('%s takes no more memory than is promised', (name) => {
    expect(peaks[name]).toBeLessThan(promisedMemory()[name])
  })

  test('no attack is broken off by an error of its own', () => {
    const errors = Object.entries(reports).filter(([, { error }]) => error !== undefined)
    expect(errors).toEqual([])
    stack.check()
  })
})
