import { describe, expect, test } from '@jest/globals'
import { FORMAT } from '@sandglass/common/bodies'
import { derive, Message } from '../src/message/message.js'
import { EVERY_SENSOR, NO_SENSOR, Rights, rightsFrom, rightsOf } from '../src/message/rights.js'
import { mayFollow, STATE } from '../src/message/state.js'

const STATES = Object.values(STATE)

/** Where a message may go from each state. @type {Record<string, string[]>} */
const NEXT = {
  arrived: ['waiting', 'storing', 'refused', 'spooling', 'settled'],
  waiting: ['waiting', 'storing', 'refused', 'spooling'],
  storing: ['waiting', 'refused', 'spooling', 'settled'],
  refused: ['spooling', 'settled'],
  spooling: ['arrived', 'waiting', 'storing', 'refused', 'settled'],
  settled: [],
}

/** A way to each state. @type {Record<string, import('../src/message/state.js').State[]>} */
const WAYS = {
  arrived: [],
  waiting: ['waiting'],
  storing: ['storing'],
  refused: ['refused'],
  spooling: ['spooling'],
  settled: ['settled'],
}

/** @param {Partial<ConstructorParameters<typeof Message>[0]>} [parts] */
const message = (parts) =>
  new Message({
    origin: { settled() {} },
    clientId: 'c',
    topic: 'sensors/s/m',
    payload: Buffer.from('1'),
    receivedMs: 5,
    arrivedMs: 1,
    ...parts,
  })

describe('a message', () => {
  test.each(STATES.flatMap((from) => STATES.map((to) => [from, to])))(
    'that is %s goes on to be %s only where the table has it',
    (from, to) => {
      const isAllowed = NEXT[from].includes(to)
      expect(mayFollow(from, to)).toBe(isAllowed)
      const one = message()
      for (const state of WAYS[from]) one.move(state)
      if (isAllowed) one.move(to)
      else expect(() => one.move(to)).toThrow(`a message that is ${from} cannot be ${to}`)
      expect(one.state).toBe(isAllowed ? to : from)
    },
  )

  test.each(['arrived', 'waiting', 'storing', 'refused'])(
    'that was %s is so again when the spool could not take it',
    (state) => {
      const one = message()
      for (const step of WAYS[state]) one.move(step)
      one.move('spooling')
      expect(one.hasRows).toBe(state === 'storing' || state === 'refused')
      expect(one.comeBack()).toBe(state)
    },
  )

  test('hands its rights, its sender and its receipt on to the parts that it is made of', () => {
    const origin = { settled() {} }
    const whole = message({
      sender: { bytesInFlight: 0 },
      arrival: 'spool',
      rights: NO_SENSOR,
      isForSubscribers: false,
      retention: 'keep',
      qos: 2,
      firstReceivedMs: 3,
    })
    const part = derive(whole, { origin, payload: Buffer.from('m v=1'), format: FORMAT.line })
    const own = ['origin', 'payload', 'format', 'bytes']
    // A part is none of its session's packets, nor retained: these are of the whole.
    const ofPackets = ['session', 'visit', 'packetId', 'dup', 'retain']
    for (const key of Object.keys(whole)) {
      if (own.includes(key) || ofPackets.includes(key)) continue
      expect({ key, value: /** @type {any} */ (part)[key] }).toEqual({
        key,
        value: /** @type {any} */ (whole)[key],
      })
    }
    expect([part.origin, part.payload.toString(), part.format]).toEqual([origin, 'm v=1', 2])
  })
})

describe('rights', () => {
  const grant = (/** @type {string[]} */ scopes, /** @type {string} */ sensorId = '') => ({
    keyId: 'k',
    name: 'k',
    scopes: new Set(scopes),
    sensorId: sensorId || undefined,
    expiresMs: undefined,
  })

  test.each([
    ['no key is required', undefined, 'all', true, true],
    ['a key may write', grant(['write']), 'all', true, true],
    ["a device's key may write", grant(['write'], 'a'), 'one', true, false],
    ['a key may read', grant(['read', 'manage', 'admin']), 'none', false, false],
    ["a device's key may read", grant(['read'], 'a'), 'none', false, false],
  ])('where %s', (_, key, kind, a, b) => {
    const rights = rightsOf(key)
    expect([rights.kind, rights.mayWrite('a'), rights.mayWrite('b')]).toEqual([kind, a, b])
    expect(rightsFrom(rights.text)).toEqual(rights)
  })

  test('that were never stored are those of before there were any', () => {
    expect(rightsFrom(undefined)).toBe(EVERY_SENSOR)
    expect(rightsFrom('')).toBe(NO_SENSOR)
    expect(rightsFrom('a')).toEqual(new Rights('one', 'a'))
  })
})
