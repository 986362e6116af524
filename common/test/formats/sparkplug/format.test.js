// The format as the registry has it: which topics carry it, whose measurements they are, and what a
// payload says without its births.
import { describe, expect, test } from '@jest/globals'
import { decode, formatNamed } from '../../../src/formats/registry.js'
import { rebirthCommand } from '../../../src/formats/sparkplug/command.js'
import { completed } from '../../../src/formats/sparkplug/complete.js'
import { readPayload } from '../../../src/formats/sparkplug/payload.js'
import { DATATYPE } from '../../../src/formats/sparkplug/value.js'
import { writePayload } from '../../../src/formats/sparkplug/write.js'
import { SettingError } from '../../../src/options.js'
import { parseTopics } from '../../../src/topics.js'
import { seeded } from '../fuzz.js'

const { Double, Int32 } = DATATYPE
const TEMPLATE = 'spBv1.0/{group}/{type}/{node}[/{device}]'
const TOPICS = parseTopics(`${TEMPLATE} in sparkplug-b`)
const NUMBER = 30

/** @param {string} topic  @param {Parameters<typeof writePayload>[0]} payload */
function said(topic, payload) {
  const format = /** @type {number} */ (TOPICS.formatOf(topic))
  return decode(format, TOPICS.place(topic, format), writePayload(payload))
}

/** @param {Parameters<typeof writePayload>[0]} payload */
const valuesOf = (payload, type = 'NDATA') => {
  const { measurements, refused } = said(`spBv1.0/g/${type}/n`, payload)
  return {
    stored: measurements.map(({ metric, timeMs, value }) => [metric, timeMs, value]),
    lost: refused.map(({ field, reason }) => `${field}: ${reason}`),
  }
}

describe('a topic', () => {
  test.each([
    ['spBv1.0/g/NBIRTH/n', 'g∕n', 'g∕n'],
    ['spBv1.0/g/DDATA/n/d', 'g∕n∕d', 'g∕n'],
  ])('%s is of the sensor %s, for which %s speaks', (topic, sensor, owner) => {
    expect(TOPICS.formatOf(topic)).toBe(NUMBER)
    expect(TOPICS.place(topic, NUMBER)).toMatchObject({ topic, sensor, owner, metric: undefined })
    expect([TOPICS.sensorOf(topic), TOPICS.ownerOf(topic)]).toEqual([sensor, owner])
    expect(TOPICS.senderOf(topic)).toMatchObject({ owner, commands: 'spBv1.0/g/NCMD/n' })
  })

  test.each([
    ...['spBv1.0/g/NCMD/n', 'spBv1.0/g/DCMD/n/d', 'spBv1.0/STATE/host', 'STATE/host'],
    ...['spBv1.0/g/NDATA', 'spBv1.0/g/NDATA/n/d/e', 'spAv1.0/g/NDATA/n', 'spBv1.0/g/ndata/n'],
  ])('%s carries no measurements', (topic) => {
    expect(TOPICS.formatOf(topic)).toBeUndefined()
  })

  test('of which the sensor can have no such name has no sender', () => {
    for (const group of ['x'.repeat(127), 'a∕b', '', 'a\u202e']) {
      expect([group, TOPICS.senderOf(`spBv1.0/${group}/NDATA/n`)]).toEqual([group, undefined])
    }
    // The device may have any: its edge node is followed all the same.
    expect(TOPICS.senderOf(`spBv1.0/g/DDATA/n/${'x'.repeat(200)}`)?.owner).toBe('g∕n')
  })

  test('of commands is of the edge node that may hear them', () => {
    expect(TOPICS.sensorOf('spBv1.0/g/NCMD/n')).toBe('g∕n')
    expect(TOPICS.ownerOf('spBv1.0/g/DCMD/n/+')).toBe('g∕n')
    expect(TOPICS.ownerOf('spBv1.0/g/NCMD/n/#')).toBe('g∕n')
    for (const wide of ['spBv1.0/+/NCMD/n', 'spBv1.0/g/NCMD/+', 'spBv1.0/g/+/+', 'spBv1.0/#']) {
      expect([wide, TOPICS.sensorOf(wide), TOPICS.ownerOf(wide)]).toEqual([
        wide,
        undefined,
        undefined,
      ])
    }
  })

  test.each([
    'spBv1.0/g/NDATA/a∕b',
    'spBv1.0/a∕b/NDATA/n',
    'spBv1.0/g/DDATA/n/a∕b',
    'spBv1.0//NDATA/n',
  ])('%s is refused: another one could be of the same sensor', (topic) => {
    expect(() => said(topic, { seq: 1 })).toThrow('is empty, or has ∕ in it')
    expect(TOPICS.sensorOf(topic)).toBeUndefined()
  })

  test.each([
    ['spBv1.0/g/NDATA/n/d', 'a topic of NDATA is of an edge node, but names a device'],
    ['spBv1.0/g/DBIRTH/n', 'a topic of DBIRTH names none'],
  ])('%s is refused: %s', (topic, reason) => {
    expect(() => said(topic, { seq: 1 })).toThrow(reason)
  })
})

