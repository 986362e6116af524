// A session follows an edge node, whatever is lost between them.
import { describe, expect, test } from '@jest/globals'
import { measurementsOf } from '../../../src/formats/sparkplug/measurements.js'
import { readPayload } from '../../../src/formats/sparkplug/payload.js'
import { REBIRTH_AGAIN_MS, step, unknownSession } from '../../../src/formats/sparkplug/session.js'
import { DATATYPE } from '../../../src/formats/sparkplug/value.js'
import { writePayload } from '../../../src/formats/sparkplug/write.js'
import { seeded } from '../fuzz.js'

/** @typedef {import('../../../src/formats/sparkplug/session.js').Message} Message */
/** @typedef {import('../../../src/formats/sparkplug/session.js').MessageType} MessageType */

const { Double, Int64 } = DATATYPE

/**
 * @param {MessageType} type
 * @param {Parameters<typeof writePayload>[0]} payload
 * @param {string} [device]
 * @returns {Message}
 */
function message(type, payload, device = '') {
  return { type, device, payload: readPayload(writePayload(payload)) }
}

/** @param {number} bdSeq */
const bd = (bdSeq) => ({ name: 'bdSeq', datatype: Int64, long: BigInt(bdSeq) })

const REBIRTH = { name: 'Node Control/Rebirth', datatype: DATATYPE.Boolean, boolean: false }
const TEMP = { name: 'temp', alias: 1, datatype: Double, double: 20, unit: 'Cel' }
const NBIRTH = message('NBIRTH', { timeMs: 1_000, seq: 0, metrics: [bd(3), REBIRTH, TEMP] })
const DBIRTH = message(
  'DBIRTH',
  { seq: 1, metrics: [{ name: 'flow', alias: 2, datatype: Double, double: 1 }] },
  'd',
)

/**
 * What a message says once it has its names.
 *
 * @param {Message} one
 * @param {import('../../../src/formats/sparkplug/session.js').Outcome} outcome
 */
const saidOf = ({ type, payload }, { metrics }) =>
  measurementsOf(type, { ...payload, metrics: [...metrics] })

/** @param {Message[]} messages  @param {number} [everyMs] */
function run(messages, everyMs = 0) {
  let session = unknownSession()
  let nowMs = 0
  return messages.map((one) => {
    const outcome = step(session, one, nowMs)
    session = outcome.session
    nowMs += everyMs
    const { measurements, refused } = saidOf(one, outcome)
    return {
      state: session.state,
      stored: Object.fromEntries(measurements.map(({ metric, value }) => [metric, value])),
      lost: refused.map(({ field }) => field),
      asks: outcome.asksRebirth,
      gap: outcome.isGap,
    }
  })
}

/** @param {number} seq  @param {number} double  @param {number} [alias] */
const ndata = (seq, double, alias = 1) =>
  message('NDATA', { seq, timeMs: 2_000, metrics: [{ alias, double }] })

/** @param {number} seq  @param {number} double  @param {string} [device] */
const ddata = (seq, double, device = 'd') =>
  message('DDATA', { seq, metrics: [{ alias: 2, double }] }, device)

