import { readFileSync } from 'node:fs'
import { Message } from '../src/message/message.js'
import { EVERY_SENSOR, NO_SENSOR, Rights } from '../src/message/rights.js'
import { makeBlock } from '../src/spool/block.js'
import { Diversion } from '../src/spool/diversion.js'
import { readRecords, recordBytes, writeRecord } from '../src/spool/record.js'
import { scanSegment } from '../src/spool/scan.js'
import { survey } from '../src/spool/survey.js'

const T = Date.UTC(2026, 0, 1)
const origin = { settled: () => {} }

/** @param {Partial<ConstructorParameters<typeof Message>[0]>} [parts] */
function message(parts = {}) {
  return new Message({
    origin,
    clientId: 'c',
    topic: 'sensors/s/m',
    payload: Buffer.from('1'),
    receivedMs: T,
    arrivedMs: performance.now(),
    ...parts,
  })
}

/** @param {Message[]} messages */
function recordsOf(messages) {
  const records = messages.map(writeRecord)
  expect(records.map(({ length }) => length)).toEqual(messages.map(recordBytes))
  return Buffer.concat(records)
}

/** What must come back. @param {Message} one */
const essence = (one) => ({
  clientId: one.clientId,
  topic: one.topic,
  payload: one.payload.toString('hex'),
  format: one.format,
  qos: one.qos,
  retain: one.retain,
  rights: one.rights.text,
  retention: one.retention,
  receivedMs: one.receivedMs,
  firstReceivedMs: one.firstReceivedMs,
  deadLetterId: String(one.deadLetterId),
})

