// The load: a process that publishes at a steady rate and measures how long each PUBACK takes.
//
// Message n is due at n / rate after the start and belongs to connection n modulo the connections.
// Its time runs from when it was due, not from when it was sent: if the platform stalls, everything
// that waits meanwhile counts. It runs in a process of its own, so that its CPU can be told apart.
//
// Parent to child: the options, then `{ go: true }`. Child to parent: `ready`, `begin` (the warm-up
// is over), `back` (all connections are open again), `end` with the result (the last
// acknowledgement has come).
import { connect as connectSocket } from 'node:net'
import { setTimeout as delay, setImmediate as immediate } from 'node:timers/promises'
import * as wire from '../../support/wire.js'
import { Histogram } from './histogram.js'

/**
 * @typedef {object} Load
 * @property {string} host
 * @property {number} port
 * @property {number} connections
 * @property {number} sensors  A multiple of the connections; each connection speaks for its own.
 * @property {number} rate  Messages a second, in all.
 * @property {number} window  Most messages in flight on one connection; what is due then waits.
 * @property {number} warmupS
 * @property {number} seconds
 * @property {string} prefix  Of the sensors' names.
 * @property {number} [windows]  Of so many equal parts of the measured time the percentiles are
 *   given, too.
 * @property {number} [reconnectMs]  A connection that is lost is tried again after this pause, and
 *   what was not acknowledged is sent once more. Without it, it stays lost.
 *
 * @typedef {object} LoadResult
 * @property {number} acknowledged  In the measured time.
 * @property {number} acknowledgedByEnd  The same, with what came late: what CPU was used for.
 * @property {number} acknowledgedInAll  With the warm-up, too.
 * @property {number} unacknowledged  At the end, after some patience.
 * @property {number} seconds  The measured time, as it was.
 * @property {number} ackP50Ms  Of all that was due then, acknowledged then or later.
 * @property {number} ackP99Ms
 * @property {number} ackMaxMs
 * @property {number} sentP99Ms  From when a message was due until it was sent: the part of the time
 *   above that is ours.
 * @property {number} disconnects
 * @property {{ ackP50Ms: number, ackP99Ms: number }[]} windows
 */

/** Most that the thread sleeps between two looks at its sockets, in milliseconds. */
const NAP_MS = 0.2
/** How much a timer may be late, in milliseconds. */
const TIMER_LATE_MS = 3
/** How often it is looked whether all is acknowledged, in milliseconds. */
const DRAIN_LOOK_MS = 2
/** Connections that are opened at a time. */
const CONNECT_AT_ONCE = 100
/** How long the last acknowledgements may take, in milliseconds. */
const DRAIN_MS_MAX = 30_000
/** Bytes that one read of a connection takes; acknowledgements are four each. */
const READ_BYTES = 4096

/** What the thread sleeps on. */
const NEVER_WOKEN = new Int32Array(new SharedArrayBuffer(4))

/** One connection: its socket, and which messages are in flight. */
class Connection {
  /** Packet id → number of the message. @type {Map<number, number>} */
  inFlight = new Map()
  /** Messages that are due and wait for the window: their numbers. @type {number[]} */
  waiting = []
  #id = 0
  #isOpen = false
  /** @type {import('node:net').Socket | undefined} */
  #socket

  /** @param {Generator} generator @param {number} index */
  constructor(generator, index) {
    this.generator = generator
    this.index = index
  }

  /** Resolves when the broker has let it in. @returns {Promise<void>} */
  open() {
    return new Promise((resolve, reject) => this.#connect(resolve, reject))
  }

  /** @param {() => void} opened  @param {(error: Error) => void} failed */
  #connect(opened, failed) {
    const { load } = this.generator
    const reader = new wire.PacketReader()
    /** @type {(type: number, body: number) => void} */
    const take = (type, body) => {
      if (type === wire.TYPE.puback) this.#acknowledged(body)
      else if (type === wire.TYPE.connack && (body & 0xff) === 0) {
        this.#opened()
        opened()
      }
    }
    const onread = {
      buffer: Buffer.alloc(READ_BYTES),
      /** @param {number} count @param {Uint8Array} bytes */
      callback: (count, bytes) => {
        // The buffer is used again for the next read: what the reader keeps must be a copy.
        reader.push(Buffer.from(bytes.subarray(0, count)), take)
        return true
      },
    }
    const { host, port, reconnectMs } = load
    const socket = connectSocket({ host, port, noDelay: true, onread })
    socket.on('error', () => {})
    socket.on('close', () => {
      failed(new Error(`connection ${this.index} was closed`))
      this.#lost()
      if (reconnectMs !== undefined) setTimeout(() => this.#connect(opened, failed), reconnectMs)
    })
    const clientId = `${load.prefix}-${this.index}`
    socket.write(wire.connect({ clientId, keepAliveS: 0, clean: true }))
    this.#socket = socket
  }

  #opened() {
    this.#isOpen = true
    for (const [id, number] of this.inFlight) this.#write(id, number, true)
    this.#sendWaiting()
    this.generator.opened()
  }

