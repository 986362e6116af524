// A spool that the version before wrote is taken over.
import { copyFileSync, readdirSync, readFileSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readRecords } from '../src/spool/record.js'
import { until } from './support/ingest.js'
import { addGroups, open, origin, pathOf, segments, take } from './support/spool-directory.js'

/** @typedef {import('../src/message/message.js').Message} Message */
/** @typedef {import('../src/spool/spool.js').Spool} Spool */

describe('a spool of version 1', () => {
  const old = fileURLToPath(new URL('fixtures/spool-1', import.meta.url))
  /** @type {any[]} */
  const expected = JSON.parse(readFileSync(`${old}.json`, 'utf8'))

  /** @param {Message} one */
  const essence = (one) => ({
    clientId: one.clientId,
    topic: one.topic,
    payload: one.payload.toString('base64'),
    format: one.format,
    qos: one.qos,
    retain: one.retain,
    // It knew clients that may write everything or nothing.
    isForbidden: one.rights.text === '',
    receivedMs: one.receivedMs,
    firstReceivedMs: one.firstReceivedMs,
    deadLetterId: String(one.deadLetterId),
  })

  /** @param {Spool} spool  @param {number} blocks */
  async function takeMessages(spool, blocks, isFinished = true) {
    const messages = []
    for (let block = 0; block < blocks; block++) {
      const taken = await spool.next()
      if (!taken) throw new Error('nothing to read')
      messages.push(...readRecords(taken.payload, taken.version, origin))
      if (isFinished) await spool.finish(taken)
    }
    return messages
  }

  beforeEach(() => {
    for (const name of readdirSync(old)) copyFileSync(join(old, name), pathOf(name))
  })

  test('is taken over: all its messages come out, before those that are added', async () => {
    const first = await open()
    expect(first.found).toEqual({ messages: expected.length, lost: 0 })
    await addGroups(first, [[1, 2]])
    await takeMessages(first.spool, 3, false)
    await first.spool.close()
    // Once more, as nothing was stored; the files of both versions lie beside each other.
    const { spool, found } = await open()
    expect(found).toEqual({ messages: expected.length + 2, lost: 0 })
    const messages = await takeMessages(spool, 7)
    expect(messages.map(essence)).toEqual(expected)
    expect(await take(spool, 2)).toEqual([1, 2])
    await until(() => segments().length === 0)
  })

  test('counts what is missing of it from then on', async () => {
    const first = await open()
    await first.spool.close()
    truncateSync(pathOf('spool-0000000001'), 64)
    const { found } = await open()
    expect(found.lost).toBeGreaterThan(0)
    expect(found.messages).toBe(expected.length)
  })

  test('leaves files of its time that were set aside, and their number, alone', async () => {
    copyFileSync(pathOf('spool-0000000001'), pathOf('spool-0000000000.damaged'))
    copyFileSync(pathOf('spool-0000000001'), pathOf('spool-0000000007.damaged'))
    const first = await open()
    expect(first.found.messages).toBe(expected.length)
    await addGroups(first, [[1]])
    expect(segments()).toContain('spool-0000000008')
    await takeMessages(first.spool, 8)
    await until(() => segments().length === 2)
    await first.spool.close()
    expect((await open()).found).toEqual({ messages: 0, lost: 0 })
  })
})