describe('a birth', () => {
  test('has values, names and units; neither its control metrics nor its bdSeq are measured', () => {
    const outcome = step(unknownSession(), NBIRTH, 0)
    const { session } = outcome
    const said = saidOf(NBIRTH, outcome)
    expect(said.measurements).toEqual([{ metric: 'temp', timeMs: 1_000, kind: 1, value: 20 }])
    expect([said.units, said.refused]).toEqual([new Map([['temp', 'Cel']]), []])
    expect([session.state, session.bdSeq, session.seq]).toEqual(['online', 3, 0])
  })

  test('tells what aliases mean in the data that follows', () => {
    const outcomes = run([NBIRTH, DBIRTH, ndata(2, 21), ddata(3, 1.5)])
    expect(outcomes.map(({ stored }) => stored)).toEqual([
      { temp: 20 },
      { flow: 1 },
      { temp: 21 },
      { flow: 1.5 },
    ])
    expect(outcomes.some(({ asks, gap, lost }) => asks || gap || lost.length > 0)).toBe(false)
  })

  test('forgets what the one before it told', () => {
    const other = message('NBIRTH', {
      seq: 0,
      metrics: [bd(4), { ...TEMP, name: 'other', alias: 1 }],
    })
    expect(run([NBIRTH, DBIRTH, other, ndata(1, 7), ddata(2, 8)]).slice(3)).toEqual([
      { state: 'online', stored: { other: 7 }, lost: [], asks: false, gap: false },
      { state: 'online', stored: {}, lost: ['alias 2'], asks: true, gap: false },
    ])
  })

  test('of two names for one alias makes the alias mean nothing', () => {
    const birth = message('NBIRTH', {
      seq: 0,
      metrics: [TEMP, { ...TEMP, name: 'other' }, { ...TEMP, name: 'third' }],
    })
    expect(run([birth, ndata(1, 5)])).toMatchObject([
      { stored: { temp: 20, other: 20, third: 20 }, lost: ['alias 1'] },
      { stored: {}, lost: ['alias 1'], asks: true },
    ])
  })

  test('has all names itself: what has none is refused, whatever its alias is', () => {
    const metrics = [TEMP, { alias: 1, datatype: Double, double: 9 }]
    expect(
      run([
        message('NBIRTH', { seq: 0, metrics }),
        message('DBIRTH', { seq: 1, metrics }, 'd'),
        message('DBIRTH', { seq: 9, metrics }, 'e'),
      ]),
    ).toMatchObject([1, 2, 3].map(() => ({ stored: { temp: 20 }, lost: ['alias 1'] })))
  })

  test('without a sequence number has values, but cannot be followed', () => {
    const birth = message('NBIRTH', { metrics: [TEMP] })
    expect(run([birth, ndata(1, 5)])).toMatchObject([
      { state: 'unknown', stored: { temp: 20 }, lost: ['seq'], asks: false },
      { stored: {}, lost: ['alias 1'], asks: true },
    ])
  })

  test('has no values for what is null, and may be of names that are refused', () => {
    const metrics = [
      { ...TEMP, isNull: true },
      { name: 'a\u202e', datatype: Double, double: 1 },
      { alias: 9, datatype: Double, double: 1 },
    ]
    expect(run([message('NBIRTH', { seq: 0, metrics })])[0]).toMatchObject({
      stored: {},
      lost: ['"a\\u202e"', 'alias 9'],
      state: 'online',
    })
  })
})

describe('what comes without a birth', () => {
  test('is stored by name, refused by alias, and asks for a rebirth', () => {
    const metrics = [
      { name: 'temp', datatype: Double, double: 21 },
      { alias: 1, double: 22 },
      { alias: 7, datatype: Double, double: 1 },
    ]
    expect(run([message('NDATA', { seq: 9, metrics })])[0]).toEqual({
      state: 'unknown',
      stored: { temp: 21 },
      lost: ['alias 1', 'alias 7'],
      asks: true,
      gap: false,
    })
  })

  test('asks once, and again when the rebirth does not come', () => {
    const often = Array.from({ length: 61 }, (_, at) => ndata(at, 1))
    const asks = run(often, REBIRTH_AGAIN_MS / 30).map(({ asks }) => asks)
    expect(asks.flatMap((one, at) => (one ? [at] : []))).toEqual([0, 30, 60])
  })

  test('of a device asks for its birth once, also where it has names', () => {
    const named = message(
      'DDATA',
      { seq: 1, metrics: [{ name: 'flow', datatype: Double, double: 1 }] },
      'd',
    )
    expect(run([NBIRTH, named, ddata(2, 5), ddata(3, 5)])).toMatchObject([
      { asks: false },
      { stored: { flow: 1 }, asks: true },
      { asks: false },
      { asks: false },
    ])
  })

  test('is left as it is where a birth has nothing to add', () => {
    const known = { name: 'temp', datatype: Double, double: 1 }
    const one = message('NDATA', { seq: 1, metrics: [known, { name: 'x' }] })
    const { session } = step(unknownSession(), NBIRTH, 0)
    const { metrics } = step(session, one, 0)
    expect(metrics.map((metric, at) => metric === one.payload.metrics[at])).toEqual([true, true])
  })

  test('of a device asks for its birth, too', () => {
    expect(run([NBIRTH, ddata(1, 5)])[1]).toMatchObject({
      state: 'online',
      stored: {},
      asks: true,
      gap: false,
    })
    expect(run([DBIRTH])[0]).toMatchObject({ state: 'unknown', stored: { flow: 1 }, asks: true })
    const death = message('DDEATH', { seq: 2 }, 'd')
    expect(run([NBIRTH, DBIRTH, death, ddata(3, 5)])[3]).toMatchObject({
      lost: ['alias 2'],
      asks: true,
    })
  })

  test('of another datatype than that of the alias is of another birth', () => {
    const strange = message('NDATA', { seq: 1, metrics: [{ alias: 1, datatype: Int64, long: 5n }] })
    expect(run([NBIRTH, strange])[1]).toMatchObject({ stored: {}, lost: ['alias 1'], asks: true })
    const named = message('NDATA', {
      seq: 1,
      metrics: [{ name: 'temp', datatype: Int64, long: 5n }],
    })
    expect(run([NBIRTH, named])[1]).toMatchObject({ stored: { temp: 5 }, lost: [], asks: false })
  })
})

