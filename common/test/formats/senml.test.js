// Packs are those of RFC 8428, section 5.1, unless a test says otherwise.
import { describe, expect, test } from '@jest/globals'
import { encode, Tagged } from 'cborg'
import { senmlCbor } from '../../src/formats/senml-cbor.js'
import { senmlJson } from '../../src/formats/senml-json.js'
import { KIND, settleTimes } from '../../src/measurement.js'
import { expectLinear } from '../support/growth.js'
import { fuzz, seeded } from './fuzz.js'

const TOPIC = { topic: 'senml/boiler', sensor: 'boiler', metric: undefined }
const NOWHERE = { topic: 'senml', sensor: undefined, metric: undefined }
const DEVICE = 'urn:dev:ow:10e2073a01080063'

/** @param {unknown} pack  @param {import('../../src/formats/types.js').Place} [place] */
const decode = (pack, place = NOWHERE) => senmlJson.decode(place, Buffer.from(JSON.stringify(pack)))

/** @param {unknown} pack  @param {import('../../src/formats/types.js').Place} [place] */
const values = (pack, place) =>
  decode(pack, place).measurements.map(({ metric, timeMs, value }) => [metric, timeMs, value])

const TYPES = [
  { bn: `${DEVICE}:`, n: 'temp', u: 'Cel', v: 23.1 },
  { n: 'label', vs: 'Machine Room' },
  { n: 'open', vb: false },
  { n: 'nfc-reader', vd: 'aGkgCg' },
]

const SERIES = [
  {
    bn: 'urn:dev:ow:10e2073a0108006:',
    bt: 1.276020076001e9,
    bu: 'A',
    bver: 5,
    n: 'voltage',
    u: 'V',
    v: 120.1,
  },
  { n: 'current', t: -5, v: 1.2 },
  { n: 'current', t: -4, v: 1.3 },
  { n: 'current', v: 1.7 },
]

const AGGREGATE = [
  { bn: '2001:db8::2/', bt: 1.320078429e9, n: 'temperature', u: 'Cel', v: 25.2 },
  { n: 'humidity', u: '%RH', v: 30 },
  { bn: '2001:db8::1/', n: 'temperature', u: 'Cel', v: 12.3 },
  { n: 'humidity', u: '%RH', v: 67 },
]

