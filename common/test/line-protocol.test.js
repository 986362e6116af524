import { parseLine, splitLines, toNanoseconds } from '../src/line-protocol.js'
import { KIND } from '../src/measurement.js'
import { isSensorName, NAME_LENGTH_MAX } from '../src/sensor.js'
import { expectLinear } from './support/growth.js'

const NS = '1767225600123456789'
const MS = 1_767_225_600_123

describe('a line', () => {
  test('is of the sensor that its tag names; the measurement is the metric', () => {
    expect(parseLine(`temperature,sensor=kitchen value=21.5 ${NS}`)).toEqual({
      sensor: 'kitchen',
      measurements: [{ metric: 'temperature', timeMs: MS, kind: KIND.number, value: 21.5 }],
      refused: [],
    })
    const { measurements } = parseLine('weather,site=roof,sensor=k t=1,value=2')
    expect(measurements.map(({ metric }) => metric)).toEqual(['weather.t', 'weather'])
  })

  test('without that is of the series, whatever the order of its tags', () => {
    const one = parseLine(`cpu,host=a,cpu=cpu0 usage_idle=98.7,usage_user=1 ${NS}`)
    const other = parseLine(`cpu,cpu=cpu0,host=a usage_idle=98.7,usage_user=1 ${NS}`)
    expect(one).toEqual(other)
    expect(one.sensor).toBe('cpu,cpu=cpu0,host=a')
    expect(one.measurements.map(({ metric }) => metric)).toEqual(['usage_idle', 'usage_user'])
  })

  test('loses a field that has no value of a measurement, and no other', () => {
    expect(parseLine('m,sensor=s a=1,b=1e999,c=x,d=2')).toMatchObject({
      measurements: [{ metric: 'm.a' }, { metric: 'm.d' }],
      refused: [{ field: 'm.b' }, { field: 'm.c' }],
    })
    expect(() => parseLine('m,sensor=s b=1e999,c=x')).toThrow(
      'the value of m.b is too large for a double; the value of m.c is not one of line protocol',
    )
  })

  test('has values of every kind', () => {
    const fields = 'a=1,b=-1.5e3,c=7i,d=8u,e=t,f=FALSE,g="x y,=",h=9223372036854775807i'
    expect(parseLine(`m ${fields}`).measurements).toEqual([
      { metric: 'a', timeMs: undefined, kind: KIND.number, value: 1 },
      { metric: 'b', timeMs: undefined, kind: KIND.number, value: -1500 },
      { metric: 'c', timeMs: undefined, kind: KIND.integer, value: 7 },
      { metric: 'd', timeMs: undefined, kind: KIND.integer, value: 8 },
      { metric: 'e', timeMs: undefined, kind: KIND.boolean, value: true },
      { metric: 'f', timeMs: undefined, kind: KIND.boolean, value: false },
      { metric: 'g', timeMs: undefined, kind: KIND.text, value: 'x y,=' },
      { metric: 'h', timeMs: undefined, kind: KIND.integer, value: 9223372036854775807n },
    ])
  })

  test('keeps what a backslash keeps', () => {
    const line = String.raw`my\ m\,x,t\=a\ g=v\,1 f\ 1="say \"hi\" \\ \n" 5`
    const { sensor, measurements } = parseLine(line)
    expect(sensor).toBe('my m,x,t=a g=v,1')
    expect(measurements[0].metric).toBe('f 1')
    expect(measurements[0].value).toBe(String.raw`say "hi" \ \n`)
  })

  test('has quotes around fields alone; those of tags and names are part of them', () => {
    const { sensor, measurements } = parseLine('"m",sensor="a" "f"="x"')
    expect([sensor, measurements[0].metric, measurements[0].value]).toEqual(['"a"', '"m"."f"', 'x'])
  })

  test('is of a time before 1970 too, down to the millisecond', () => {
    const times = ['-1', '-1000000', '-1000001', '0', '999999', '1000000'].map(
      (time) => parseLine(`m v=1 ${time}`).measurements[0].timeMs,
    )
    expect(times).toEqual([-1, -1, -2, 0, 0, 1])
  })

  test('of tags that no topic could have, or of very many, has a sensor all the same', () => {
    expect(parseLine('disk,path=/home/a+b#c used=1i').sensor).toBe('disk,path=∕home∕a＋b＃c')
    const long = (/** @type {string} */ end) => `m,a=${'x'.repeat(500)}${end} v=1`
    const [one, other] = [parseLine(long('1')).sensor, parseLine(long('2')).sensor]
    expect([one.length, isSensorName(one)]).toEqual([NAME_LENGTH_MAX, true])
    expect(one).not.toBe(other)
    expect(parseLine(long('1')).sensor).toBe(one)
  })

  test('of a long name is not cut within a character', () => {
    for (const begin of ['', 'x']) {
      const { sensor } = parseLine(`m,a=${begin}${'🌡'.repeat(100)} v=1`)
      expect([sensor, isSensorName(sensor)]).toEqual([expect.stringMatching('🌡~'), true])
    }
  })

  test.each(['..', 'a\u202eb', `${'x'.repeat(10)}\u0007${'x'.repeat(200)}`, '\ud800'])(
    'of the sensor %j is refused',
    (sensor) => {
      expect(() => parseLine(`m,sensor=${sensor} v=1`)).toThrow('the sensor must have')
    },
  )

  test.each([
    ['', 'no measurement'],
    [',a=b v=1', 'no measurement'],
    ['m', 'no fields'],
    ['m ', 'key=value'],
    ['m,a v=1', 'key=value'],
    ['m,a= v=1', 'a has no value'],
    ['m v=', 'v has no value'],
    ['m v=1,', 'key=value'],
    ['m v="x', 'no end'],
    ['m v=abc', 'the value of v'],
    ['m v=1i2', 'the value of v'],
    ['m v=NaN', 'the value of v'],
    ['m v=1e999', 'the value of v'],
    ['m v=9223372036854775808i', '64 bits'],
    ['m v=1 now', 'nanoseconds'],
    ['m v=1 1 2', 'nanoseconds'],
    ['m v=1 1.5', 'nanoseconds'],
    [`m v="${'x'.repeat(70_000)}"`, 'bytes'],
  ])('that is %j is refused, and it is said why', (line, reason) => {
    expect(() => parseLine(line)).toThrow(reason)
  })

  test('never makes the parser do anything but parse or refuse', () => {
    const alphabet = ['m', ',', '=', ' ', '"', '\\', '1', 'i', 't', '-', '.', '\n', 'é']
    let seed = 7
    for (let round = 0; round < 20_000; round++) {
      let line = ''
      for (let at = 0; at < 12; at++) {
        seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
        line += alphabet[(seed >>> 16) % alphabet.length]
      }
      for (const one of splitLines(line)) {
        try {
          expect(parseLine(one).measurements.length).toBeGreaterThan(0)
        } catch (error) {
          if (/** @type {Error} */ (error).name !== 'PayloadError') throw error
        }
      }
    }
  })
})

