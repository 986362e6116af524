// What is desired of devices is published as it is stored, whoever changes it meanwhile.
import { describe, expect, test } from '@jest/globals'
import { desiredSensorOf, isAsWanted, leavesOf } from '@sandglass/common/desired'
import { Topics } from '@sandglass/common/topics'
import pino from 'pino'
import { mayPublish, maySubscribe } from '../src/broker/entrance/access.js'
import { MemoryBudget } from '../src/memory.js'
import { DesiredStates, NoRoom, NotTold } from '../src/sensors/desired.js'
import { startIngest } from './support/ingest.js'

const ID = '00000000-0000-4000-8000-000000000001'

/** A table of one row, and a broker that keeps a list. */
function build() {
  /** @type {{ sensor: string, state: string | null, changed: Date } | undefined} */
  let row
  /** @type {string[]} */
  const done = []
  const world = {
    done,
    isAway: false,
    /** Called when something is told. */
    onTell: () => {},
    /** @param {string | null} state  @param {number} [changedMs] */
    put(state, changedMs = 5) {
      row = { sensor: 's', state, changed: new Date(changedMs) }
    },
    get row() {
      return row
    },
  }
  const storage = {
    /** @param {string} query  @param {unknown[]} params */
    async read(query, params) {
      if (query.startsWith('DELETE')) {
        const isRow = query.startsWith('DELETE FROM')
        if (isRow) done.push('deleted')
        if (!isRow && row && row.changed.getTime() * 1000 <= Number(params[0])) row.state = null
        if (isRow && row && row.changed.getTime() * 1000 <= Number(params[0])) row = undefined
        return []
      }
      return row ? [row] : []
    },
    async *pages() {
      if (row) yield { sensor_id: ID }
    },
  }
  const states = new DesiredStates({
    storage,
    keyspace: 'k',
    async tell(topic, payload) {
      if (world.isAway) throw new Error('away')
      done.push(`${topic} ${payload}`)
      world.onTell()
    },
    logger: pino({ level: 'silent' }),
  })
  return { states, world }
}

describe('what is desired', () => {
  test('is published once, and again if it changes before that is done', async () => {
    const { states, world } = build()
    world.put('1')
    world.onTell = () => {
      world.put('2')
      world.onTell = () => {}
    }
    await states.publish(ID)
    expect(world.done).toEqual(['desired/s 1', 'desired/s 2'])
  })

  test('of a sensor that is deleted is cleared before its row goes', async () => {
    const { states, world } = build()
    world.put('1')
    await states.drop(ID, 6_000)
    expect(world.done).toEqual(['desired/s ', 'deleted'])
    await states.drop(ID, 6_000)
    expect(world.done).toHaveLength(2)
  })

  test('since then stays', async () => {
    const { states, world } = build()
    world.put('1', 7)
    await states.drop(ID, 6_000)
    expect(world.row?.state).toBe('1')
    expect(world.done).toEqual(['deleted', 'desired/s 1'])
  })

  test('of a sensor that is deleted is forgotten without the broker, and cleared with it', async () => {
    const { states, world } = build()
    world.put('1')
    world.isAway = true
    await expect(states.drop(ID, 6_000)).rejects.toThrow(NotTold)
    expect(world.row?.state).toBeNull()
    world.isAway = false
    // As when the connection is back.
    await states.publishAll()
    expect(world.done).toEqual(['desired/s '])
    await states.drop(ID, 6_000)
    expect(world.done).toEqual(['desired/s ', 'desired/s ', 'deleted'])
  })

  test('is all published, as soon as the broker takes it', async () => {
    const { states, world } = build()
    world.put('1')
    world.isAway = true
    const all = states.publishAll()
    await new Promise((resolve) => setTimeout(resolve, 20))
    world.isAway = false
    await all
    expect(world.done).toEqual(['desired/s 1'])
    expect(states.counts).toEqual({ published: 1, failures: 1 })
  })

  test('is told to have no room, and keeps no other waiting', async () => {
    const other = { sensor: 't', state: '2', changed: new Date(5) }
    /** @type {Map<unknown, any>} */
    const rows = new Map([
      ['1', { sensor: 's', state: '1', changed: new Date(5) }],
      ['2', other],
    ])
    /** @type {string[]} */
    const done = []
    const states = new DesiredStates({
      storage: {
        read: async (_, [id]) => [rows.get(id)],
        async *pages() {
          for (const id of rows.keys()) yield { sensor_id: id }
        },
      },
      keyspace: 'k',
      async tell(topic) {
        if (topic === 'desired/s') throw new NoRoom()
        done.push(topic)
      },
      logger: pino({ level: 'silent' }),
    })
    await states.publishAll()
    expect(done).toEqual(['desired/t'])
    expect(states.counts).toEqual({ published: 1, failures: 1 })
    await expect(states.publish('1')).rejects.toThrow('give ingest more memory')
  })

  test('is refused by the broker inside when what is retained has no room', async () => {
    const memory = new MemoryBudget(undefined, { retained: 4_000 })
    const ingest = await startIngest({}, { memory })
    const { retain } = ingest
    await expect(retain('desired/s', Buffer.alloc(4_000, 'x'))).rejects.toThrow(NoRoom)
    await retain('desired/s', Buffer.from('{}'))
    await ingest.stop()
  })
})

