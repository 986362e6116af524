// A broker that exists already: what it acknowledged to devices is stored once, whichever of two
// processes that share its messages is killed, and when it is stopped or killed itself.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { unaccounted } from '../support/accounts.js'
import { Ledger } from '../support/ledger.js'
import { openMosquitto } from '../support/mosquitto.js'
import { openPublishers } from '../support/publisher.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { getJson, scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const CLIENTS = 20
const START_MS = Date.UTC(2024, 0, 1)
/** So many values of a device have the same time: its clock is coarse. */
const SAME_TIME = 3

/** @typedef {import('../support/part.js').Part} Part */
/** @typedef {import('../support/mosquitto.js').Mosquitto} Mosquitto */
/** @typedef {import('../support/stack.js').Stack} Stack */

/** @param {Part} part  @param {string} path */
const urlOf = ({ options }, path) => new URL(path, options.healthUrl).href

/** What a process counts. @param {Part} part  @returns {Promise<Record<string, any>>} */
const statsOf = (part) => getJson(urlOf(part, '/stats'))

/** One of its metrics. @param {Part} part  @param {string} name */
async function metric(part, name) {
  const text = await (await fetch(urlOf(part, '/metrics'))).text()
  return Number(new RegExp(`^sandglass_ingest_${name} (.*)$`, 'm').exec(text)?.[1])
}

/** Devices that publish by way of mosquitto to those who store it, and what they published. */
class Round {
  #ledger = new Ledger()
  #published = 0

  /**
   * @param {Stack} stack
   * @param {import('../support/publisher.js').Publisher[]} publishers
   * @param {Part[]} processes  Those that run.
   */
  constructor(stack, publishers, processes) {
    this.stack = stack
    this.publishers = publishers
    this.processes = processes
  }

  get acknowledged() {
    return this.#ledger.acknowledged
  }

  /** Resolves when mosquitto has acknowledged it all. @param {number} count  Of each device. */
  async publish(count) {
    const from = this.#published
    this.#published += count
    await Promise.all(
      this.publishers.flatMap((publisher, client) =>
        Array.from({ length: count }, async (_, index) => {
          const sensor = `device-${client}`
          const timeMs = START_MS + Math.floor((from + index) / SAME_TIME)
          const value = client * 1_000_000 + from + index
          const acknowledged = this.#ledger.note(sensorId(sensor), 'm', timeMs, value)
          await publisher.publish(`sensors/${sensor}/m`, JSON.stringify({ t: timeMs, v: value }))
          acknowledged()
        }),
      ),
    )
  }

