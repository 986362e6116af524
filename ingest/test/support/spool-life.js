// Lives of a spool on a simulated disk: what was put in, what was promised, what came out.
import { setImmediate as turn } from 'node:timers/promises'
import cassandra from 'cassandra-driver'
import pino from 'pino'
import { Message } from '../../src/message/message.js'
import { readRecords } from '../../src/spool/record.js'
import { Spool } from '../../src/spool/spool.js'
import { SimulatedClock, SimulatedDisk } from './simulated-disk.js'

/** @typedef {import('./simulated-disk.js').Random} Random */

const T = Date.UTC(2026, 0, 1)
const BYTES_MAX = 16_384
const DEAD_LETTER_ID = cassandra.types.TimeUuid.fromDate(new Date(T))
const logger = pino({ level: 'silent' })

/** What clients know, over all lives. */
export class World {
  next = 0
  /** Of which it was said that they are durable. @type {Set<number>} */
  promised = new Set()
  /** Of which the spool was told that they are durable in the database. @type {Set<number>} */
  stored = new Set()
}

/** One run of the process. */
export class Life {
  /** In which order they came out. @type {number[]} */
  given = []
  /** What was put in. @type {Set<number>} */
  added = new Set()
  lost = 0
  /** @type {{ messages: number, lost: number } | undefined} */
  found
  clock = new SimulatedClock()
  #settled = 0
  #added = 0
  #failed = /** @type {Message[]} */ ([])

  /** @param {World} world  @param {SimulatedDisk} disk  @param {Random} random */
  constructor(world, disk, random) {
    this.world = world
    this.disk = disk
    this.random = random
    this.spool = new Spool({
      directory: 'd',
      bytesMax: BYTES_MAX,
      logger,
      disk,
      clock: this.clock,
    })
    this.spool.outcome = {
      durable: (messages) => {
        this.#settled += messages.length
        for (const { payload } of messages) world.promised.add(Number(payload.subarray(0, 9)))
      },
      failed: (messages) => {
        this.#settled += messages.length
        this.#failed.push(...messages)
      },
      lost: (messages) => {
        this.lost += messages
      },
    }
  }

  /** Until the process is gone. @param {() => Promise<void>} work */
  async until(work) {
    const off = new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      this.disk.onOff = resolve
      if (this.disk.isOff) resolve()
    })
    await Promise.race([work(), off])
  }

  async open() {
    this.found = await this.spool.open()
  }

  /** Takes out what is there; part of it is never stored. @param {number} storedShare */
  async read(storedShare) {
    for (;;) {
      const taken = await this.spool.next()
      if (!taken) return
      const ids = [...readRecords(taken.payload, taken.version, { settled() {} })].map(
        ({ payload }) => Number(payload.subarray(0, 9)),
      )
      this.given.push(...ids)
      if (this.random() >= storedShare) continue
      for (const id of ids) this.world.stored.add(id)
      await this.spool.finish(taken)
    }
  }

  /** Puts in a group, of old messages that failed and of new ones. */
  async add() {
    const count = 1 + Math.floor(this.random() * 4)
    // As the pipeline does: what could not be spooled is held, and tried again.
    const again = this.#failed.splice(0, this.random() < 0.7 ? 4 : 0)
    const fresh = Array.from({ length: count }, () => this.#message())
    for (const message of [...again, ...fresh]) {
      if (!this.spool.hasRoom(message)) {
        this.clock.ms += 1_000
        continue
      }
      this.#added++
      this.spool.add(message)
    }
    if (this.random() < 0.7) while (this.#settled < this.#added && !this.disk.isOff) await turn()
  }

  #message() {
    const id = this.world.next++
    this.added.add(id)
    const filler = 'x'.repeat(Math.floor(this.random() ** 4 * 1_500))
    return new Message({
      origin: { settled() {} },
      clientId: 'c',
      topic: 't',
      payload: Buffer.from(String(id).padEnd(9) + filler),
      receivedMs: T + id,
      arrivedMs: 0,
      deadLetterId: DEAD_LETTER_ID,
    })
  }
}

/**
 * What a disk gives in a life without faults, and what of it is counted as lost.
 *
 * @param {Map<string, Buffer>} files
 * @param {Random} random
 */
export async function recovered(files, random) {
  const life = new Life(new World(), new SimulatedDisk(random, files), random)
  await life.open()
  const { messages, lost } = life.found ?? { messages: 0, lost: 0 }
  void life.read(1)
  // What was counted at the start is all there is: nothing proves to be damaged later.
  for (let turns = 0; life.given.length < messages - lost && turns < 100_000; turns++) await turn()
  await life.spool.close()
  return { given: life.given, messages, lost, lostLater: life.lost, bytes: life.spool.bytes, life }
}