test('a topic of it is its device’s to read, and nobody’s to write', () => {
  const topics = new Topics()
  /** @param {string[]} scopes  @param {string} [sensorId] */
  const grant = (scopes, sensorId) => /** @type {any} */ ({ scopes: new Set(scopes), sensorId })
  const own = grant(['read', 'write'], '7a9b6e9e-0000-4000-8000-000000000000')
  const uuid = own.sensorId
  expect(maySubscribe(own, `desired/${uuid}`, topics)).toBe(true)
  for (const filter of [
    'desired/other',
    'desired/+',
    'desired/#',
    `desired/${uuid}/#`,
    'desired',
  ]) {
    expect([filter, maySubscribe(own, filter, topics)]).toEqual([filter, false])
  }
  expect(maySubscribe(grant(['read']), 'desired/#', topics)).toBe(true)
  expect(maySubscribe(grant(['write']), 'desired/a', topics)).toBe(false)
  for (const who of [undefined, own, grant(['write'])]) {
    for (const topic of [`desired/${uuid}`, 'desired', 'desired/a/b']) {
      expect(mayPublish(who, topic, topics)).toBe(false)
    }
    expect(mayPublish(who, `sensors/${uuid}/desired`, topics)).toBe(true)
  }
})

test('what is wanted of each metric is named as measurements are', () => {
  const place = { lat: 1, lon: 2 }
  expect(leavesOf({ a: { b: { c: 1 }, d: null }, place, list: [{}] })).toEqual([
    { metric: 'a.b.c', value: 1 },
    { metric: 'a.d', value: null },
    { metric: 'place', value: place },
    { metric: 'list', value: [{}] },
  ])
  /** @param {number} depth */
  const nested = (depth) => JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`)
  expect(leavesOf(nested(16))).toHaveLength(1)
  expect(() => leavesOf(nested(17))).toThrow(RangeError)
  expect(() => leavesOf({ a: JSON.parse('['.repeat(5_000) + ']'.repeat(5_000)) })).toThrow('within')
})

test.each(
  /** @type {[any, any, boolean][]} */ ([
    [1, 1, true],
    [1, 1n, true],
    [1.5, 1n, false],
    ['1', 1, false],
    ['1', 1n, false],
    [true, true, true],
    [null, null, true],
    [null, undefined, true],
    [0, null, false],
    [{ lat: 1, lon: 2 }, { lat: 1, lon: 2 }, true],
    [{ lat: 1, lon: 3 }, { lat: 1, lon: 2 }, false],
    [1, { lat: 1, lon: 2 }, false],
  ]),
)('%p wanted, %p reported: %p', (wanted, reported, expected) => {
  expect(isAsWanted(wanted, reported)).toBe(expected)
})

test.each([
  ['desired/a', 'a'],
  ['desired/', undefined],
  ['desired', undefined],
  ['desired/a/b', undefined],
  ['desiredx/a', undefined],
])('%s is of %s', (topic, sensor) => {
  expect(desiredSensorOf(topic)).toBe(sensor)
})
