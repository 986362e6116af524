// Spools in a directory of each test's own.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { Message } from '../../src/message/message.js'
import { readRecords } from '../../src/spool/record.js'
import { Spool } from '../../src/spool/spool.js'
import { until } from './ingest.js'
import { SimulatedClock } from './simulated-disk.js'

/** @typedef {import('../../src/spool/disk.js').Disk} Disk */

const T = Date.UTC(2026, 0, 1)
export const origin = { settled: () => {} }

/** @param {number | string} payload  @param {object} [parts] */
export function message(payload, parts = {}) {
  return new Message({
    origin,
    clientId: 'c',
    topic: 'sensors/s/m',
    payload: Buffer.from(`${payload}`),
    receivedMs: T,
    arrivedMs: 0,
    ...parts,
  })
}

/** @param {number} from  @param {number} to */
export const numbers = (from, to) => Array.from({ length: to - from }, (_, index) => from + index)

/** Where the spool is. */
export const at = { directory: '' }
/** @type {Spool[]} */
let opened = []
/** Lines of its log. @type {object[]} */
export const logged = []

beforeEach(() => {
  at.directory = mkdtempSync(join(tmpdir(), 'sandglass-spool-'))
  logged.length = 0
})
afterEach(async () => {
  for (const spool of opened) await spool.close()
  opened = []
  rmSync(at.directory, { recursive: true, force: true })
})

/** @param {{ bytesMax?: number, disk?: Disk }} [settings] */
export function build({ bytesMax = 2 ** 30, disk } = {}) {
  const logger = pino({}, { write: (line) => void logged.push(JSON.parse(line)) })
  const clock = new SimulatedClock()
  const { directory } = at
  const spool = new Spool({ directory, bytesMax, logger, disk, clock })
  /** @type {Message[]} */
  const durable = []
  /** @type {Message[]} */
  const failed = []
  const counts = { lost: 0 }
  spool.outcome = {
    durable: (messages) => durable.push(...messages),
    failed: (messages) => failed.push(...messages),
    lost: (messages) => {
      counts.lost += messages
    },
  }
  opened.push(spool)
  return { spool, durable, failed, counts, clock }
}

/** @param {{ bytesMax?: number, disk?: Disk }} [settings] */
export async function open(settings) {
  const built = build(settings)
  return { ...built, found: await built.spool.open() }
}

/** Puts in messages, each group in a block of its own. */
/** @param {Awaited<ReturnType<typeof open>>} spool  @param {number[][]} groups */
export async function addGroups({ spool, durable }, groups) {
  for (const group of groups) {
    const wanted = durable.length + group.length
    for (const one of group) spool.add(message(one))
    await until(() => durable.length === wanted)
  }
}

/** Reads everything. @param {Spool} spool  @param {number} count */
export async function take(spool, count) {
  const values = []
  while (values.length < count) {
    const taken = await spool.next()
    if (!taken) throw new Error('nothing to read')
    for (const one of readRecords(taken.payload, taken.version, origin)) {
      values.push(Number(one.payload))
    }
    await spool.finish(taken)
  }
  return values
}

export const segments = () => readdirSync(at.directory).filter((name) => name.startsWith('spool-'))
export const pathOf = (/** @type {string} */ name) => join(at.directory, name)