test('a body is split at newlines that are in no text; comments and empty lines are none', () => {
  const lines = ['m v=1', 'm v="two\nlines",w=2 5', 'm,a=x"y v=3', 'm,a="x v=1', 'm,a\\="b=c v="d"']
  const body = `# a v="b\n${lines[0]}\r\n\n  ${lines[1]}  \n${lines.slice(2).join('\n')}\n #b`
  expect(splitLines(body)).toEqual(lines)
})

test('times of other units become nanoseconds, and nothing else changes', () => {
  expect(toNanoseconds('m v=1,w=2i 1767225600', '000000000')).toBe('m v=1,w=2i 1767225600000000000')
  expect(toNanoseconds('m v="a 5"', '000')).toBe('m v="a 5"')
  expect(toNanoseconds('m v=5', '000')).toBe('m v=5')
})

describe('time in proportion to the bytes is taken by', () => {
  test('lines with long runs of spaces', () => {
    expectLinear(64_000, (size) => {
      const bodies = [`m f="${' '.repeat(size)}x"`, `${' \t\r'.repeat(size / 3)}m v=1`]
      return () => expect(bodies.flatMap(splitLines)).toHaveLength(2)
    })
  })

  test('a value of many digits that is no number', () => {
    expectLinear(32_000, (size) => {
      const line = `m,sensor=s v=${'1'.repeat(size)}x`
      return () => expect(() => parseLine(line)).toThrow('is not one of line protocol')
    })
  })

  test('fields that are refused because of a long measurement', () => {
    expectLinear(262_144, (size) => {
      const fields = Array.from({ length: size / 528 }, (_, at) => `value=1,f${at}=1`)
      const line = `${'é'.repeat(size)},sensor=s ${fields.join()}`
      return () => expect(() => parseLine(line)).toThrow('fields more')
    })
  })
})

test('a refusal does not repeat a name of any length', () => {
  const long = 'x'.repeat(100_000)
  for (const line of [`m,${long}= v=1`, `m ${long}=`, `m,sensor=s ${long}=1`]) {
    const message = expect.stringMatching(/^.{1,400}$/)
    expect(() => parseLine(line)).toThrow(expect.objectContaining({ message }))
  }
})

test('a measurement that is too long for a metric is refused with each field, also of no length', () => {
  for (const name of ['x', '🌡'].map((char) => char.repeat(NAME_LENGTH_MAX))) {
    const said = parseLine(`${name},sensor=s a=1 5`.replace(`${name},`, 'm,'))
    expect(said.measurements).toHaveLength(1)
    expect(() => parseLine(`${name},sensor=s a=1`)).toThrow('the metric must have')
  }
})