describe('a pack', () => {
  test('of one device without a metric is of its value', () => {
    expect(decode([{ n: DEVICE, u: 'Cel', v: 23.1 }])).toEqual({
      sensor: DEVICE,
      measurements: [{ metric: 'value', timeMs: undefined, kind: KIND.number, value: 23.1 }],
      refused: [],
      units: new Map([['value', 'Cel']]),
    })
  })

  test('has values of several kinds; binary data is refused, and nothing else', () => {
    const { sensor, measurements, refused, units } = decode(TYPES)
    expect(sensor).toBe(DEVICE)
    expect(measurements).toEqual([
      { metric: 'temp', timeMs: undefined, kind: KIND.number, value: 23.1 },
      { metric: 'label', timeMs: undefined, kind: KIND.text, value: 'Machine Room' },
      { metric: 'open', timeMs: undefined, kind: KIND.boolean, value: false },
    ])
    expect(refused).toEqual([{ field: '[3]', reason: 'it has binary data', fault: 'value' }])
    expect(units).toEqual(new Map([['temp', 'Cel']]))
  })

  test('has bases that stay: names, units, and times', () => {
    expect(values(SERIES)).toEqual([
      ['voltage', 1_276_020_076_001, 120.1],
      ['current', 1_276_020_071_001, 1.2],
      ['current', 1_276_020_072_001, 1.3],
      ['current', 1_276_020_076_001, 1.7],
    ])
    expect(decode(SERIES).units).toEqual(
      new Map([
        ['voltage', 'V'],
        ['current', 'A'],
      ]),
    )
  })

  test('of several devices is of the first; records of others are refused', () => {
    const { sensor, measurements, refused } = decode(AGGREGATE)
    expect([sensor, measurements.length]).toEqual(['2001:db8::2', 2])
    expect(refused.map(({ field, fault }) => [field, fault])).toEqual([
      ['[2]', 'topic'],
      ['[3]', 'topic'],
    ])
    expect(decode(AGGREGATE, TOPIC).measurements).toEqual(measurements)
    expect(decode(AGGREGATE, TOPIC).sensor).toBeUndefined()
  })

  test('adds base values and base sums, where a record has none, too', () => {
    const pack = [{ bn: 'a:', n: 'x', bv: 20, v: 1.5 }, { n: 'y' }, { n: 'z', vs: 'text' }]
    expect(values(pack)).toEqual([
      ['x', undefined, 21.5],
      ['y', undefined, 20],
      ['z', undefined, 'text'],
    ])
    const sums = [
      { bn: 'a:', bs: 100, n: 'x', s: 5 },
      { n: 'y', v: 1, s: 6 },
      { n: 'z', v: 2 },
    ]
    expect(values(sums)).toEqual([
      ...[
        ['x.sum', undefined, 105],
        ['y', undefined, 1],
        ['y.sum', undefined, 106],
      ],
      ...[
        ['z', undefined, 2],
        ['z.sum', undefined, 100],
      ],
    ])
  })

  test('is of the same values as its resolved records', () => {
    const random = seeded(8428)
    const pick = (/** @type {unknown[]} */ ...list) => list[Math.floor(random() * list.length)]
    for (let round = 0; round < 500; round++) {
      const base = {
        n: '',
        t: 0,
        u: /** @type {unknown} */ (undefined),
        v: /** @type {number | undefined} */ (undefined),
      }
      const pack = []
      const resolved = []
      for (let at = 0; at < 5; at++) {
        /** @type {Record<string, any>} */
        const record = { n: pick('a', 'b/c', 'd:e', ''), v: pick(1, 2.5, -3), t: pick(0, 10, -20) }
        if (at === 0 || random() < 0.3)
          record.bn = pick('urn:dev:mac:0024befffe804ff1/', 'x:', 'x/y:')
        if (at === 0 || random() < 0.3) record.bt = pick(1.7e9, 1.6e9)
        if (random() < 0.3) record.bu = pick('Cel', 'K')
        if (random() < 0.3) record.bv = pick(100, 0.5)
        if (random() < 0.3) record.u = pick('V', 'A')
        pack.push(record)
        base.n = record.bn ?? base.n
        base.t = record.bt ?? base.t
        base.u = record.bu ?? base.u
        base.v = record.bv ?? base.v
        const u = record.u ?? base.u
        resolved.push({
          n: base.n + record.n,
          t: base.t + record.t,
          v: record.v + (base.v ?? 0),
          u,
        })
      }
      for (const place of [NOWHERE, TOPIC, { ...TOPIC, sensor: 'x' }]) {
        expect(decode(pack, place)).toEqual(decode(resolved, place))
      }
    }
  })
})

describe('a name', () => {
  test.each([
    ['boiler/temp', 'temp'],
    ['boiler:temp', 'temp'],
    ['boiler.temp.max', 'temp.max'],
    ['boiler/pump/flow', 'pump/flow'],
    ['boiler', 'value'],
    ['boilers/temp', 'temp'],
    ['temp', 'temp'],
    [`${DEVICE}/temp`, 'temp'],
    [`${DEVICE}_temp`, 'temp'],
    [`${DEVICE}:`, 'value'],
  ])('below the sensor of the topic is the metric: %s is %s', (n, metric) => {
    expect(values([{ n, v: 1 }], TOPIC)).toEqual([[metric, undefined, 1]])
  })

  test('tells the sensor where the topic does not; a slash in it is one that topics lack', () => {
    expect(decode([{ n: 'hall/rack/temp', v: 1 }]).sensor).toBe('hall∕rack')
    expect(() => decode([{ n: 'temp', v: 1 }])).toThrow('[0]: no sensor is named: give a bn')
    expect(() => decode([{ n: 'a+b/temp', v: 1 }])).toThrow('the sensor must have')
  })

  test('is of one unit', () => {
    const pack = [
      { bn: DEVICE, bt: 1.320067464e9, bu: '%RH', v: 20 },
      { u: 'lon', v: 24.30621 },
      { t: 60, v: 20.3 },
    ]
    expect(values(pack)).toEqual([
      ['value', 1_320_067_464_000, 20],
      ['value', 1_320_067_524_000, 20.3],
    ])
    expect(decode(pack).refused[0].reason).toBe(
      'value is in %RH, but this is in lon: give it another name',
    )
  })
})

