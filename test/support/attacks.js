// What clients do that mean harm, or are broken: each attack is a function that goes on until it is
// told to stop, or has offered several times what is allowed, and then reports what it was given.
// As a program it runs all of them at once, in a process of its own, so that it does not slow down
// the honest devices of a test. It is about what clients make a part hold, not about load.
import { once, setMaxListeners } from 'node:events'
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { connect as connectSocket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

/**
 * What is attacked.
 *
 * @typedef {object} Target
 * @property {string} host
 * @property {number} mqtt  Port.
 * @property {number} mqtts  Port.
 * @property {string} ingestUrl
 * @property {string} apiUrl
 * @property {string} apiTlsUrl
 * @property {string} key  Of the attacker: it may read and write.
 * @property {string} revokedKey  It is revoked during the attack.
 * @property {string[]} clientIds  Of honest clients.
 */

/** @typedef {(target: Target, signal: AbortSignal) => Promise<Record<string, any>>} Attack */

const PACKET_BYTES_MAX = 256 * 1024
const PACKET = Object.freeze({ connack: 2, publish: 3, puback: 4, pubrec: 5, suback: 9 })

/** A client of MQTT that keeps to no rule. */
class Client {
  /** Packets that came, by type. @type {Map<number, number>} */
  #counts = new Map()
  #rest = Buffer.alloc(0)
  #socket
  isClosed = false
  /** Milliseconds since the Unix epoch. */
  closedMs = 0

  /** @param {Target} target */
  constructor({ host, mqtt }) {
    this.#socket = connectSocket({ host, port: mqtt, noDelay: true })
    this.#socket.on('data', (chunk) => this.#take(chunk))
    this.#socket.on('error', () => {})
    this.#socket.on('close', () => {
      this.isClosed = true
      this.closedMs = Date.now()
    })
  }

  /** @param {number} type  Of {@link PACKET}. */
  count(type) {
    return this.#counts.get(type) ?? 0
  }

  /**
   * @param {string | Buffer} clientId
   * @param {string} key
   * @param {{ clean?: boolean }} [options]
   */
  async connect(clientId, key, { clean = true } = {}) {
    const flags = 0xc0 | (clean ? 2 : 0)
    const protocol = Buffer.from([0, 4, 0x4d, 0x51, 0x54, 0x54, 4, flags, 0, 0])
    await this.send(0x10, [protocol, text(clientId), text('attacker'), text(key)])
    await this.#until(() => this.count(PACKET.connack) > 0)
  }

  /**
   * @param {string | Buffer} topic
   * @param {string | Buffer} payload
   * @param {{ id: number, qos?: number, retain?: boolean }} options
   */
  publish(topic, payload, { id, qos = 1, retain = false }) {
    const header = 0x30 | (qos << 1) | (retain ? 1 : 0)
    return this.send(header, [text(topic), number(id), Buffer.from(payload)])
  }

  /** @param {string[]} filters */
  async subscribe(filters) {
    const before = this.count(PACKET.suback)
    const asked = filters.flatMap((filter) => [text(filter), Buffer.from([1])])
    await this.send(0x82, [number(1), ...asked])
    await this.#until(() => this.count(PACKET.suback) > before)
  }

  /**
   * Sends a packet; resolves when there is room for more.
   *
   * @param {number} header
   * @param {Buffer[]} parts
   */
  async send(header, parts) {
    const body = Buffer.concat(parts)
    await this.write(Buffer.concat([Buffer.from([header]), lengthOf(body), body]))
  }

  /** @param {Buffer} bytes */
  async write(bytes) {
    if (this.isClosed || this.#socket.write(bytes)) return
    await Promise.race([once(this.#socket, 'drain'), once(this.#socket, 'close')]).catch(() => {})
  }

  /**
   * Resolves when no more than some of what was sent is unanswered, or it was closed.
   *
   * @param {number} type  Of the answers.
   * @param {number} sent
   */
  answered(type, sent, inFlightMax = 0) {
    return this.#until(() => this.count(type) >= sent - inFlightMax)
  }

  leave() {
    this.#socket.end(Buffer.from([0xe0, 0]))
  }

  end() {
    this.#socket.destroy()
  }

  /** @param {() => boolean} isSo */
  async #until(isSo) {
    while (!isSo() && !this.isClosed && !stopped.aborted) await delay(2)
  }

  /** @param {Buffer} chunk */
  #take(chunk) {
    let bytes = Buffer.concat([this.#rest, chunk])
    for (;;) {
      let length = 0
      let at = 1
      for (let shift = 0; ; shift += 7, at += 1) {
        if (at >= bytes.length) break
        length += (bytes[at] & 0x7f) << shift
        if (bytes[at] < 0x80) break
      }
      const end = at + 1 + length
      if (at >= bytes.length || end > bytes.length) break
      const type = bytes[0] >> 4
      this.#counts.set(type, this.count(type) + 1)
      bytes = bytes.subarray(end)
    }
    this.#rest = bytes
  }
}

/** Aborted when all attacks end. */
let stopped = new AbortController().signal

/** @param {number} value */
function number(value) {
  return Buffer.from([value >> 8, value & 0xff])
}

/** @param {string | Buffer} value */
function text(value) {
  const bytes = Buffer.from(value)
  return Buffer.concat([number(bytes.length), bytes])
}

/** @param {Buffer} body */
function lengthOf(body) {
  const bytes = []
  let rest = body.length
  do {
    bytes.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0))
    rest >>>= 7
  } while (rest > 0)
  return Buffer.from(bytes)
}

/**
 * @param {Target} target
 * @param {string | Buffer} clientId
 * @param {{ clean?: boolean, key?: string }} [options]
 */
async function open(target, clientId, { clean, key = target.key } = {}) {
  const client = new Client(target)
  await client.connect(clientId, key, { clean })
  return client
}

/** Waits, or for the end. @param {number} ms  @param {AbortSignal} signal */
const pause = (ms, signal) => delay(ms, undefined, { signal }).catch(() => {})

/** Connects with the ids of others: it must hear nothing of theirs. @type {Attack} */
async function takeSessions(target, signal) {
  let heard = 0
  while (!signal.aborted) {
    for (const clientId of target.clientIds) {
      const client = await open(target, clientId, { clean: false })
      await pause(300, signal)
      heard += client.count(PACKET.publish)
      client.end()
    }
  }
  return { heard }
}

/** Goes on with a key that is revoked meanwhile: it is closed. @type {Attack} */
async function useRevokedKey(target, signal) {
  const client = await open(target, 'revoked', { key: target.revokedKey })
  for (let id = 1; !signal.aborted && !client.isClosed; id += 1) {
    await client.publish('sensors/revoked/m', `{"t":${Date.now()},"v":${id}}`, { id })
    await pause(100, signal)
  }
  const { closedMs } = client
  client.end()
  return { closedMs }
}

/** A client id of invalid UTF-8, which grows when it is made text. @type {Attack} */
async function sendInvalidClientId(target, signal) {
  let opened = 0
  while (!signal.aborted) {
    const client = await open(target, Buffer.alloc(30_000, 0xff))
    opened += client.count(PACKET.connack)
    for (let id = 1; id <= 10 && !client.isClosed; id += 1) {
      await client.publish('sensors/invalid-id/m', `{"t":${Date.now()},"v":${id}}`, { id })
      await pause(100, signal)
    }
    client.end()
  }
  return { opened }
}

/** Messages of {@link sendOnes} that are sent at once; the others follow one by one. */
const ONES_AT_ONCE = 4

/** Small in bytes, and very many values. @type {Attack} */
async function sendOnes(target, signal) {
  const client = await open(target, 'ones')
  const payload = `[${'1,'.repeat((PACKET_BYTES_MAX - 100) / 2)}1]`
  let id = 0
  while (!signal.aborted && !client.isClosed && id < 12) {
    id += 1
    await client.publish(`sensors/ones-${id % 8}/m`, payload, { id })
    if (id > ONES_AT_ONCE) await pause(2_000, signal)
  }
  await client.answered(PACKET.puback, id)
  const answered = client.count(PACKET.puback)
  client.end()
  return { sent: id, answered }
}

/** Retained messages whose topics are what is long. @type {Attack} */
async function retainLongTopics(target, signal) {
  const client = await open(target, 'retain')
  const long = 't'.repeat(65_000)
  let sent = 0
  while (!signal.aborted && !client.isClosed && sent < 2_000) {
    sent += 1
    const id = (sent % 60_000) + 1
    await client.publish(`attack/${sent}/${long}`, 'x', { id, retain: true })
    await client.answered(PACKET.puback, sent, 20)
    if (sent % 20 === 0) await pause(200, signal)
  }
  client.end()
  return { sent }
}

/** Bodies that are small until they are unpacked. @type {Attack} */
async function postGzip({ ingestUrl, apiUrl, key }, signal) {
  const length = 15 * 1024 * 1024
  const bodies = [
    gzipSync(`[${'1,'.repeat(length / 2)}1]`),
    gzipSync(`{"sensor":"gzip","m":"${'x'.repeat(length)}"}`),
  ]
  /** @type {Record<string, number>} */
  const statuses = {}
  const post = async (/** @type {number} */ index) => {
    const url = index % 2 === 0 ? ingestUrl : apiUrl
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'content-encoding': 'gzip',
    }
    const body = new Uint8Array(bodies[(index >> 1) % bodies.length])
    const status = await fetch(`${url}/v1/measurements`, { method: 'POST', headers, body, signal })
      .then(async (response) => {
        await response.body?.cancel()
        return response.status
      })
      .catch(() => 'broken')
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  for (let round = 0; round < 2 && !signal.aborted; round += 1) {
    await Promise.all(Array.from({ length: 24 }, (_, index) => post(index)))
  }
  return { statuses }
}

/** Sessions that are kept, with much waiting for each. @type {Attack} */
async function fillQueues(target, signal) {
  for (let index = 0; index < 10; index += 1) {
    const away = await open(target, `away-${index}`, { clean: false })
    await away.subscribe(['flood/#'])
    away.leave()
  }
  const client = await open(target, 'flood')
  const payload = Buffer.alloc(200_000, 'q')
  let sent = 0
  while (!signal.aborted && !client.isClosed && sent < 400) {
    sent += 1
    await client.publish(`flood/${sent}`, payload, { id: sent })
    await client.answered(PACKET.puback, sent, 5)
    if (sent % 5 === 0) await pause(250, signal)
  }
  client.end()
  return { sent }
}

/** Many sessions that are kept, with many subscriptions. @type {Attack} */
async function keepSessions(target, signal) {
  let opened = 0
  for (let index = 0; index < 200 && !signal.aborted; index += 1) {
    const client = await open(target, `kept-${index}`, { clean: false })
    const filters = Array.from(
      { length: 25 },
      (_, at) => `kept/${index}/${at}/${'f'.repeat(2_000)}`,
    )
    await client.subscribe(filters)
    opened += client.count(PACKET.suback)
    client.leave()
  }
  return { opened }
}

/** QoS 2 messages whose ids are never released. @type {Attack} */
async function keepPacketIds(target, signal) {
  const clients = await Promise.all(
    Array.from({ length: 16 }, (_, index) => open(target, `unreleased-${index}`)),
  )
  let sent = 0
  await Promise.all(
    clients.map(async (client) => {
      for (let id = 1; id <= 65_535 && !signal.aborted && !client.isClosed; id += 1) {
        await client.publish('attack/q2', '1', { id, qos: 2 })
        sent += 1
        if (id % 100 === 0) await pause(250, signal)
      }
    }),
  )
  await pause(60_000, signal)
  const closed = clients.filter(({ isClosed }) => isClosed).length
  for (const client of clients) client.end()
  return { sent, closed }
}

/** Handshakes of TLS that never go on: they are closed. @type {Attack} */
async function startHandshakes({ host, mqtts, apiTlsUrl }, signal) {
  const ports = { mqtts, api: Number(new URL(apiTlsUrl).port) }
  /** @type {Record<string, number>} */
  const openOf = {}
  await Promise.all(
    Object.entries(ports).map(async ([name, port]) => {
      const sockets = Array.from({ length: 250 }, () => {
        const socket = connectSocket({ host, port })
        socket.on('error', () => {})
        // The beginning of a record that announces a ClientHello.
        socket.write(Buffer.from([0x16, 3, 1, 2, 0]))
        return socket
      })
      await pause(60_000, signal)
      openOf[name] = sockets.filter(({ closed }) => !closed).length
      for (const socket of sockets) socket.destroy()
    }),
  )
  return { openOf }
}

/** How long a body that comes byte by byte goes on if nobody ends it, in milliseconds. */
const SLOW_MS_MAX = 90_000

/** Bodies that come byte by byte: they are closed, or answered. @type {Attack} */
async function sendSlowBodies({ ingestUrl, apiUrl, apiTlsUrl, key }) {
  const untilMs = performance.now() + SLOW_MS_MAX
  const paths = [
    ...Array(40).fill(`${ingestUrl}/v1/measurements`),
    ...Array(40).fill(`${apiUrl}/v1/measurements`),
    ...Array(20).fill(`${apiTlsUrl}/v1/measurements`),
    ...Array(2).fill(`${apiUrl}/v1/import?format=ndjson`),
  ]
  let open = paths.length
  await Promise.all(
    paths.map(async (path) => {
      const headers = {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'content-length': 100_000,
      }
      const options = { method: 'POST', headers, rejectUnauthorized: false }
      const request = path.startsWith('https')
        ? requestHttps(path, options)
        : requestHttp(path, options)
      let isOver = false
      request.on('error', () => {})
      request.on('response', (response) => response.resume())
      request.on('close', () => {
        isOver = true
      })
      while (!isOver && performance.now() < untilMs) {
        request.write('[')
        await delay(1_000)
      }
      if (isOver) open -= 1
      request.destroy()
    }),
  )
  return { open }
}

/** More live streams at once than there may be, again and again. @type {Attack} */
async function openStreams({ apiUrl, key }, signal) {
  const headers = { authorization: `Bearer ${key}` }
  let open = 0
  let openMax = 0
  const listen = async () => {
    const response = await fetch(`${apiUrl}/v1/stream?sensor=honest`, { headers, signal })
    if (response.status !== 200) return
    open += 1
    openMax = Math.max(openMax, open)
    await response.text().catch(() => {})
    open -= 1
  }
  while (!signal.aborted) {
    for (let count = 0; count < 100; count += 1) void listen().catch(() => {})
    await pause(5_000, signal)
  }
  return { openMax }
}

/** JSON that is nested deeply. @type {Attack} */
async function nestJson({ ingestUrl, apiUrl, key }, signal) {
  const body = `${'['.repeat(10_000)}${']'.repeat(10_000)}`
  /** @type {number[]} */
  const statuses = []
  for (const url of [`${ingestUrl}/v1/measurements`, `${apiUrl}/v1/measurements`]) {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    let response
    do {
      response = await fetch(url, { method: 'POST', headers, body, signal })
      await response.body?.cancel()
    } while (response.status === 503) // others have taken all the room there is
    statuses.push(response.status)
  }
  return { statuses }
}

/** @type {Record<string, Attack>} */
const ATTACKS = {
  takeSessions,
  useRevokedKey,
  sendInvalidClientId,
  sendOnes,
  retainLongTopics,
  postGzip,
  fillQueues,
  keepSessions,
  keepPacketIds,
  startHandshakes,
  sendSlowBodies,
  openStreams,
  nestJson,
}

/** Pause between the beginnings of two attacks, in milliseconds. */
const STAGGER_MS = 150

/** Runs attacks at once, and says what each was given. @param {Target} target
 * @param {string[]} names  @param {number} ms */
async function attack(target, names, ms) {
  const signal = AbortSignal.timeout(ms)
  setMaxListeners(0, signal) // every pause of every attack listens to it
  stopped = signal
  const reports = await Promise.all(
    names.map(async (name, index) => {
      // Not all in the same moment: that would be a question of load.
      await pause(index * STAGGER_MS, signal)
      const beganMs = performance.now()
      const report = await ATTACKS[name](target, signal).catch(({ message }) => ({
        error: message,
      }))
      return [name, { ...report, seconds: Math.round((performance.now() - beganMs) / 1_000) }]
    }),
  )
  return Object.fromEntries(reports)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.once('message', async (/** @type {any} */ { target, names, ms }) => {
    const reports = await attack(target, names ?? Object.keys(ATTACKS), ms)
    process.send?.(reports, () => process.exit(0))
  })
}