  /** Everything that was ever published is stored, once, and nothing is left to acknowledge. */
  async expectStored() {
    const all = CLIENTS * this.#published
    expect(this.#ledger.acknowledged).toBe(all)
    const client = await this.stack.client()
    const found = await until(
      'all is stored',
      async () => {
        const rows = await scanMeasurements(client, this.stack.keyspace)
        return rows.length >= all && this.#ledger.compare(rows)
      },
      { deadlineMs: 30_000, everyMs: 200 },
    )
    expect(found).toMatchObject({ lost: [], doubled: [], foreign: [], counts: { stored: all } })
    await until('all is acknowledged', async () => {
      const left = this.processes.map((part) => metric(part, 'broker_unacknowledged'))
      return (await Promise.all(left)).every((count) => count === 0)
    })
  }

  /** Resolves when every process holds messages that it has not acknowledged. */
  async areHeld() {
    await until('each holds some', async () => {
      const counts = this.processes.map((part) => metric(part, 'broker_unacknowledged'))
      return Math.min(...(await Promise.all(counts))) > 0
    })
  }

  /** Resolves when all of them are, or none is. @param {0 | 1} expected */
  async areConnected(expected) {
    for (const part of this.processes) {
      await until('it says so', async () => (await metric(part, 'broker_connected')) === expected)
    }
  }

  async end() {
    await Promise.all(this.publishers.map((publisher) => publisher.close()))
  }
}

/**
 * The engine, mosquitto, and processes between them.
 *
 * @param {string[]} names  Of the processes.
 * @param {Record<string, string>} ingestEnv
 */
async function open(names, ingestEnv) {
  const stack = await startStack({ parts: ['engine'] })
  const broker = await openMosquitto(stack.directory)
  await broker.start()
  const env = { MQTT_URL: `mqtt://${broker.host}:${broker.port}`, ...UNSPOOLED, ...ingestEnv }
  const processes = await Promise.all(names.map((name) => stack.addIngest(name, env)))
  await Promise.all(processes.map((part) => part.start()))
  const publishers = await openPublishers(CLIENTS, 'device', broker)
  return { stack, broker, round: new Round(stack, publishers, processes) }
}

describeWith(missingPrograms(['mosquitto']), 'two processes that share what mosquitto has', () => {
  /** @type {Stack} */
  let stack
  /** @type {Mosquitto} */
  let broker
  /** @type {Round} */
  let round

  beforeAll(async () => {
    const opened = await open(['one', 'two'], {})
    stack = opened.stack
    broker = opened.broker
    round = opened.round
  })

  afterAll(async () => {
    await round?.end()
    await stack?.end()
    await broker?.stop()
  })

  test('are each given a part of the messages', async () => {
    await round.publish(100)
    await round.expectStored()
    const stats = await Promise.all(round.processes.map(statsOf))
    const received = stats.map((counts) => counts.received)
    expect(Math.min(...received)).toBeGreaterThan(0)
    expect(received[0] + received[1]).toBe(CLIENTS * 100)
  })

  test('one of which is killed again and again while messages arrive', async () => {
    const [one] = round.processes
    const before = round.acknowledged
    const all = round.publish(500)
    for (const share of [0.2, 0.5, 0.8]) {
      const count = before + share * CLIENTS * 500
      await until('some are acknowledged', () => round.acknowledged >= count, { everyMs: 1 })
      await one.kill9()
      await one.start()
    }
    await all
    await round.expectStored()
  })

  test('one of which is killed with what it has not acknowledged, and is given it again', async () => {
    const [one, two] = round.processes
    await stack.databaseAway()
    await round.publish(50)
    await until('all is with them', async () => {
      const counts = round.processes.map((part) => metric(part, 'broker_unacknowledged'))
      return (await Promise.all(counts)).reduce((sum, count) => sum + count) === CLIENTS * 50
    })
    const held = await metric(one, 'broker_unacknowledged')
    await one.kill9()
    await round.publish(20)
    await stack.databaseBack()
    await one.start()
    await round.expectStored()
    expect(held).toBeGreaterThan(0)
    expect(await metric(one, 'broker_redeliveries_total')).toBe(held)
    expect(await metric(two, 'broker_redeliveries_total')).toBe(0)
  })

  test('are given again what they had not acknowledged when mosquitto was stopped', async () => {
    await stack.databaseAway()
    await round.publish(50)
    await round.areHeld()
    await broker.stop()
    await round.areConnected(0)
    await broker.start()
    // Until they have subscribed again mosquitto would give what arrives to nobody.
    await round.areConnected(1)
    await round.publish(50)
    await stack.databaseBack()
    await round.expectStored()
    for (const part of round.processes) {
      expect(await metric(part, 'broker_reconnects_total')).toBeGreaterThan(0)
      expect(await metric(part, 'broker_redeliveries_total')).toBeGreaterThan(0)
      expect(unaccounted(await statsOf(part))).toBe(0)
    }
  })

  test('store nothing twice when mosquitto is killed and gives again what it had forgotten', async () => {
    const counts = () =>
      Promise.all(round.processes.map((part) => metric(part, 'broker_redeliveries_total')))
    await stack.databaseAway()
    await round.publish(50)
    await round.areHeld()
    await broker.save()
    await stack.databaseBack()
    await round.expectStored()
    const before = await counts()
    await broker.kill9()
    await round.areConnected(0)
    await broker.start()
    await round.areConnected(1)
    await round.publish(50)
    await round.expectStored()
    const after = await counts()
    expect(after.map((count, at) => count - before[at]).every((more) => more > 0)).toBe(true)
  })

  test('are given what mosquitto had on disk when it was killed while they were away', async () => {
    for (const part of round.processes) await part.stop()
    // Of each process more than the thousand after which mosquitto drops by default.
    await round.publish(200)
    await broker.save()
    await broker.kill9()
    await broker.start()
    await Promise.all(round.processes.map((part) => part.start()))
    await round.expectStored()
    const redelivered = round.processes.map((part) => metric(part, 'broker_redeliveries_total'))
    expect(await Promise.all(redelivered)).toEqual([0, 0])
  })

  test('one of which leaves for good with what was set aside for it', async () => {
    const [one, two] = round.processes
    await two.stop()
    await round.publish(50)
    two.options.env.MQTT_LEAVE = 'true'
    two.spawn()
    await two.ended()
    expect(two.logTail()).toContain('nothing is left')
    round.processes = [one]
    await round.expectStored()
    const { received } = await statsOf(one)
    await round.publish(50)
    await round.expectStored()
    expect((await statsOf(one)).received - received).toBe(CLIENTS * 50)
  })
})

describeWith(missingPrograms(['mosquitto']), 'a process that shares with nobody', () => {
  test('is given also what came before it was back after mosquitto was', async () => {
    const { stack, broker, round } = await open(['alone'], { MQTT_SHARE: '' })
    const [alone] = round.processes
    const all = round.publish(2_000)
    for (const restart of [1, 2]) {
      const count = 0.3 * restart * CLIENTS * 2_000
      await until('some are acknowledged', () => round.acknowledged >= count, { everyMs: 1 })
      await broker.stop()
      await broker.start()
      const isBack = async () => (await metric(alone, 'broker_reconnects_total')) === restart
      await until('it is back', isBack)
    }
    await all
    await round.expectStored()
    await round.end()
    await stack.end()
    await broker.stop()
  })
})

const TOOLS = ['mosquitto', 'mosquitto_passwd', 'openssl']

describeWith(missingPrograms(TOOLS), 'mosquitto over TLS, with passwords', () => {
  /** @type {Stack} */
  let stack
  /** @type {Mosquitto} */
  let broker
  /** @type {string} */
  let certificate
  /** @type {Record<string, string>} */
  let env

  beforeAll(async () => {
    stack = await startStack({ parts: ['engine'] })
    const file = (/** @type {string} */ name) => join(stack.directory, name)
    certificate = file('cert.pem')
    execFileSync('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-subj', '/CN=sandglass test', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2'],
      ...['-keyout', file('key.pem'), '-out', certificate],
    ])
    execFileSync('mosquitto_passwd', ['-b', '-c', file('passwords'), 'sandglass', 'secret'])
    broker = await openMosquitto(stack.directory, [
      ...[`certfile ${certificate}`, `keyfile ${file('key.pem')}`],
      ...['allow_anonymous false', `password_file ${file('passwords')}`],
    ])
    await broker.start()
    env = { MQTT_URL: `mqtts://${broker.host}:${broker.port}`, MQTT_USERNAME: 'sandglass' }
  })

  afterAll(async () => {
    await stack?.end()
    await broker?.stop()
  })

  test('gives a process of its own what is retained with a time, and what is live', async () => {
    const client = await mqtt.connectAsync(env.MQTT_URL, {
      ca: readFileSync(certificate),
      username: 'sandglass',
      password: 'secret',
    })
    /** @param {string} topic  @param {string} payload  @param {boolean} retain */
    const say = (topic, payload, retain) => client.publishAsync(topic, payload, { qos: 1, retain })
    await say('sensors/kept/timed', `{"t":${START_MS},"v":1}`, true)
    await say('sensors/kept/timeless', '2', true)
    const part = await stack.addIngest('alone', {
      ...env,
      MQTT_PASSWORD: 'secret',
      MQTT_CA: certificate,
      MQTT_SHARE: '',
    })
    await part.start()
    await until('one is left out', () => metric(part, 'broker_retained_ignored_total'))
    await say('sensors/live/timeless', '3', true)
    await client.publishAsync('sensors/live/fast', '4', { qos: 0 })
    await client.publishAsync('sensors/live/twice', `{"t":${START_MS},"v":5}`, { qos: 2 })
    const database = await stack.client()
    const values = await until('four are stored', async () => {
      const rows = await scanMeasurements(database, stack.keyspace)
      return rows.length >= 4 && rows.map(({ value }) => Number(value))
    })
    expect(values.toSorted()).toEqual([1, 3, 4, 5])
    await client.endAsync()
  })

  test.each([
    ['a wrong password', () => ({ MQTT_PASSWORD: 'guessed', MQTT_CA: certificate }), 'authori'],
    ['a certificate that nobody vouches for', () => ({ MQTT_PASSWORD: 'secret' }), 'self'],
  ])(
    '%s: the process says why it is not healthy',
    async (name, more, reason) => {
      const part = await stack.addIngest(name.replaceAll(' ', '-'), { ...env, ...more() })
      part.spawn()
      await until('it answers', async () => {
        const response = await fetch(urlOf(part, '/ready'))
        const { database, broker: state } = await response.json()
        return response.status === 503 && database === 'up' && state === 'down'
      })
      await until('it says why', () => part.logTail().includes(reason))
    },
    60_000,
  )
})
