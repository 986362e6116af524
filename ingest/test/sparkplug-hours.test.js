// Hours of edge nodes of Sparkplug, with restarts of ingest, of the broker and of the edge nodes,
// with messages that are lost, and others that wait in the spool through a restart: each value has
// its name, and is there once; what has no name is a refused field; in the end all are followed.
import { decode } from '@sandglass/common/formats/registry'
import { EdgeNode } from '@sandglass/common/formats/sparkplug/edge-node'
import { MemoryShare } from '@sandglass/common/memory-share'
import { PayloadError } from '@sandglass/common/payload'
import { parseTopics } from '@sandglass/common/topics'
import { Message } from '../src/message/message.js'
import { EdgeNodes } from '../src/sparkplug/edge-nodes.js'
import { readRecords, writeRecord } from '../src/spool/record.js'
import { seeded } from './support/random.js'

const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const HOURS = 3
const HOUR_MS = 3_600_000
const START_MS = Date.UTC(2026, 0, 1)
const TOPICS = parseTopics('spBv1.0/{group}/{type}/{node}[/{device}] in sparkplug-b')
const FORMAT = /** @type {number} */ (TOPICS.formatOf('spBv1.0/g/NDATA/n'))

/** Longest time in which a rebirth that was asked for comes, in milliseconds. */
const ANSWER_MS_MAX = 5_000

/** @typedef {import('@sandglass/common/formats/sparkplug/edge-node').Publication} Publication */

/**
 * An edge node and what lies between it and ingest.
 *
 * @typedef {object} Line
 * @property {EdgeNode} node
 * @property {{ bytesInFlight: number }} connection
 * @property {boolean} isDirect  Whether it is connected to ingest, and not by a broker between.
 * @property {number | undefined} rebirthMs  When it answers.
 * @property {number} seq  Of the last message that arrived.
 * @property {boolean} hasLostBirth  Since then.
 */

/** A world in which time passes as a seed says. */
class World {
  nowMs = START_MS
  asked = 0
  #random
  #edgeNodes
  /** @type {Line[]} */
  #lines
  /** Values by sensor, metric and time, as they were sent. @type {Map<string, number>} */
  #sent = new Map()
  /** The same, as they were stored. @type {Map<string, number>} */
  stored = new Map()
  /** Messages that wait. @type {Buffer[]} */
  #spool = []
  #isSpooling = false
  /** Values that arrived and are stored nowhere, because nobody can tell their names. */
  unnamed = 0
  arrived = 0