describe('a record', () => {
  const sensorId = '00112233-4455-8677-8899-aabbccddeeff'

  test('gives back all of its message, whatever that is', () => {
    // 30,000 bytes that are not UTF-8 become 90,000.
    const texts = ['', 'x', 'größe/温度', 'a'.repeat(60_000), '\ufffd'.repeat(30_000)]
    const all = [EVERY_SENSOR, NO_SENSOR, new Rights('one', sensorId)]
    const messages = texts.flatMap((text) =>
      /** @type {const} */ ([0, 1, 2]).map((qos) =>
        message({
          clientId: text,
          topic: `sensors/${text}`,
          payload: Buffer.from(text),
          qos,
          retain: qos === 2,
          format: qos,
          rights: all[qos],
          retention: qos === 1 ? 'keep' : undefined,
          firstReceivedMs: T - 5,
        }),
      ),
    )
    const back = [...readRecords(recordsOf(messages), 2, origin)]
    expect(back.map(essence)).toEqual(messages.map(essence))
    expect(back.every(({ arrival }) => arrival === 'spool')).toBe(true)
  })

  test('does not keep the block in memory that it was read from', () => {
    const [back] = readRecords(
      recordsOf([message({ payload: Buffer.alloc(99_999) }), message()]),
      2,
      origin,
    )
    expect(back.payload.length).toBe(99_999)
    expect(back.payload.buffer.byteLength).toBeLessThan(100_000)
  })

  test('is as docs/format/spool.md shows it', () => {
    const bytes = recordsOf([message({ rights: new Rights('one', sensorId), retention: 'keep' })])
    bytes.fill(0xee, 36, 52)
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

const SPOOL_ID = '0123456789abcdef0123456789abcdef'

/** A segment of blocks with one record each. @param {number} blocks  @param {number} number */
function segmentOf(blocks, number, segmentPosition = 100) {
  let file = Buffer.alloc(0)
  for (let index = 0; index < blocks; index++) {
    const record = writeRecord(message({ payload: Buffer.from(`${index}`) }))
    const place = { spoolId: SPOOL_ID, segment: number, offset: file.length }
    const about = { position: segmentPosition + index, segmentPosition, firstReceivedMs: T + index }
    file = Buffer.concat([file, makeBlock([record], place, about)])
  }
  return file
}

/** Of one of these blocks: header and record. */
const CONTENT_BYTES = 64 + recordBytes(message())

describe('a segment', () => {
  const file = segmentOf(4, 3)
  const size = file.length / 4
  const positions = (/** @type {Buffer} */ bytes) => scanSegment(bytes, 3, SPOOL_ID).positions

  test('that is cut anywhere gives the blocks before the cut, and is not called damaged', () => {
    for (let length = 0; length < file.length; length++) {
      // The padding of the last one may be missing.
      const whole = Math.floor((length + size - CONTENT_BYTES) / size)
      const scan = scanSegment(file.subarray(0, length), 3, SPOOL_ID)
      expect(scan.positions).toEqual([100, 101, 102, 103].slice(0, whole))
      // A header is never cut by a crash, as it lies in one sector.
      const isHeaderCut = length % size > 0 && length % size < 64
      expect(scan.isDamaged).toBe(isHeaderCut)
    }
  })

  test('of which one byte is wrong gives the other blocks, and tells when that was no crash', () => {
    for (let at = 0; at < file.length; at++) {
      const bad = Buffer.from(file)
      bad[at] ^= 0x10
      const scan = scanSegment(bad, 3, SPOOL_ID)
      // Nothing depends on padding.
      const hurt = at % size < CONTENT_BYTES ? Math.floor(at / size) : undefined
      expect(scan.positions).toEqual([100, 101, 102, 103].filter((one) => one - 100 !== hurt))
      expect([at, scan.isDamaged]).toEqual([at, hurt === 3])
      expect(scan.tailEnd).toBe(hurt === 3 && at % size >= 64 ? 104 : undefined)
    }
  })

  test('whose last block misses a sector may have been torn by a crash', () => {
    const record = writeRecord(message({ payload: Buffer.alloc(3_000, 'x') }))
    const place = { spoolId: SPOOL_ID, segment: 3, offset: 0 }
    const about = { position: 5, segmentPosition: 5, firstReceivedMs: T }
    const whole = makeBlock([record], place, about)
    for (let from = 512; from < 3_000; from += 512) {
      const torn = Buffer.from(whole).fill(0, from, from + 512)
      expect(scanSegment(torn, 3, SPOOL_ID)).toMatchObject({ isDamaged: false, positions: [] })
      // That part of a sector is gone is no crash.
      const bad = Buffer.from(whole).fill(0, from + 1, from + 512)
      expect(scanSegment(bad, 3, SPOOL_ID)).toMatchObject({ isDamaged: true, tailEnd: 6 })
    }
  })

  test('of another number, place or spool has no blocks', () => {
    expect(scanSegment(file, 4, SPOOL_ID).positions).toEqual([])
    expect(scanSegment(file, 3, SPOOL_ID.replace('0', '1')).positions).toEqual([])
    expect(positions(Buffer.concat([Buffer.alloc(64), file]))).toEqual([])
  })
})

describe('what is missing is counted', () => {
  const head = { startPosition: 0, endPosition: 12, lastSegment: 2, lastPosition: 8 }
  const scans = () => [0, 1, 2].map((n) => scanSegment(segmentOf(4, n, n * 4), n, SPOOL_ID))

  test('where segments are whole: nothing', () => {
    const found = survey(head, scans())
    expect([found.messages, found.lost, found.endPosition]).toEqual([12, 0, 12])
  })

  test.each([
    ['the first', 0],
    ['one in the middle', 1],
    ['the last', 2],
  ])('where a file is missing: %s', (_, gone) => {
    const found = survey(
      head,
      scans().filter(({ number }) => number !== gone),
    )
    expect([found.messages, found.lost, found.endPosition]).toEqual([8, 4, 12])
  })

  test.each([0, 1, 2])('where a file is cut: %i', (cut) => {
    const all = scans()
    all[cut] = scanSegment(segmentOf(1, cut, cut * 4), cut, SPOOL_ID)
    const found = survey(head, all)
    expect([found.messages, found.lost]).toEqual([9, 3])
    expect(found.segments.map(({ isDamaged }) => isDamaged)).toEqual(
      [0, 1, 2].map((n) => n === cut),
    )
    expect(found.segments[cut].lost).toBe(3)
  })

  test('where all files are missing', () => {
    expect(survey(head, [])).toMatchObject({ messages: 0, lost: 12, endPosition: 12 })
  })

  test('where HEAD is missing: what lies between the segments', () => {
    const found = survey(
      undefined,
      scans().filter(({ number }) => number !== 1),
    )
    expect([found.startPosition, found.messages, found.lost]).toEqual([0, 8, 4])
  })

  test('but not what failed: the segment after it begins where that did', () => {
    const [first, , last] = scans()
    const failed = scanSegment(segmentOf(6, 1, 4), 1, SPOOL_ID)
    expect(survey(head, [first, failed, last])).toMatchObject({ messages: 12, lost: 0 })
    // Even where the segment after it is gone.
    expect(survey(head, [first, failed])).toMatchObject({ messages: 8, lost: 4 })
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