describe('a template', () => {
  test('may name sensors otherwise, and have texts before', () => {
    const topics = parseTopics(
      `site/1/${TEMPLATE} as {group}-{node}[-{device}] in sparkplug-b,plant/{sensor}`,
    )
    expect(topics.filters).toEqual([
      ...['sensors/#', 'site/1/spBv1.0/+/+/+', 'site/1/spBv1.0/+/+/+/+', 'plant/+'],
    ])
    expect(topics.followedFilters).toEqual(topics.filters.slice(1, 3))
    const topic = 'site/1/spBv1.0/g/DDATA/n/d'
    expect(topics.place(topic, NUMBER)).toMatchObject({ sensor: 'g-n-d', owner: 'g-n' })
    expect(topics.senderOf(topic)?.commands).toBe('site/1/spBv1.0/g/NCMD/n')
    expect(topics.senderOf('plant/s')).toBeUndefined()
    expect(topics.place('plant/s', 0)).toEqual({ topic: 'plant/s', sensor: 's', metric: undefined })
  })

  test.each([
    'spBv1.0/{group}/{type}/{node} in sparkplug-b',
    'spBv1.0/{group}/{type}/{node}/{device} in sparkplug-b',
    'spBv1.0/{type}/{group}/{node}[/{device}] in sparkplug-b',
    'spBv1.0/{x}/{group}/{type}/{node}[/{device}] in sparkplug-b',
    '{group}/{type}/{node}[/{device}] in sparkplug-b',
    'spBv1.0/{sensor} in sparkplug-b',
  ])('%s is refused with its remedy', (text) => {
    expect(() => parseTopics(text)).toThrow(SettingError)
    expect(() => parseTopics(text)).toThrow('and then {group}/{type}/{node}[/{device}]')
  })

  test.each([
    [TEMPLATE, 'each level is a text'],
    [`${TEMPLATE} as {line} in sparkplug-b`, 'needs {line}'],
    [`${TEMPLATE} as {device} in sparkplug-b`, 'needs {device}'],
    [`${TEMPLATE} in sparkplug-b,spBv1.0/a/b/c in json-object`, 'could fit it'],
    [`sensors/${TEMPLATE} in sparkplug-b`, 'below sensors'],
  ])('%s is refused: %s', (text, remedy) => {
    expect(() => parseTopics(text)).toThrow(remedy)
  })
})

describe('a payload', () => {
  const named = { name: 'a', datatype: Double, double: 1 }

  test('has the time of the metric, else that of the message', () => {
    const payload = { timeMs: 5, metrics: [named, { ...named, name: 'b', timeMs: 3 }] }
    expect(valuesOf(payload).stored).toEqual([
      ['a', 5, 1],
      ['b', 3, 1],
    ])
    expect(valuesOf({ metrics: [named] }).stored).toEqual([['a', undefined, 1]])
  })

  test('has units, where they are told', () => {
    const metrics = [
      { ...named, unit: 'Cel' },
      { ...named, name: 'b', unit: '' },
      { ...named, name: 'c', unit: 'x'.repeat(100) },
    ]
    const { units, measurements, refused } = said('spBv1.0/g/NDATA/n', { metrics })
    expect([measurements.length, units]).toEqual([3, new Map([['a', 'Cel']])])
    expect(refused.map(({ field }) => field)).toEqual(['c'])
  })

  test('that is historical has its own time, or is refused', () => {
    const historical = { ...named, isHistorical: true }
    const payload = { timeMs: 5, metrics: [named, historical, { ...historical, timeMs: 3 }] }
    expect(valuesOf(payload)).toEqual({
      stored: [
        ['a', 5, 1],
        ['a', 3, 1],
      ],
      lost: ['a: the value of a is historical, without a time of its own'],
    })
  })

  test('is not stored where it is null, transient, or no measurement', () => {
    const metrics = [
      { ...named, isNull: true },
      { ...named, isTransient: true },
      { ...named, name: 'bdSeq' },
      { ...named, name: 'Node Control/Rebirth' },
      { ...named, name: 'Device Control/Rebirth' },
    ]
    expect(said('spBv1.0/g/NDATA/n', { metrics })).toMatchObject({ measurements: [], refused: [] })
  })

  test('of a death measures nothing', () => {
    for (const topic of ['spBv1.0/g/NDEATH/n', 'spBv1.0/g/DDEATH/n/d']) {
      expect(said(topic, { metrics: [named, { alias: 1 }] })).toMatchObject({
        measurements: [],
        refused: [],
        isSilent: true,
      })
    }
  })

  test('by alias alone is refused; with a name of its own beside it, alone', () => {
    const nameless = { alias: 7, double: 1 }
    const reason = 'alias 7: no birth that was received tells its name'
    expect(valuesOf({ metrics: [named, nameless] })).toEqual({
      stored: [['a', undefined, 1]],
      lost: [reason],
    })
    expect(() => valuesOf({ metrics: [nameless] })).toThrow(reason)
  })

  test('that says nothing at all is refused: it may be anything', () => {
    expect(() => valuesOf({})).toThrow('neither time nor metrics')
    expect(said('spBv1.0/g/NDATA/n', { seq: 0 }).isSilent).toBe(true)
  })

  test('of a birth tells what is strange in it', () => {
    const twice = [
      { ...named, alias: 1 },
      { ...named, name: 'b', alias: 1 },
    ]
    expect(valuesOf({ metrics: twice }, 'NBIRTH').lost).toEqual([
      'alias 1: the birth has two names for it',
      'seq: the birth has no seq from 0 to 255',
    ])
    expect(valuesOf({ seq: 256, metrics: [named] }, 'NBIRTH').lost).toHaveLength(1)
    expect(valuesOf({ seq: 255, metrics: [named] }, 'NBIRTH').lost).toHaveLength(0)
    expect(said('spBv1.0/g/DBIRTH/n/d', { metrics: [named] }).refused).toEqual([])
    expect(valuesOf({ metrics: twice }, 'NDATA').lost).toEqual([])
  })

  test('may have more bytes than others, for its names', () => {
    expect(formatNamed('sparkplug-b')?.bytesMax).toBe(8 * 2 ** 20)
  })
})

