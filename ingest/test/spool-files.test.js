import {
  appendFileSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Counts } from '../src/counts.js'
import { openSpool } from '../src/ingest.js'
import { realDisk } from '../src/spool/disk.js'
import { Drain } from '../src/spool/drain.js'
import { until } from './support/ingest.js'
import {
  addGroups,
  at,
  build,
  logged,
  message,
  numbers,
  open,
  pathOf,
  segments,
  take,
} from './support/spool-directory.js'

/** @typedef {import('../src/message/message.js').Message} Message */
/** @typedef {import('../src/spool/disk.js').Disk} Disk */

/** The files as they are now: what a process that is killed leaves. */
function killed() {
  const copy = mkdtempSync(join(tmpdir(), 'sandglass-spool-'))
  cpSync(at.directory, copy, { recursive: true })
  return copy
}

describe('the spool', () => {
  test('gives back what was added, in order, and leaves no file behind', async () => {
    const one = await open()
    await addGroups(one, [numbers(0, 500), numbers(500, 1_000)])
    expect(await take(one.spool, 1_000)).toEqual(numbers(0, 1_000))
    await until(() => segments().length === 0)
    expect(one.spool.bytes).toBe(0)
    expect(readdirSync(at.directory).sort()).toEqual(['FORMAT', 'HEAD', 'LOCK'])
  })

  test('has what was durable after a restart, and what was not done yet once more', async () => {
    const first = await open({ bytesMax: 2 ** 20 })
    // Three segments, of an eighth of the cap each.
    await addGroups(
      first,
      numbers(0, 6).map((at) => numbers(at * 500, at * 500 + 500)),
    )
    expect(segments().length).toBeGreaterThan(1)
    await take(first.spool, 500)
    await first.spool.close()
    const second = await open({ bytesMax: 2 ** 20 })
    expect(second.found.messages).toBeGreaterThanOrEqual(2_500)
    expect(second.found.lost).toBe(0)
    const values = await take(second.spool, second.found.messages)
    expect(values.slice(-2_500)).toEqual(numbers(500, 3_000))
    await until(() => segments().length === 0)
  })

  test('is full at its cap, and has room again when it was read', async () => {
    const { spool, durable } = await open({ bytesMax: 2 ** 20 })
    let added = 0
    const large = () => message('1'.repeat(10_000))
    for (; spool.hasRoom(large()); added++) spool.add(large())
    await until(() => durable.length === added)
    expect(spool.bytes).toBeLessThanOrEqual(2 ** 20 + 1_000 * 64)
    expect(spool.hasRoom(large())).toBe(false)
    await take(spool, added)
    expect(spool.hasRoom(large())).toBe(true)
  })

  test('gives back what it cannot write, waits a while, and goes on', async () => {
    const one = await open()
    rmSync(at.directory, { recursive: true })
    for (const value of numbers(0, 3)) one.spool.add(message(value))
    await until(() => one.failed.length === 3)
    expect(one.spool.failures).toBe(1)
    expect(one.spool.hasRoom(message(1))).toBe(false)
    one.clock.ms += 10_000
    expect(one.spool.hasRoom(message(1))).toBe(true)
    mkdirSync(at.directory)
    await addGroups(one, [[3, 4]])
    expect(await take(one.spool, 2)).toEqual([3, 4])
  })

  test('leaves no files behind while its disk is full', async () => {
    let isFull = true
    /** @type {Disk} */
    const disk = {
      ...realDisk,
      async open(path, how) {
        const file = await realDisk.open(path, how)
        if (how !== 'create') return file
        return {
          read: (bytes, position) => file.read(bytes, position),
          truncate: (bytes) => file.truncate(bytes),
          datasync: () => file.datasync(),
          close: () => file.close(),
          async write(bytes, position) {
            if (isFull) throw new Error('ENOSPC')
            await file.write(bytes, position)
          },
        }
      },
    }
    const one = await open({ disk })
    for (let attempt = 1; attempt <= 3; attempt++) {
      one.spool.add(message(attempt))
      await until(() => one.failed.length === attempt)
      expect([segments(), one.spool.bytes]).toEqual([[], 0])
    }
    isFull = false
    await addGroups(one, [[4]])
    expect(await take(one.spool, 1)).toEqual([4])
  })

  test('writes a group without the one message that has no record', async () => {
    const one = await open()
    const bad = message(0, { topic: 'bad' })
    // A fault of ours, whatever it is, is this message's alone.
    Object.defineProperty(bad, 'payload', { value: { length: 1 } })
    for (const each of [message(1), bad, message(2)]) one.spool.add(each)
    await until(() => one.durable.length === 2)
    expect(one.failed).toEqual([bad])
    expect(await take(one.spool, 2)).toEqual([1, 2])
    // It is not tried again and again; others have room.
    expect([one.spool.hasRoom(bad), one.spool.hasRoom(message(3))]).toEqual([false, true])
  })

  test('takes client ids and topics of any length that MQTT can bring', async () => {
    const one = await open()
    const clientId = Buffer.alloc(30_000, 0xff).toString()
    expect(Buffer.byteLength(clientId)).toBe(90_000)
    one.spool.add(message(1, { clientId, topic: '\ufffd'.repeat(30_000) }))
    one.spool.add(message(2))
    await until(() => one.durable.length === 2)
    expect(await take(one.spool, 2)).toEqual([1, 2])
  })

  test('belongs to one process, and to a version that knows it', async () => {
    const { spool } = await open()
    await expect(open()).rejects.toThrow('--spool-dir')
    await spool.close()
    writeFileSync(pathOf('FORMAT'), 'sandglass spool 9\n')
    await expect(open()).rejects.toThrow('"sandglass spool 9", this version knows')
  })
})