describe('a gap', () => {
  test('makes aliases doubtful until the rebirth', () => {
    const again = message('NBIRTH', { seq: 0, metrics: [bd(3), TEMP] })
    expect(run([NBIRTH, ndata(2, 21), ndata(3, 22), again, ndata(1, 23)]).slice(1)).toEqual([
      { state: 'unknown', stored: {}, lost: ['alias 1'], asks: true, gap: true },
      { state: 'unknown', stored: {}, lost: ['alias 1'], asks: false, gap: false },
      { state: 'online', stored: { temp: 20 }, lost: [], asks: false, gap: false },
      { state: 'online', stored: { temp: 23 }, lost: [], asks: false, gap: false },
    ])
  })

  test('asks for nothing if a rebirth was asked for just before', () => {
    expect(run([NBIRTH, ddata(1, 5), ndata(3, 21)])).toMatchObject([
      {},
      { state: 'online', asks: true, gap: false },
      { state: 'unknown', asks: false, gap: true },
    ])
  })

  test('is not where the numbers begin again at 256', () => {
    const long = Array.from({ length: 600 }, (_, at) => ndata((at + 1) % 256, at))
    const outcomes = run([NBIRTH, ...long])
    expect(outcomes.filter(({ gap, asks }) => gap || asks)).toEqual([])
    expect(outcomes.at(-1)?.stored).toEqual({ temp: 599 })
  })

  test('is a message that comes twice, or without a number', () => {
    expect(run([NBIRTH, ndata(1, 21), ndata(1, 21)])[2]).toMatchObject({ gap: true, asks: true })
    expect(run([NBIRTH, message('NDATA', { timeMs: 1 })])[1]).toMatchObject({
      gap: true,
      asks: true,
    })
  })
})

describe('a death', () => {
  test('ends the session of its bdSeq; data after it asks for a rebirth', () => {
    const death = message('NDEATH', { metrics: [bd(3)] })
    expect(run([NBIRTH, death, ndata(1, 5)]).slice(1)).toEqual([
      { state: 'offline', stored: {}, lost: [], asks: false, gap: false },
      { state: 'offline', stored: {}, lost: ['alias 1'], asks: true, gap: false },
    ])
  })

  test('of a connection before it does nothing', () => {
    const death = message('NDEATH', { metrics: [bd(2)] })
    expect(run([NBIRTH, death, ndata(1, 5)])[2]).toMatchObject({
      state: 'online',
      stored: { temp: 5 },
    })
  })

  test('of any connection is believed where a birth may have been missed', () => {
    const death = message('NDEATH', { metrics: [bd(4)] })
    expect(run([NBIRTH, ndata(5, 1), death]).map(({ state }) => state)).toEqual([
      ...['online', 'unknown', 'offline'],
    ])
  })

  test('is believed where nothing else is known', () => {
    expect(run([message('NDEATH', { metrics: [] })])[0].state).toBe('offline')
    expect(run([NBIRTH, message('NDEATH', { metrics: [] })])[1].state).toBe('offline')
  })
})

/** An edge node with one device, whose aliases are others after every birth. */
class EdgeNode {
  #births = 0
  #bdSeq = -1
  #seq = 0
  #count = 0
  /** Of each message, how many node births there were before it. @type {Map<Message, number>} */
  births = new Map()

  /** @param {'connect' | 'rebirth' | 'ndata' | 'ddata' | 'device'} what */
  send(what) {
    const messages = {
      connect: () => [...this.#death(), ...this.#birth(true)],
      rebirth: () => this.#birth(false),
      ndata: () => [this.#next('NDATA', this.#data('n'))],
      ddata: () => [this.#next('DDATA', this.#data('d'), 'd')],
      device: () => [this.#next('DDEATH', [], 'd'), this.#deviceBirth()],
    }[what]()
    for (const one of messages) this.births.set(one, this.#births)
    return messages
  }

  #death() {
    return this.#bdSeq < 0 ? [] : [message('NDEATH', { metrics: [bd(this.#bdSeq)] })]
  }

  /** @param {boolean} isNew */
  #birth(isNew) {
    if (isNew) this.#bdSeq++
    this.#births++
    this.#seq = -1
    return [this.#next('NBIRTH', [bd(this.#bdSeq), ...this.#metrics('n')]), this.#deviceBirth()]
  }

  #deviceBirth() {
    return this.#next('DBIRTH', this.#metrics('d'), 'd')
  }

  /**
   * @param {MessageType} type
   * @param {import('../../../src/formats/sparkplug/write.js').Written[]} metrics
   * @param {string} [device]
   */
  #next(type, metrics, device) {
    this.#seq = (this.#seq + 1) % 256
    return message(type, { seq: this.#seq, timeMs: this.#count, metrics }, device)
  }

  /**
   * Two metrics, of which the alias of one is that of the other in the next birth.
   *
   * @param {string} scope
   */
  #metrics(scope) {
    return this.#data(scope).map((metric, at) => ({
      name: `${scope}${at}`,
      datatype: Double,
      ...metric,
    }))
  }