describe('a payload that is completed', () => {
  const payload = {
    timeMs: 5,
    seq: 7,
    uuid: 'uuid',
    metrics: [
      { alias: 1, timeMs: 3, double: 1, unit: 'Cel' },
      { name: 'b', int: 2 },
      { name: 'c', alias: 3, datatype: Int32, int: 3 },
    ],
  }
  const bytes = writePayload(payload)
  const { metrics } = readPayload(bytes)

  test('has what was added, and all that it had', () => {
    const after = [
      { ...metrics[0], name: 'a', datatype: Double },
      { ...metrics[1], datatype: Int32 },
      metrics[2],
    ]
    const whole = completed(bytes, metrics, after)
    expect(readPayload(whole)).toEqual({ ...readPayload(bytes), metrics: after })
    // The uuid, which we do not read.
    expect(whole.includes('uuid')).toBe(true)
  })

  test('may have any names, values and datatypes, of any length', () => {
    const random = seeded(8)
    const some = (/** @type {number} */ below) => Math.floor(random() * below)
    const text = () => ['x', 'é', '温', '🌡'][some(4)].repeat(1 + some(some(2) ? 6 : 60))
    for (let round = 0; round < 1_000; round++) {
      const written = Array.from({ length: 1 + some(5) }, (_, alias) => ({
        alias,
        string: some(2) ? text().repeat(1 + some(80)) : text(),
        ...(some(3) === 0 && { name: text() }),
        ...(some(3) === 0 && { datatype: 12 }),
      }))
      const whole = writePayload({ timeMs: some(2) ? 7 : undefined, seq: 1, metrics: written })
      const before = readPayload(whole).metrics
      const after = before.map((one) =>
        some(3) === 0
          ? one
          : { ...one, name: one.name ?? text(), datatype: one.datatype ?? some(2 ** some(32)) },
      )
      const read = readPayload(completed(whole, before, after))
      expect(read).toEqual({ ...readPayload(whole), metrics: after })
    }
  })

  test('is the same where there is nothing to add', () => {
    expect(completed(bytes, metrics, [...metrics])).toBe(bytes)
  })

  test('keeps every other byte, whatever it is made of', () => {
    const random = seeded(7)
    let same = 0
    for (let round = 0; round < 3_000; round++) {
      const odd = Buffer.from(bytes)
      odd[Math.floor(random() * odd.length)] = Math.floor(random() * 256)
      let before
      try {
        before = readPayload(odd)
      } catch {
        continue
      }
      const after = before.metrics.map((one) => ({ ...one, name: one.name ?? 'added' }))
      const whole = readPayload(completed(odd, before.metrics, after))
      expect(whole).toEqual({ ...before, metrics: after })
      same++
    }
    expect(same).toBeGreaterThan(500)
  })
})

test('the command that asks for a rebirth is what the specification says', () => {
  const { timeMs, seq, metrics } = readPayload(rebirthCommand(1_767_225_600_000))
  expect([timeMs, seq]).toEqual([1_767_225_600_000, undefined])
  expect(metrics).toMatchObject([
    {
      name: 'Node Control/Rebirth',
      alias: undefined,
      datatype: 11,
      value: { member: 'boolean_value', content: true },
    },
  ])
})

test.each([21.5, Number.NaN, Number.POSITIVE_INFINITY, 1e300])(
  'an integer whose value is the double %p is refused alone',
  (double) => {
    for (const datatype of [3, 4, 7, 8]) {
      const { measurements, refused } = said('spBv1.0/g/DDATA/n/d', {
        seq: 0,
        metrics: [
          { name: 'odd', datatype, double },
          { name: 'ok', datatype: Double, double: 1 },
        ],
      })
      expect(measurements.map(({ metric }) => metric)).toEqual(['ok'])
      expect(refused).toMatchObject([
        { field: 'odd', reason: expect.stringMatching(/integer|bits/) },
      ])
    }
  },
)
