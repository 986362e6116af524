import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { Message } from '../src/message/message.js'
import { ALIGN_BYTES, allocateBlock, findBlocks, sealBlock } from '../src/spool/block.js'
import { Diversion } from '../src/spool/diversion.js'
import { readRecords, recordBytes, writeRecord } from '../src/spool/record.js'
import { Spool } from '../src/spool/spool.js'
import { until } from './support/ingest.js'

const T = Date.UTC(2026, 0, 1)
const origin = { settled: () => {} }

/** @param {Partial<ConstructorParameters<typeof Message>[0]>} [parts] */
function message(parts = {}) {
  return new Message({
    ...{ origin, clientId: 'c', session: undefined, visit: 1, topic: 'sensors/s/m', qos: 1 },
    ...{ payload: Buffer.from('1'), dup: false, retain: false, packetId: 7, receivedMs: T },
    ...{ arrivedMs: performance.now(), ...parts },
  })
}

/** @param {Message[]} messages */
function recordsOf(messages) {
  const bytes = messages.reduce((sum, one) => sum + recordBytes(one), 0)
  const out = Buffer.alloc(bytes)
  let at = 0
  for (const one of messages) at = writeRecord(out, at, one)
  expect(at).toBe(bytes)
  return out
}

/** What must come back. @param {Message} one */
const essence = ({ clientId, topic, payload, qos, retain, receivedMs, firstReceivedMs }) => ({
  ...{ clientId, topic, payload: payload.toString('hex'), qos, retain },
  ...{ receivedMs, firstReceivedMs },
})

describe('a record', () => {
  test('gives back all of its message, whatever that is', () => {
    const texts = ['', 'x', 'größe/温度', 'a'.repeat(60_000)]
    const messages = texts.flatMap((text) =>
      /** @type {const} */ ([0, 1, 2]).map((qos) =>
        message({
          ...{ clientId: text, topic: `sensors/${text}`, payload: Buffer.from(text), qos },
          ...{ retain: qos === 2, firstReceivedMs: T - 5 },
        }),
      ),
    )
    const back = readRecords(recordsOf(messages), origin)
    expect(back.map(essence)).toEqual(messages.map(essence))
    expect(back.map(({ deadLetterId }) => String(deadLetterId))).toEqual(
      messages.map(({ deadLetterId }) => String(deadLetterId)),
    )
    expect(back.every(({ arrival }) => arrival === 'spool')).toBe(true)
  })

  test('is as docs/format/spool.md shows it', () => {
    const bytes = recordsOf([message()])
    bytes.fill(0xee, 28, 44)
    expect(bytes.toString('hex').replace(/(..)/g, '$1 ').trim()).toBe(documented('spool.md').record)
  })
})

/** The examples of a format's document. @param {string} name */
function documented(name) {
  const text = readFileSync(new URL(`../../docs/format/${name}`, import.meta.url), 'utf8')
  const example = text.slice(text.indexOf('## Example')).split('```')[1]
  const bytes = example.split('\n').map((line) => /^((?:[0-9a-f]{2} ?)+)/.exec(`${line} `)?.[1])
  return { record: bytes.filter(Boolean).join(' ').replace(/ +/g, ' ').trim() }
}

/** A segment of blocks with one record each. @param {number} blocks */
function segmentOf(blocks) {
  let file = Buffer.alloc(0)
  for (let index = 0; index < blocks; index++) {
    const payload = recordsOf([message({ payload: Buffer.from(`${index}`) })])
    const made = allocateBlock(payload.length)
    payload.copy(made.payload)
    const about = { segment: 3, offset: file.length, messages: 1, firstReceivedMs: T + index }
    sealBlock(made.block, payload.length, about)
    file = Buffer.concat([file, made.block])
  }
  return file
}

/** Of one of these blocks: header and record. */
const CONTENT_BYTES = 40 + recordBytes(message())

describe('a segment', () => {
  const file = segmentOf(4)
  const size = file.length / 4

  test('that is cut anywhere gives the blocks before the cut', () => {
    for (let length = 0; length < file.length; length++) {
      const { blocks, isDamaged } = findBlocks(file.subarray(0, length), 3)
      // The padding of the last one may be missing.
      const whole = Math.floor((length + size - CONTENT_BYTES) / size)
      expect([blocks.length, isDamaged]).toEqual([whole, false])
    }
  })

  test('of which one byte is wrong gives the other blocks, and says so unless it is the last', () => {
    for (let at = 0; at < file.length; at++) {
      const bad = Buffer.from(file)
      bad[at] ^= 0x10
      const { blocks, isDamaged } = findBlocks(bad, 3)
      // Nothing depends on padding.
      const hurt = at % size < CONTENT_BYTES ? Math.floor(at / size) : undefined
      expect(blocks.map(({ offset }) => offset / size)).toEqual(
        [0, 1, 2, 3].filter((index) => index !== hurt),
      )
      expect(isDamaged).toBe(hurt !== undefined && hurt < 3)
    }
  })

  test('of another number has no blocks', () => {
    expect(findBlocks(file, 4).blocks).toEqual([])
  })
})

test('what came out of the spool, or is a replay, does not go into it', () => {
  const spool = /** @type {any} */ ({ hasRoom: () => true })
  const diversion = new Diversion({ spool, afterMs: 1 })
  expect(diversion.takes(message())).toBe(false)
  diversion.isOpen = true
  expect(diversion.takes(message())).toBe(true)
  expect(diversion.takes(message({ arrival: 'spool' }))).toBe(false)
  expect(diversion.takes(message({ arrival: 'replay' }))).toBe(false)
})