describe('a time', () => {
  const receivedMs = 1_767_225_600_000

  test('of zero, or none, is when the message is received', () => {
    expect(
      values([
        { n: 'a:b', t: 0, v: 1 },
        { n: 'a:c', v: 1 },
      ]),
    ).toEqual([
      ['b', undefined, 1],
      ['c', undefined, 1],
    ])
  })

  test('below 2^28 s is relative to that', () => {
    const pack = [
      { bn: 'a:', n: 'b', t: -5, v: 1 },
      { n: 'c', t: 2.5, v: 2, s: 3 },
      { n: 'b', t: 2 ** 28, v: 4 },
      { n: 'b', t: 0, v: 5 },
      { n: 'd', t: -5, vd: 'AA' },
    ]
    const { measurements, isRelative } = decode(pack)
    expect(isRelative).toBe(true)
    expect(values(pack).map(([, timeMs]) => timeMs)).toEqual([
      ...[undefined, undefined, undefined, 2 ** 28 * 1_000, undefined],
    ])
    settleTimes(measurements, receivedMs)
    expect(measurements.map(({ metric, timeMs, value }) => [metric, timeMs, value])).toEqual([
      ['b', receivedMs - 5_000, 1],
      ['c', receivedMs + 2_500, 2],
      ['c.sum', receivedMs + 2_500, 3],
      ['b', 2 ** 28 * 1_000, 4],
      ['b', undefined, 5],
    ])
  })

  test('is not relative where no record says so, or only one that is refused', () => {
    expect(decode([{ n: 'a:b', t: 2 ** 28, v: 1 }]).isRelative).toBeUndefined()
    const refused = { n: 'a:b', t: -5, vs: 'x'.repeat(70_000) }
    expect(decode([{ n: 'a:b', v: 1 }, refused]).isRelative).toBeUndefined()
  })
})

describe('what must be understood', () => {
  test.each([
    [[{ n: 'a:b', v: 1, bver: 11 }], '[0] is of SenML version 11; up to 10 is understood'],
    [[{ n: 'a:b', v: 1, bver: '10' }], '[0] is of SenML version "10"'],
    [
      [
        { n: 'a:b', v: 1 },
        { n: 'a:c', v: 1, new_: 1 },
      ],
      '[1] has the field "new_"',
    ],
    [[{ bn: 7, n: 'b', v: 1 }], 'the bn of [0] is not a text'],
    [[{ n: 'a:b', bt: 'x', v: 1 }], 'the bt of [0] is not a number'],
    [{ n: 'a:b', v: 1 }, 'a SenML pack is an array of records'],
    [[], 'the pack holds no value'],
    [[{ bn: 'a:' }], 'the pack holds no value'],
    [[7], '[0]: the record is not an object'],
  ])('and is not: %j', (pack, reason) => {
    expect(() => decode(pack)).toThrow(reason)
  })

  test('costs its record alone, where it is not of the pack', () => {
    const strange = [
      ...[
        { v: 'x' },
        { vs: 1 },
        { vb: 'true' },
        { v: 1, vs: 'x' },
        {},
        { v: 1, t: 'x' },
        { v: null },
      ],
      ...[{ n: 7, v: 1 }, { v: 1, u: 7 }, { v: 1, u: '\u202e' }, { v: 1, t: 1e300 }, { s: 'x' }],
      ...[{ n: `${'x'.repeat(200)}`, v: 1 }],
    ]
    for (const record of strange) {
      const { measurements, refused } = decode([
        { bn: 'a:', n: 'ok', v: 1 },
        { n: 'b', ...record },
      ])
      expect([record, measurements.length, refused.length]).toEqual([record, 1, 1])
    }
    expect(values([{ n: 'a:b', v: 1, other: 7, ut: 5 }])).toEqual([['b', undefined, 1]])
  })

  test('does not lose the digits of large integers', () => {
    const payload = Buffer.from('[{"n":"a:b","v":9007199254740993}]')
    expect(senmlJson.decode(NOWHERE, payload).measurements[0].value).toBe(9_007_199_254_740_993n)
  })
})