  /** Each value is there once, and tells its metric. @param {string} scope */
  #data(scope) {
    return [0, 1].map((at) => {
      const alias = (scope === 'n' ? 0 : 2) + ((at + this.#births) % 2)
      return { alias, double: at + 2 * ++this.#count }
    })
  }
}

/** @type {('connect' | 'rebirth' | 'ndata' | 'ddata' | 'device')[]} */
const ACTIONS = ['connect', 'rebirth', 'ndata', 'ddata', 'device']

/** Follows an edge node, and checks each value that is stored. */
class Follower {
  session = unknownSession()
  nowMs = 0
  stored = new Set()
  /** Whether a birth was missed, and all numbers after it fit: nobody can tell. */
  isDeceived = false
  #birth = 0
  #node

  /** @param {EdgeNode} node */
  constructor(node) {
    this.#node = node
  }

  /** @param {Message} one  @returns {boolean}  Whether a rebirth is asked for. */
  take(one) {
    const birth = this.#node.births.get(one) ?? 0
    const wasOnline = this.session.state === 'online'
    const outcome = step(this.session, one, this.nowMs)
    const { session, asksRebirth } = outcome
    this.session = session
    if (one.type === 'NBIRTH') {
      this.#birth = birth
      this.isDeceived = false
    } else if (wasOnline && session.state === 'online' && birth !== this.#birth) {
      this.isDeceived = true
    }
    for (const { metric, value } of saidOf(one, outcome).measurements) {
      const index = Number(value) % 2
      if (!this.isDeceived && metric !== `${metric[0]}${index}`)
        throw new Error(`${value} is stored as ${metric}`)
      if (this.stored.has(value)) throw new Error(`${value} is stored twice`)
      this.stored.add(value)
    }
    return asksRebirth
  }
}

describe('an edge node whose aliases change with every birth', () => {
  test('has no value under a wrong name, or twice, whichever messages are lost', () => {
    let runs = 0
    for (const first of ACTIONS) {
      for (const second of ACTIONS) {
        const node = new EdgeNode()
        /** @type {Message[]} */
        const sent = []
        for (const action of ['connect', first, second, 'ndata', 'ddata']) {
          sent.push(...node.send(/** @type {'connect'} */ (action)))
        }
        for (let lost = 0; lost < 2 ** sent.length; lost++) {
          const follower = new Follower(node)
          for (const [at, one] of sent.entries()) if (!(lost & (1 << at))) follower.take(one)
          runs++
        }
      }
    }
    expect(runs).toBeGreaterThan(5_000)
  })

  test('loses nothing, and is asked for nothing, while no message is lost', () => {
    const random = seeded(1)
    const node = new EdgeNode()
    const follower = new Follower(node)
    let values = 0
    for (let round = 0; round < 3_000; round++) {
      const action = round === 0 ? 'connect' : ACTIONS[Math.floor(random() * ACTIONS.length)]
      for (const one of node.send(action)) {
        values += one.payload.metrics.filter(({ name }) => name !== 'bdSeq').length
        expect(follower.take(one)).toBe(false)
      }
    }
    expect([follower.stored.size, follower.isDeceived]).toEqual([values, false])
  })

  test('is followed again after the rebirth that was asked for', () => {
    const random = seeded(2)
    const node = new EdgeNode()
    const follower = new Follower(node)
    for (let round = 0; round < 2_000; round++) {
      for (const one of node.send(ACTIONS[Math.floor(random() * ACTIONS.length)])) {
        if (random() < 0.7) follower.take(one)
      }
      // A connection that was lost is noticed, and nothing is lost after it.
      if (random() < 0.5) follower.session = unknownSession()
      const [data] = node.send('ndata')
      follower.nowMs += REBIRTH_AGAIN_MS
      if (follower.take(data)) for (const one of node.send('rebirth')) follower.take(one)
      if (follower.isDeceived) continue
      expect(follower.session.state).toBe('online')
      const before = follower.stored.size
      for (const one of [...node.send('ndata'), ...node.send('ddata')]) follower.take(one)
      expect(follower.stored.size - before).toBeGreaterThanOrEqual(2)
    }
  })
})
