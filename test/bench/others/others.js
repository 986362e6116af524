// What many put together instead: mosquitto takes the messages, Telegraf subscribes and writes
// them, VictoriaMetrics stores them. They are set up to lose nothing while all of them run, and to
// be fast. mosquitto acknowledges what it has in memory.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Part } from '../../support/part.js'
import { freePort } from '../../support/ports.js'
import { Publisher } from '../../support/publisher.js'
import { missingPrograms } from '../../support/requirement.js'
import { until } from '../../support/until.js'
import { storedSamples } from './victoria.js'

const HOST = '127.0.0.1'

/** The version of Telegraf that is compared with, and the parts of it that are needed. */
const TELEGRAF = '1.36.4'
const TELEGRAF_TAGS = 'custom,inputs.mqtt_consumer,outputs.influxdb,parsers.json'

/** How each program is installed. @type {Record<string, string>} */
const INSTALL = {
  mosquitto: 'apt-get install mosquitto  (it is in /usr/sbin)',
  'victoria-metrics': 'apt-get install victoria-metrics',
  telegraf:
    `GOBIN=/tmp/telegraf nice go install -p 1 -tags ${TELEGRAF_TAGS} ` +
    `-ldflags '-X github.com/influxdata/telegraf/internal.Version=${TELEGRAF}' ` +
    `github.com/influxdata/telegraf/cmd/telegraf@v${TELEGRAF} && PATH=$PATH:/tmp/telegraf`,
}

/** How long Telegraf may take to write what it has, in milliseconds. */
const WRITTEN_MS_MAX = 60_000
/** How often it is asked what is stored, in milliseconds. */
const ROWS_EVERY_MS = 500
/** How long what it has written may stay the same until it is believed to be all. */
const STILL_MS = 5_000

/** What is missing on this machine: each program, and how to install it. */
export function missingOthers() {
  return missingPrograms(Object.keys(INSTALL)).map((name) => `${name}: ${INSTALL[name]}`)
}

/** The programs, with their versions where they tell them. */
export function othersName() {
  return [
    `mosquitto ${versionOf('mosquitto', '-h')}`,
    `Telegraf ${versionOf('telegraf', '--version')}`,
    `VictoriaMetrics ${versionOf('victoria-metrics', '--version')}`,
  ]
    .map((name) => name.trim())
    .join(', ')
}

/** @param {string} program  @param {string} flag */
function versionOf(program, flag) {
  const { stdout, stderr } = spawnSync(program, [flag], { encoding: 'utf8' })
  return /\d+\.\d+\.\d+/.exec(stdout + stderr)?.[0] ?? ''
}

/** Starts all three; resolves once a message comes through to the end. */
export async function startOthers() {
  const others = new Others(await Promise.all([freePort(HOST), freePort(HOST)]))
  try {
    await others.start()
    return others
  } catch (error) {
    await others.end().catch(() => {})
    throw error
  }
}

class Others {
  #directory = mkdtempSync(join(tmpdir(), 'sandglass-others-'))
  #url
  #parts

  /** @param {number[]} ports  Of mosquitto, and of VictoriaMetrics. */
  constructor([mqttPort, httpPort]) {
    this.mqtt = { host: HOST, port: mqttPort }
    this.#url = `http://${HOST}:${httpPort}`
    const data = join(this.#directory, 'data')
    mkdirSync(data)
    this.#parts = [
      this.#part('victoria-metrics', [
        `-storageDataPath=${data}`,
        `-httpListenAddr=${HOST}:${httpPort}`,
        '-search.latencyOffset=0s',
        '-loggerLevel=WARN',
      ]),
      this.#part('mosquitto', ['-c', this.#file('mosquitto.conf', mosquittoConf(mqttPort))]),
      this.#part('telegraf', [
        '--config',
        this.#file('telegraf.conf', telegrafConf(mqttPort, this.#url)),
      ]),
    ]
  }

  get pids() {
    return Object.fromEntries(this.#parts.map(({ name, pid }) => [name, pid]))
  }

  async start() {
    const [victoria, mosquitto, telegraf] = this.#parts
    await victoria.start()
    mosquitto.spawn()
    await until('mosquitto listens', () => {
      mosquitto.check()
      return isListening(this.mqtt.port)
    })
    telegraf.spawn()
    const probe = new Publisher({ ...this.mqtt, clientId: 'probe', clean: true })
    await probe.open()
    await until('a message is stored', async () => {
      telegraf.check()
      await probe.publish('sensors/probe/value', JSON.stringify({ t: Date.now(), v: 0 }))
      return (await storedSamples(this.#url)) > 0
    })
    await probe.close()
    // What else the probe sent is on its way.
    await this.rows(Number.POSITIVE_INFINITY)
  }

  /**
   * How many rows are stored: as many as expected, or as many as come.
   *
   * @param {number} expected
   */
  async rows(expected) {
    const deadlineMs = performance.now() + WRITTEN_MS_MAX
    let stored = await storedSamples(this.#url)
    let stillSinceMs = performance.now()
    while (stored < expected && performance.now() < deadlineMs) {
      await delay(ROWS_EVERY_MS)
      const now = await storedSamples(this.#url)
      if (now !== stored) stillSinceMs = performance.now()
      else if (performance.now() - stillSinceMs > STILL_MS) break
      stored = now
    }
    return stored
  }

  /** Stops all, and removes what they stored. Throws if one had died. */
  async end() {
    /** @type {unknown[]} */
    const errors = []
    for (const part of [...this.#parts].reverse()) {
      try {
        part.check()
        await part.stop()
      } catch (error) {
        errors.push(error)
      }
    }
    rmSync(this.#directory, { recursive: true, force: true })
    if (errors.length > 0) throw errors[0]
  }

  /** @param {string} name  @param {string[]} args */
  #part(name, args) {
    return new Part({
      name,
      command: name,
      args,
      directory: this.#directory,
      env: {},
      logFile: join(this.#directory, `${name}.log`),
      healthUrl: `${this.#url}/health`,
    })
  }

  /** @param {string} name  @param {string} text */
  #file(name, text) {
    const path = join(this.#directory, name)
    writeFileSync(path, text)
    return path
  }
}

/** It keeps for Telegraf what is not taken yet, without a limit. @param {number} port */
function mosquittoConf(port) {
  // Started by root it would change to a user that may not read what is ours.
  const user = process.getuid?.() === 0 ? 'user root' : ''
  return `listener ${port} ${HOST}
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
log_type error
${user}
`
}

/** @param {number} mqttPort  @param {string} url  Of VictoriaMetrics. */
function telegrafConf(mqttPort, url) {
  return `[agent]
  flush_interval = "1s"
  metric_batch_size = 5000
  metric_buffer_limit = 1000000
  omit_hostname = true
  quiet = true

[[inputs.mqtt_consumer]]
  servers = ["tcp://${HOST}:${mqttPort}"]
  topics = ["sensors/#"]
  qos = 1
  client_id = "telegraf"
  persistent_session = true
  max_undelivered_messages = 100000
  name_override = "m"
  data_format = "json"
  json_time_key = "t"
  json_time_format = "unix_ms"

[[outputs.influxdb]]
  urls = ["${url}"]
  database = "bench"
  skip_database_creation = true
  content_encoding = "identity"
`
}

/** @param {number} port */
function isListening(port) {
  return new Promise((resolve) => {
    const socket = connect(port, HOST, () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