/** @type {Map<string, number>} */
const LABELS = new Map()
for (const [at, name] of ['n', 'u', 'v', 'vs', 'vb', 's', 't', 'ut', 'vd'].entries()) {
  LABELS.set(name, at)
}
for (const [at, name] of ['bver', 'bn', 'bt', 'bu', 'bv', 'bs'].entries()) LABELS.set(name, -1 - at)

/** RFC 8428, section 6. @param {unknown} pack */
function toCbor(pack) {
  if (!Array.isArray(pack)) return Buffer.from(encode(pack))
  const records = pack.map((record) => {
    if (typeof record !== 'object' || record === null || Array.isArray(record)) return record
    return new Map(Object.entries(record).map(([name, value]) => [LABELS.get(name) ?? name, value]))
  })
  return Buffer.from(encode(records))
}

describe('a name that is too long', () => {
  const LENGTH_MAX = 1_024

  test('is refused with its record, and no other', () => {
    const fit = `${'a'.repeat(100)}:${'/'.repeat(LENGTH_MAX - 102)}m`
    expect(decode([{ n: fit, v: 1 }]).measurements).toMatchObject([{ metric: 'm' }])
    expect(
      decode([
        { n: 'a:m', v: 1 },
        { n: `a:${'x'.repeat(LENGTH_MAX)}`, v: 2 },
      ]),
    ).toMatchObject({
      measurements: [{ metric: 'm', value: 1 }],
      refused: [{ field: '[1]', reason: `its name has more than ${LENGTH_MAX} characters` }],
    })
  })

  test('takes time in proportion to its bytes', () => {
    expectLinear(64_000, (size) => {
      const pack = [{ n: `${'/'.repeat(size)}x`, v: 1 }]
      return () => expect(() => decode(pack)).toThrow('its name has more than')
    })
  })

  test('takes time in proportion to its length if it is not too long', () => {
    expectLinear(LENGTH_MAX - 8, (size) => {
      const pack = Array(500).fill({ n: `${'/'.repeat(size)}x`, v: 1 })
      return () => expect(decode(pack, TOPIC).measurements).toHaveLength(500)
    })
  })

  test('takes it apart once for all of its records', () => {
    expectLinear(131_072, (size) => {
      const values = Array.from({ length: size / 128 }, () => ({ v: 1 }))
      const pack = [{ bn: `${'a'.repeat(size)}/m`, v: 1 }, ...values]
      return () =>
        expect(() => decode(pack)).toThrow(/its name has more than|more than 1000 fields/)
    })
  })
})

describe('a pack in CBOR', () => {
  test.each([[TYPES], [SERIES], [AGGREGATE]])('says what it says in JSON', (pack) => {
    expect(senmlCbor.decode(NOWHERE, toCbor(pack))).toEqual(decode(pack))
    expect(senmlCbor.decode(TOPIC, toCbor(pack))).toEqual(decode(pack, TOPIC))
  })

  test('may be of unknown length, and have decimal fractions', () => {
    const record = new Map()
    record.set(0, 'a:b').set(2, new Tagged(4, [-1, 235]))
    const body = Buffer.from(encode(record))
    const payload = Buffer.concat([Buffer.from([0x9f]), body, Buffer.from([0xff])])
    const [{ metric, value }] = senmlCbor.decode(NOWHERE, payload).measurements
    expect([metric, value]).toEqual(['b', 23.5])
  })

  test('has fields that must be understood under their names', () => {
    expect(() => senmlCbor.decode(NOWHERE, toCbor([{ n: 'a:b', v: 1, new_: 1 }]))).toThrow(
      'the field "new_"',
    )
  })
})

const PACKS = [TYPES, SERIES, AGGREGATE]
const PLACES = [NOWHERE, TOPIC]
fuzz(senmlJson, {
  places: PLACES,
  examples: PACKS.map((pack) => Buffer.from(JSON.stringify(pack))),
  trees: PACKS,
})
fuzz(senmlCbor, { places: PLACES, examples: PACKS.map(toCbor), trees: PACKS, encode: toCbor })