describe('the spool', () => {
  /** @type {string} */
  let directory
  /** @type {Spool[]} */
  let opened = []
  let nowMs = 0

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'sandglass-spool-'))
    nowMs = 0
  })
  afterEach(async () => {
    for (const spool of opened) await spool.close()
    opened = []
    rmSync(directory, { recursive: true, force: true })
  })

  /** @param {{ bytesMax?: number }} [settings] */
  async function open({ bytesMax = 2 ** 30 } = {}) {
    const logger = pino({ level: 'silent' })
    const spool = new Spool({ directory, bytesMax, logger, now: () => nowMs })
    /** @type {Message[]} */
    const durable = []
    /** @type {Message[]} */
    const failed = []
    spool.outcome = {
      durable: (messages) => durable.push(...messages),
      failed: (messages) => failed.push(...messages),
    }
    const found = await spool.open()
    opened.push(spool)
    return { spool, durable, failed, found }
  }

  /** Reads everything. @param {Spool} spool  @param {number} count */
  async function take(spool, count) {
    const values = []
    while (values.length < count) {
      const taken = await spool.next()
      if (!taken?.payload) throw new Error('nothing to read')
      for (const one of readRecords(taken.payload, origin)) values.push(Number(one.payload))
      await spool.finish(taken)
    }
    return values
  }

  const segments = () => readdirSync(directory).filter((name) => name.startsWith('spool-'))

  /** @param {number} from  @param {number} to */
  const numbered = (from, to) =>
    Array.from({ length: to - from }, (_, index) =>
      message({ payload: Buffer.from(`${from + index}`) }),
    )

  test('gives back what was added, in order, and leaves no file behind', async () => {
    const { spool, durable } = await open()
    for (const one of numbered(0, 500)) spool.add(one)
    await until(() => durable.length === 500)
    for (const one of numbered(500, 1_000)) spool.add(one)
    expect(await take(spool, 1_000)).toEqual(Array.from({ length: 1_000 }, (_, index) => index))
    await until(() => segments().length === 0)
    expect(spool.bytes).toBe(0)
  })

  test('has what was durable after a restart, and what was not done yet once more', async () => {
    const first = await open({ bytesMax: 2 ** 20 })
    // Three segments, of an eighth of the cap each.
    for (let at = 0; at < 6; at++) {
      for (const one of numbered(at * 500, at * 500 + 500)) first.spool.add(one)
      await until(() => first.durable.length === (at + 1) * 500)
    }
    expect(segments().length).toBeGreaterThan(1)
    await take(first.spool, 500)
    await first.spool.close()
    const second = await open({ bytesMax: 2 ** 20 })
    expect(second.found).toBeGreaterThanOrEqual(2_500)
    const values = await take(second.spool, second.found)
    expect(values.slice(-2_500)).toEqual(Array.from({ length: 2_500 }, (_, index) => 500 + index))
    await until(() => segments().length === 0)
  })

  test('is full at its cap, and has room again when it was read', async () => {
    const { spool, durable } = await open({ bytesMax: 2 ** 20 })
    let added = 0
    const large = () => message({ payload: Buffer.alloc(10_000, '1') })
    for (; spool.hasRoom(large()); added++) spool.add(large())
    await until(() => durable.length === added)
    expect(spool.bytes).toBeLessThanOrEqual(2 ** 20 + 1_000 * ALIGN_BYTES)
    expect(spool.hasRoom(large())).toBe(false)
    await take(spool, added)
    expect(spool.hasRoom(large())).toBe(true)
  })

  test('gives back what it cannot write, waits a while, and goes on', async () => {
    const { spool, durable, failed } = await open()
    rmSync(directory, { recursive: true })
    for (const one of numbered(0, 3)) spool.add(one)
    await until(() => failed.length === 3)
    expect(spool.failures).toBe(1)
    expect(spool.hasRoom(message())).toBe(false)
    nowMs += 10_000
    expect(spool.hasRoom(message())).toBe(true)
    mkdirSync(directory)
    for (const one of numbered(3, 5)) spool.add(one)
    await until(() => durable.length === 2)
    expect(await take(spool, 2)).toEqual([3, 4])
  })

  test('forgets what a crash tore at the end of a file', async () => {
    const first = await open()
    for (const one of numbered(0, 3)) first.spool.add(one)
    await until(() => first.durable.length === 3)
    await first.spool.close()
    appendFileSync(join(directory, segments()[0]), segmentOf(1).subarray(0, 70))
    const second = await open()
    expect([second.found, second.spool.damaged]).toEqual([3, 0])
    expect(await take(second.spool, 3)).toEqual([0, 1, 2])
  })

  test('keeps a file that is damaged aside, and says so, and gives what is whole', async () => {
    const first = await open()
    for (let block = 0; block < 3; block++) {
      first.spool.add(numbered(block, block + 1)[0])
      await until(() => first.durable.length === block + 1)
    }
    await first.spool.close()
    const path = join(directory, segments()[0])
    const file = readFileSync(path)
    file[file.length / 3 + 50] ^= 1
    writeFileSync(path, file)
    const { spool, found } = await open()
    expect([found, spool.damaged]).toEqual([2, 1])
    expect(await take(spool, 2)).toEqual([0, 2])
    await until(() => segments().every((name) => name.endsWith('.damaged')))
    expect(readFileSync(`${path}.damaged`).equals(file)).toBe(true)
  })

  test('belongs to one process, and to a version that knows it', async () => {
    const { spool } = await open()
    await expect(open()).rejects.toThrow('--spool-dir')
    await spool.close()
    writeFileSync(join(directory, 'FORMAT'), 'sandglass spool 9\n')
    await expect(open()).rejects.toThrow('"sandglass spool 9", this version knows')
  })
})
