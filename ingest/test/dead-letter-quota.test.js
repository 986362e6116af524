// How many dead letters are kept of one client in a day: as many as it can, whatever others do.
import { deadLetterDay } from '@sandglass/common/measurement'
import { sensorId } from '@sandglass/common/sensor'
import { Sessions } from '../src/broker/sessions.js'
import { Rights } from '../src/message/rights.js'
import { build } from './support/pipeline.js'

const DAY_MS = 86_400_000

test('a spool that is drained past midnight has one share, not one for each turn of the days', async () => {
  const { settle, storage, counts } = build({ deadLettersMax: 3 })
  const nowMs = Date.now()
  for (let turn = 0; turn < 4; turn++) {
    await settle('sensors/a/b', 'rubbish', { receivedMs: nowMs - DAY_MS })
    await settle('sensors/a/b', 'rubbish', { receivedMs: nowMs })
  }
  // Midnight may be now.
  const isOneDay = deadLetterDay(nowMs) === deadLetterDay(Date.now())
  expect(storage.rowsOf('dead_letter').length).toBeLessThanOrEqual(isOneDay ? 3 : 6)
  expect(counts.unkeptLetters).toBeGreaterThanOrEqual(isOneDay ? 5 : 2)
})

test('what is stored of a letter counts: its topic, its client and the reason, too', async () => {
  const { settle, storage } = build({ deadLetterBytesMax: 50_000 })
  for (let at = 0; at < 20; at++) await settle(`sensors/${'ü'.repeat(10_000)}${at}`, '1')
  for (let at = 0; at < 20; at++) {
    await settle('sensors/a/b', 'x', { clientId: `${at}`.padEnd(20_000), session: undefined })
  }
  const ofTopics = storage.rowsOf('dead_letter').filter(({ client }) => client === 'c')
  expect(ofTopics).toHaveLength(2)
})

describe('a key that names the client id of another one', () => {
  /** @param {string} name */
  const keyOf = (name) => {
    const id = sensorId(name)
    const grant = { keyId: name, scopes: new Set(['write']), sensorId: id, expiresMs: Infinity }
    return { grant: /** @type {any} */ (grant), rights: new Rights('one', id) }
  }
  /** @param {ReturnType<typeof build>} ingest  @param {string} name */
  const enter = (ingest, name) => {
    const { grant, rights } = keyOf(name)
    const serving = { settled() {}, close() {} }
    const sessions = new Sessions({ share: ingest.memory.shares.sessions })
    const session = sessions.enter(grant, 'plc', true, serving, 0)
    return { clientId: 'plc', rights, session, visit: session.visit }
  }

  test.each([
    ['sensors/a/b', 'rubbish', 'a message'],
    ['telegraf/x', 'rubbish', 'a line of one'],
  ])('does not use up its share: on %s, by %s, %s', async (topic, payload) => {
    const ingest = build({ deadLettersMax: 3 })
    const thief = enter(ingest, 'thief')
    for (let count = 0; count < 5; count++) await ingest.settle(topic, payload, thief)
    expect(ingest.counts.unkeptLetters).toBe(2)
    await ingest.settle(topic, payload, enter(ingest, 'owner'))
    expect(ingest.counts.unkeptLetters).toBe(2)
  })

  test('does not out of the spool, which knows no sessions', async () => {
    const { settle, counts } = build({ deadLettersMax: 3 })
    const spooled = (/** @type {string} */ name) => ({
      clientId: 'plc',
      session: undefined,
      rights: keyOf(name).rights,
    })
    for (let count = 0; count < 5; count++) {
      await settle('sensors/a/b', 'rubbish', spooled('thief'))
    }
    await settle('sensors/a/b', 'rubbish', spooled('owner'))
    expect(counts.unkeptLetters).toBe(2)
  })

  test('does not have it refused as too slow for its decoder', async () => {
    /** @type {string[]} */
    const asked = []
    const { knownDecoders, evaluator, accept, ...ingest } = build()
    const slow = { name: 'slow', template: 'slow/{sensor}', expression: '$', version: 1 }
    const set = [{ ...slow, reads: /** @type {const} */ ('json'), changedMs: 0 }]
    knownDecoders.take({ revision: 1, set })
    evaluator.ask = ({ client }) => asked.push(client)
    for (const name of ['thief', 'owner']) {
      const own = enter(/** @type {any} */ (ingest), name)
      accept(`slow/${sensorId(name)}`, '{}', { ...own, sender: { bytesInFlight: 0 } })
    }
    expect(new Set(asked).size).toBe(2)
    evaluator.stop()
  })
})