  /** @param {number} seed */
  constructor(seed) {
    this.#random = seeded(seed)
    this.#edgeNodes = this.#startEdgeNodes()
    this.#lines = ['a', 'b', 'c', 'd', 'e', 'f'].map((node, at) => ({
      node: new EdgeNode({
        group: 'plant',
        node,
        devices: ['x', 'y'].slice(0, at % 3),
        random: this.#random,
        now: () => ++this.nowMs,
      }),
      connection: { bytesInFlight: 0 },
      isDirect: at % 2 === 0,
      rebirthMs: undefined,
      seq: -1,
      hasLostBirth: false,
    }))
    for (const line of this.#lines) this.#connect(line)
  }

  #startEdgeNodes() {
    const share = new MemoryShare(2 ** 20)
    const edgeNodes = new EdgeNodes({ topics: TOPICS, share, now: () => this.nowMs - START_MS })
    edgeNodes.askRebirth = (topic) => {
      this.asked++
      const line = this.#lines.find(({ node }) => node.commands === topic)
      if (!line) throw new Error(`nobody listens to ${topic}`)
      // A command is lost now and then.
      if (this.#random() < 0.8) line.rebirthMs = this.nowMs + this.#random() * ANSWER_MS_MAX
    }
    return edgeNodes
  }

  /** @param {Line} line */
  #connect(line) {
    line.connection = { bytesInFlight: 0 }
    line.node.will()
    line.rebirthMs = undefined
    this.#publish(line, line.node.births())
  }

  /** @param {Line} line  @param {Publication[]} messages */
  #publish(line, messages) {
    for (const one of messages) {
      for (const { sensor, metric, timeMs, value } of one.values) {
        this.#sent.set(`${sensor} ${metric} ${timeMs}`, value)
      }
      this.#arrive(line, one)
    }
  }

  /** @param {Line} line  @param {Publication} one */
  #arrive(line, one) {
    if (one.type === 'NBIRTH') line.hasLostBirth = false
    line.seq = one.seq
    this.arrived++
    const message = new Message({
      origin: { settled() {} },
      sender: line.connection,
      clientId: 'c',
      topic: one.topic,
      payload: one.payload,
      format: FORMAT,
      qos: 0,
      receivedMs: this.nowMs,
      arrivedMs: this.nowMs,
    })
    this.#edgeNodes.take(message)
    if (this.#isSpooling) this.#spool.push(writeRecord(message))
    else this.#store(message)
    this.#expectAll(one, message)
  }

  /** Each of its values is told by name, or refused. */
  /** @param {Publication} one  @param {Message} message */
  #expectAll({ values }, message) {
    const { measurements, refused } = this.#said(message)
    if (measurements.length + refused.length !== values.length) {
      throw new Error(`of ${values.length} values ${measurements.length} are stored`)
    }
    this.unnamed += refused.length
  }

  /** @param {Message} message */
  #said({ topic, payload, format }) {
    try {
      return decode(format, TOPICS.place(topic, format), payload)
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error
      const refused = error.message.split('; ')
      return { sensor: '', measurements: [], refused }
    }
  }

  /** @param {Message} message */
  #store(message) {
    const { sensor, measurements } = this.#said(message)
    for (const { metric, timeMs, value } of measurements) {
      const key = `${sensor} ${metric} ${timeMs}`
      if (this.#sent.get(key) !== value) throw new Error(`${key} is ${value}, which is not so`)
      this.stored.set(key, Number(value))
    }
  }

  /** Something that goes wrong, and is right again. */
  trouble() {
    const line = this.#lines[Math.floor(this.#random() * this.#lines.length)]
    const kind = Math.floor(this.#random() * 7)
    if (kind === 0) this.#connect(line)
    else if (kind === 1) this.#lose(line)
    else if (kind === 2) this.#restartIngest()
    else if (kind === 3) this.#restartBroker()
    else if (kind === 4) this.#publish(line, line.node.births())
    else if (kind === 5) this.#restartDevice(line)
    else this.#isSpooling = !this.#isSpooling
    if (!this.#isSpooling) this.#drain()
  }

  /** @param {Line} line */
  #restartDevice(line) {
    const { node } = line
    if (!line.node.hasDevices) return
    this.#publish(line, [node.deviceDeath('x'), node.data(), node.deviceBirth('x')])
  }

  /** Messages that never arrive, births among them, on a connection that stays. */
  /** @param {Line} line */
  #lose(line) {
    const count = 1 + Math.floor(this.#random() * 400)
    for (let at = 0; at < count; at++) {
      const isBirth = this.#random() < 0.02
      for (const one of isBirth ? line.node.births() : [line.node.data()]) this.#isLost(line, one)
    }
    // Numbers that fit by chance behind a lost birth tell nobody that it was lost.
    for (;;) {
      const one = line.node.data()
      const fits = one.seq === (line.seq + 1) % 256
      if (fits && line.hasLostBirth) {
        this.#isLost(line, one)
        continue
      }
      // As many as there are numbers were lost: what was said before holds, for no birth was.
      this.#publish(line, [one])
      return
    }
  }

  /** @param {Line} line  @param {Publication} one */
  #isLost(line, one) {
    if (one.type === 'NBIRTH' || one.type === 'DBIRTH') line.hasLostBirth = true
    for (const { sensor, metric, timeMs, value } of one.values) {
      this.#sent.set(`${sensor} ${metric} ${timeMs}`, value)
    }
  }

  /** Killed: what was told is forgotten. The spool stays, and who is connected comes again. */
  #restartIngest() {
    this.#edgeNodes = this.#startEdgeNodes()
    for (const line of this.#lines) {
      if (line.isDirect) this.#connect(line)
      else line.connection = { bytesInFlight: 0 }
    }
    this.#drain()
  }

  /** All connections end; edge nodes come again, those behind it with births. */
  #restartBroker() {
    for (const line of this.#lines) this.#connect(line)
  }

  #drain() {
    this.#isSpooling = false
    const origin = { settled() {} }
    for (const record of this.#spool.splice(0)) {
      for (const message of readRecords(record, 2, origin)) this.#store(message)
    }
  }

  /** @param {number} ms  @param {number} trouble  How likely there is some, each second. */
  pass(ms, trouble) {
    for (const untilMs = this.nowMs + ms; this.nowMs < untilMs; this.nowMs += 1_000) {
      if (this.#random() < trouble) this.trouble()
      for (const line of this.#lines) {
        if (line.rebirthMs !== undefined && this.nowMs >= line.rebirthMs) {
          line.rebirthMs = undefined
          this.#publish(line, line.node.births())
        }
        if (this.#random() < 0.3) this.#publish(line, [line.node.data()])
      }
    }
    this.#drain()
  }

  get online() {
    return this.#edgeNodes.countOf('online')
  }

  get counts() {
    return this.#edgeNodes.counts
  }
}

describe('hours of edge nodes', () => {
  test(`give each value its name, once, whatever is restarted or lost (seed ${SEED})`, () => {
    const world = new World(SEED)
    for (let hour = 0; hour < HOURS; hour++) {
      world.pass(HOUR_MS, 0.01)
      // Then all is well for a while, and every edge node is followed again.
      world.pass(10 * 60_000, 0)
      expect({ SEED, hour, online: world.online }).toEqual({ SEED, hour, online: 6 })
      const { unnamed, asked } = world
      world.pass(60_000, 0)
      expect({ SEED, unnamed: world.unnamed, asked: world.asked }).toEqual({ SEED, unnamed, asked })
    }
    // There was trouble, and there was much besides.
    expect(world.unnamed).toBeGreaterThan(50)
    expect(world.asked).toBeGreaterThan(10)
    expect(world.stored.size).toBeGreaterThan(10_000)
    expect(world.unnamed).toBeLessThan(world.stored.size / 20)
  }, 60_000)
})