describe('a file that cannot be read now', () => {
  /** @param {(path: string) => boolean} fails */
  const failing = (fails) => {
    const check = (/** @type {string} */ path) => {
      if (fails(path))
        throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })
    }
    return /** @type {Disk} */ ({
      ...realDisk,
      async open(path, how) {
        check(path)
        return realDisk.open(path, how)
      },
      async readFile(path) {
        check(path)
        return realDisk.readFile(path)
      },
    })
  }

  test('is kept and read again, and nothing in it is called lost', async () => {
    const first = await open({ bytesMax: 8 * 512 })
    await addGroups(first, [[1], [2], [3], [4], [5], [6]])
    expect(segments()).toHaveLength(2)
    await first.spool.close()
    let failures = 0
    const { spool, counts } = await open({
      bytesMax: 8 * 512,
      disk: failing((path) => path.endsWith('spool-0000000000') && failures > 0 && failures-- > 0),
    })
    failures = 5
    // What can be read is not held up.
    expect((await take(spool, 6)).sort()).toEqual([1, 2, 3, 4, 5, 6])
    expect([counts.lost, spool.damaged, spool.readFailures]).toEqual([0, 0, 5])
    expect(logged.filter((line) => JSON.stringify(line).includes('EMFILE'))).toHaveLength(1)
    await until(() => segments().length === 0)
  })

  test('does not let ingest start, if that does not end, and says what to do', async () => {
    const first = await open()
    await addGroups(first, [[1, 2]])
    await first.spool.close()
    let reads = 0
    const disk = failing((path) => path.endsWith('spool-0000000000') && ++reads > 0)
    await expect(open({ disk })).rejects.toThrow(/spool-0000000000 .*EMFILE.*move that file away/)
    expect(reads).toBe(10)
    const again = await open({ disk: failing((path) => path.endsWith('0000') && ++reads < 15) })
    expect(again.found).toEqual({ messages: 2, lost: 0 })
  })
})