  #lost() {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.generator.lost()
  }

  /** @param {number} number  Of the message that is due. */
  due(number) {
    if (this.#hasRoom) this.#send(number)
    else this.waiting.push(number)
  }

  /** @param {(dueMs: number) => void} call  For each message that is not acknowledged. */
  eachUnacknowledged(call) {
    for (const number of this.inFlight.values()) call(this.generator.dueMs(number))
    for (const number of this.waiting) call(this.generator.dueMs(number))
  }

  close() {
    this.#socket?.removeAllListeners('close')
    this.#socket?.end(wire.disconnect())
  }

  get #hasRoom() {
    return this.#isOpen && this.inFlight.size < this.generator.load.window
  }

  #sendWaiting() {
    while (this.waiting.length > 0 && this.#hasRoom) {
      this.#send(/** @type {number} */ (this.waiting.shift()))
    }
  }

  /** @param {number} number */
  #send(number) {
    do this.#id = (this.#id % wire.PACKET_ID_MAX) + 1
    while (this.inFlight.has(this.#id))
    this.inFlight.set(this.#id, number)
    this.#write(this.#id, number, false)
  }

  /** @param {number} id  @param {number} number  @param {boolean} duplicate */
  #write(id, number, duplicate) {
    const { topics, load, epochMs } = this.generator
    const timeMs = epochMs + Math.floor(this.generator.dueMs(number))
    const payload = `{"t":${timeMs},"v":${(number % 10_000) / 100}}`
    this.#socket?.write(wire.publish(topics[number % load.sensors], payload, id, duplicate))
  }

  /** @param {number} id */
  #acknowledged(id) {
    const number = this.inFlight.get(id)
    if (number === undefined) throw new Error(`PUBACK ${id} for nothing in flight`)
    this.inFlight.delete(id)
    this.generator.acknowledged(number)
    this.#sendWaiting()
  }
}

class Generator {
  disconnects = 0
  startMs = 0
  /** What performance.now() is less than the time of day. */
  epochMs = Math.floor(performance.timeOrigin)
  #histogram = new Histogram()
  #untilSent = new Histogram()
  /** What is due from then on is measured, in ms of performance.now(). */
  #fromMs = Infinity
  #open = 0
  /** @type {Histogram[]} */
  #windows
  #countInAll = 0
  #maxMs = 0

  /** @param {Load} load */
  constructor(load) {
    this.load = load
    this.#windows = Array.from({ length: load.windows ?? 0 }, () => new Histogram())
    if (load.sensors % load.connections !== 0) throw new Error('sensors are shared out evenly')
    this.topics = Array.from(
      { length: load.sensors },
      (_, n) => `sensors/${load.prefix}-${n}/value`,
    )
    this.connections = Array.from({ length: load.connections }, (_, n) => new Connection(this, n))
  }

  async open() {
    for (let at = 0; at < this.connections.length; at += CONNECT_AT_ONCE) {
      const some = this.connections.slice(at, at + CONNECT_AT_ONCE)
      await Promise.all(some.map((connection) => connection.open()))
    }
  }

  /** A connection is open. */
  opened() {
    this.#open++
    if (this.#open === this.connections.length && this.disconnects > 0) {
      process.send?.({ state: 'back' })
    }
  }

  /** A connection that was open is lost. */
  lost() {
    this.#open--
    this.disconnects++
  }

  /** When a message is due, in ms of performance.now(). @param {number} number */
  dueMs(number) {
    return this.startMs + (number * 1000) / this.load.rate
  }

  /**
   * @param {() => void} begin  Called when the warm-up is over.
   * @returns {Promise<LoadResult>}
   */
  async run(begin) {
    const { rate, warmupS, seconds } = this.load
    this.startMs = performance.now()
    this.#fromMs = this.startMs + warmupS * 1000
    let number = await this.#publish(0, rate * warmupS)
    begin()
    const beginMs = performance.now()
    const before = this.#countInAll
    number = await this.#publish(number, rate * (warmupS + seconds))
    const measuredS = (performance.now() - beginMs) / 1000
    const acknowledged = this.#countInAll - before
    await this.#drain(number)
    for (const connection of this.connections)
      connection.eachUnacknowledged((due) => this.#took(due))
    return {
      acknowledged,
      acknowledgedByEnd: this.#countInAll - before,
      acknowledgedInAll: this.#countInAll,
      unacknowledged: number - this.#countInAll,
      seconds: measuredS,
      ackP50Ms: this.#histogram.percentile(0.5) / 1000,
      ackP99Ms: this.#histogram.percentile(0.99) / 1000,
      ackMaxMs: this.#maxMs,
      sentP99Ms: this.#untilSent.percentile(0.99) / 1000,
      disconnects: this.disconnects,
      windows: this.#windows.map((histogram) => ({
        ackP50Ms: histogram.percentile(0.5) / 1000,
        ackP99Ms: histogram.percentile(0.99) / 1000,
      })),
    }
  }

  /** @param {number} number  Of a message. */
  acknowledged(number) {
    this.#countInAll++
    this.#took(this.dueMs(number))
  }

  /** Counts how long a message took, if it is measured. @param {number} dueMs */
  #took(dueMs) {
    if (dueMs < this.#fromMs) return
    const tookMs = performance.now() - dueMs
    this.#histogram.add(tookMs * 1000)
    const share = (dueMs - this.#fromMs) / (this.load.seconds * 1000)
    this.#windows[Math.floor(share * this.#windows.length)]?.add(tookMs * 1000)
    if (tookMs > this.#maxMs) this.#maxMs = tookMs
  }

  close() {
    for (const connection of this.connections) connection.close()
  }

  /**
   * Publishes messages `from` to `to`, each when it is due.
   *
   * @param {number} from
   * @param {number} to
   */
  async #publish(from, to) {
    const measuredFrom = this.load.rate * this.load.warmupS
    let number = from
    while (number < to) {
      const due = Math.min(to, ((performance.now() - this.startMs) * this.load.rate) / 1000)
      for (; number < due; number++) {
        this.connections[number % this.connections.length].due(number)
        if (number >= measuredFrom) this.#untilSent.add(this.#lateUs(number))
      }
      await this.#wait(number)
    }
    return number
  }

  /** @param {number} number  Of a message. */
  #lateUs(number) {
    return (performance.now() - this.dueMs(number)) * 1000
  }

  /**
   * Waits until the next message is due, or a nap long. Timers come by the whole millisecond, and a
   * load of bunches is cheaper to take than one that is spread: the thread itself sleeps, and looks
   * at its sockets in between. Where messages are far apart, a timer bridges most of it.
   *
   * @param {number} number  Of the next message.
   */
  async #wait(number) {
    const leftMs = -this.#lateUs(number) / 1000
    if (leftMs > TIMER_LATE_MS) return delay(leftMs - TIMER_LATE_MS)
    if (leftMs > 0) Atomics.wait(NEVER_WOKEN, 0, 0, Math.min(leftMs, NAP_MS))
    return immediate()
  }

  /** @param {number} published */
  async #drain(published) {
    const deadline = performance.now() + DRAIN_MS_MAX
    while (this.#countInAll < published && performance.now() < deadline) await delay(DRAIN_LOOK_MS)
  }
}

// Whoever asked for the load may have failed: nobody kills it then.
process.once('disconnect', () => process.exit(1))

process.once('message', async (load) => {
  try {
    const generator = new Generator(/** @type {Load} */ (load))
    await generator.open()
    process.send?.({ state: 'ready' })
    await new Promise((resolve) => process.once('message', resolve))
    const result = await generator.run(() => process.send?.({ state: 'begin' }))
    process.send?.({ state: 'end', result })
    generator.close()
  } catch (error) {
    process.send?.({ state: 'failed', reason: String(error) })
  }
  // It stays until it is killed: its CPU time is read after its work is done. Without a listener
  // for messages the channel alone would not keep it.
  process.channel?.ref()
})