describe('a spool whose files were damaged', () => {
  /** Three segments of two blocks with two messages each. @param {() => void} damage */
  async function damaged(damage) {
    const settings = { bytesMax: 8 * 300 }
    const first = await open(settings)
    await addGroups(
      first,
      numbers(0, 6).map((at) => [at * 2, at * 2 + 1]),
    )
    expect(segments()).toEqual(numbers(0, 3).map((at) => `spool-000000000${at}`))
    const copy = killed()
    await first.spool.close()
    rmSync(at.directory, { recursive: true })
    renameSync(copy, at.directory)
    damage()
    const second = await open(settings)
    const { messages, lost } = second.found
    expect(messages).toBe(12)
    const values = await take(second.spool, messages - lost)
    await until(() => segments().every((name) => name.includes('damaged')))
    return { ...second, lost, values }
  }

  /** @param {string} name  @param {number} at */
  function flip(name, at) {
    const bytes = readFileSync(pathOf(name))
    bytes[at] ^= 1
    writeFileSync(pathOf(name), bytes)
  }

  const last = 'spool-0000000002'

  test.each(
    /** @type {[string, number[], () => void][]} */ ([
      ['one byte in the middle is wrong', [2, 3], () => flip('spool-0000000000', 256 + 80)],
      ['a header in the middle is wrong', [4, 5], () => flip('spool-0000000001', 12)],
      ['the last block is wrong', [10, 11], () => flip(last, 256 + 80)],
      ['the last block is cut', [10, 11], () => truncateSync(pathOf(last), 256 + 70)],
      ['the last block is gone', [10, 11], () => truncateSync(pathOf(last), 256)],
      ['the last file is empty', [8, 9, 10, 11], () => truncateSync(pathOf(last), 0)],
      ['the last file is gone', [8, 9, 10, 11], () => rmSync(pathOf(last))],
      ['the first file is gone', [0, 1, 2, 3], () => rmSync(pathOf('spool-0000000000'))],
      ['a file in the middle is gone', [4, 5, 6, 7], () => rmSync(pathOf('spool-0000000001'))],
      [
        'a file is that of another time',
        [4, 5, 6, 7],
        () => copyFileSync(pathOf('spool-0000000000'), pathOf('spool-0000000001')),
      ],
    ]),
  )('says how many messages are lost: %s', async (what, gone, damage) => {
    const { spool, lost, values, counts } = await damaged(damage)
    expect(values).toEqual(numbers(0, 12).filter((one) => !gone.includes(one)))
    expect([lost, counts.lost]).toEqual([gone.length, 0])
    // Where a file is empty, the one before it may have been cut.
    expect(spool.damaged).toBe(what.includes('empty') ? 2 : 1)
  })

  test('keeps the equation of /stats', async () => {
    const { spool } = await damaged(() => truncateSync(pathOf(last), 256))
    await spool.close()
    const first = await open()
    await addGroups(first, [
      [0, 1],
      [2, 3],
    ])
    await first.spool.close()
    flip(segments().filter((name) => !name.includes('damaged'))[0], 80)
    const counts = new Counts()
    const { spool: second } = build()
    await openSpool(second, counts)
    expect([counts.recovered, counts.spooled, counts.lost]).toEqual([4, 2, 2])
  })

  test('keeps a damaged file aside as it was', async () => {
    /** @type {Buffer | undefined} */
    let bytes
    await damaged(() => {
      flip('spool-0000000001', 80)
      bytes = readFileSync(pathOf('spool-0000000001'))
    })
    expect(segments()).toEqual(['spool-0000000001.damaged'])
    expect(readFileSync(pathOf('spool-0000000001.damaged')).equals(bytes ?? Buffer.of())).toBe(true)
    expect(JSON.stringify(logged)).toContain('"lost":2')
  })

  test('counts what is damaged after it was opened, and gives the rest', async () => {
    const one = await open()
    await addGroups(one, [
      [0, 1],
      [2, 3],
      [4, 5],
    ])
    flip('spool-0000000000', 256 + 80)
    expect(await take(one.spool, 4)).toEqual([0, 1, 4, 5])
    expect([one.counts.lost, one.spool.damaged]).toEqual([2, 1])
    await until(() => segments().every((name) => name.endsWith('.damaged')))
  })

  test('forgets what a crash tore at the end of a file', async () => {
    const first = await open()
    await addGroups(first, [[0, 1, 2]])
    const block = readFileSync(pathOf('spool-0000000000'))
    await first.spool.close()
    // The header was written, and the sector with the rest was not.
    appendFileSync(pathOf('spool-0000000000'), Buffer.alloc(block.length))
    const second = await open()
    expect([second.found, second.spool.damaged]).toEqual([{ messages: 3, lost: 0 }, 0])
    expect(await take(second.spool, 3)).toEqual([0, 1, 2])
  })

  test('is stored as far as it goes without HEAD, which is said to be missing', async () => {
    const { values, lost } = await damaged(() => rmSync(pathOf('HEAD')))
    expect([values, lost]).toEqual([numbers(0, 12), 0])
    expect(JSON.stringify(logged)).toContain('HEAD of the spool is damaged')
  })

  test('is stored without FORMAT, which is written again', async () => {
    const { values } = await damaged(() => rmSync(pathOf('FORMAT')))
    expect(values).toEqual(numbers(0, 12))
    expect(readFileSync(pathOf('FORMAT'), 'utf8')).toMatch(/^sandglass spool 2 [0-9a-f]{32}\n$/)
  })

  test('is refused without both, and with those of another spool', async () => {
    await expect(
      damaged(() => {
        rmSync(pathOf('HEAD'))
        rmSync(pathOf('FORMAT'))
      }),
    ).rejects.toThrow('neither FORMAT nor HEAD')
    expect(segments()).toHaveLength(3)
    writeFileSync(pathOf('FORMAT'), `sandglass spool 2 ${'0'.repeat(32)}\n`)
    const other = await open()
    expect(other.found.messages).toBe(0)
  })

  test('leaves files that are not its own where they are, and names them', async () => {
    writeFileSync(pathOf('notes.txt'), 'mine')
    writeFileSync(pathOf('spool-7'), 'mine, too')
    const { spool } = await open()
    await spool.close()
    expect(readdirSync(at.directory)).toEqual(expect.arrayContaining(['notes.txt', 'spool-7']))
    const names = ['notes.txt', 'spool-7']
    expect(logged).toContainEqual(expect.objectContaining({ files: names, count: 2 }))
  })
})

test('a drain holds no more messages than it may, whatever the size of a block', async () => {
  const one = await open()
  await addGroups(one, [numbers(0, 5_000)])
  /** @type {Message[]} */
  const held = []
  const drain = new Drain({ spool: one.spool, accept: (each) => held.push(each) })
  const done = drain.run()
  await until(() => held.length === 1_000)
  for (let taken = 0; taken < 5_000; taken++) {
    await until(() => held.length > 0)
    const each = /** @type {Message} */ (held.shift())
    expect(drain.bytes).toBeLessThanOrEqual(4 * 2 ** 20 + each.bytes)
    expect(held.length).toBeLessThan(1_000)
    each.origin.settled(each)
  }
  await until(() => segments().length === 0)
  await one.spool.close()
  await done
})
