import { describe, expect, test } from '@jest/globals'
import { METRICS_MAX, readPayload } from '../../../src/formats/sparkplug/payload.js'
import { DATATYPE, sparkplugMeasurement } from '../../../src/formats/sparkplug/value.js'
import { writePayload } from '../../../src/formats/sparkplug/write.js'
import { KIND } from '../../../src/measurement.js'
import { PayloadError } from '../../../src/payload.js'
import { seeded } from '../fuzz.js'

/** @param {import('../../../src/formats/sparkplug/write.js').Written} metric */
function measured(metric) {
  const [read] = readPayload(writePayload({ metrics: [{ name: 'm', ...metric }] })).metrics
  const { kind, value } = sparkplugMeasurement('m', read.timeMs, read.datatype, read.value)
  return [kind, value]
}

const { Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64 } = DATATYPE
const { Float, Double, Boolean: Bool, String: Str, DateTime, Text, UUID } = DATATYPE

describe('a payload', () => {
  test('has a time, a sequence number and metrics', () => {
    const metrics = [
      {
        name: 'Properties/Temp',
        alias: 2n ** 63n,
        timeMs: 1_767_225_600_000,
        datatype: Double,
        double: 21.5,
        unit: 'Cel',
      },
      { alias: 7, isNull: true, isHistorical: true, isTransient: true },
    ]
    expect(readPayload(writePayload({ timeMs: 1_767_225_600_001, seq: 255, metrics }))).toEqual({
      timeMs: 1_767_225_600_001,
      seq: 255,
      metrics: [
        {
          name: 'Properties/Temp',
          alias: 2n ** 63n,
          timeMs: 1_767_225_600_000,
          datatype: Double,
          isHistorical: false,
          isTransient: false,
          isNull: false,
          value: { member: 'double_value', content: 21.5 },
          unit: 'Cel',
        },
        {
          name: undefined,
          alias: 7n,
          timeMs: undefined,
          datatype: undefined,
          isHistorical: true,
          isTransient: true,
          isNull: true,
          value: undefined,
          unit: undefined,
        },
      ],
    })
    expect(readPayload(Buffer.alloc(0))).toEqual({ timeMs: undefined, seq: undefined, metrics: [] })
  })

  test('is the bytes that sparkplug_b.proto describes', () => {
    // {timestamp: 1, metrics: [{name: "a", alias: 2, datatype: 3,
    // is_historical: true, int_value: 4}], seq: 5}
    const bytes = Buffer.from('0801120b 0a0161 1002 2003 2801 5004 1805'.replaceAll(' ', ''), 'hex')
    const { timeMs, seq, metrics } = readPayload(bytes)
    expect([timeMs, seq, metrics.length]).toEqual([1, 5, 1])
    expect(metrics[0]).toMatchObject({
      name: 'a',
      alias: 2n,
      datatype: 3,
      isHistorical: true,
      value: { content: 4 },
    })
  })

  test.each(['0a', '12ff', '1202 0a05', '12030a01ff', 'ffffffffffffffffffff', '07', '1b', '0880'])(
    'of the bytes %s is refused',
    (hex) => {
      expect(() => readPayload(Buffer.from(hex.replaceAll(' ', ''), 'hex'))).toThrow(
        'this is not Sparkplug B',
      )
    },
  )

  test(`has at most ${METRICS_MAX} metrics`, () => {
    const payload = Buffer.alloc(2 * (METRICS_MAX + 1), Buffer.from([0x12, 0]))
    expect(readPayload(payload.subarray(2)).metrics).toHaveLength(METRICS_MAX)
    expect(() => readPayload(payload)).toThrow(`more than ${METRICS_MAX} metrics`)
  })

  test('of any bytes is read, or refused', () => {
    const random = seeded(30)
    const right = writePayload({
      timeMs: 1,
      seq: 2,
      metrics: [{ name: 'a', datatype: 12, string: 'x', unit: 'm' }],
    })
    for (let round = 0; round < 5_000; round++) {
      const bytes = Buffer.from(right)
      for (let times = 0; times < 3; times++)
        bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256)
      try {
        for (const { timeMs, datatype, value } of readPayload(bytes).metrics) {
          sparkplugMeasurement('m', timeMs, datatype, value)
        }
      } catch (error) {
        expect(error).toBeInstanceOf(PayloadError)
      }
    }
  })
})

describe('a value', () => {
  test.each([
    [{ datatype: Int8, int: 0xff }, KIND.integer, -1],
    [{ datatype: Int8, int: -128 }, KIND.integer, -128],
    [{ datatype: Int8, int: 127 }, KIND.integer, 127],
    [{ datatype: Int16, int: -300 }, KIND.integer, -300],
    [{ datatype: Int16, int: 0xffff }, KIND.integer, -1],
    [{ datatype: Int32, int: -(2 ** 31) }, KIND.integer, -(2 ** 31)],
    [{ datatype: Int64, long: -1n }, KIND.integer, -1],
    [{ datatype: Int64, long: 2n ** 53n + 1n }, KIND.integer, 2n ** 53n + 1n],
    [{ datatype: UInt8, int: 255 }, KIND.integer, 255],
    [{ datatype: UInt16, int: 65_535 }, KIND.integer, 65_535],
    [{ datatype: UInt32, int: 2 ** 32 - 1 }, KIND.integer, 2 ** 32 - 1],
    [{ datatype: UInt32, long: 2n ** 32n - 1n }, KIND.integer, 2 ** 32 - 1],
    [{ datatype: UInt64, long: 2n ** 63n - 1n }, KIND.integer, 2n ** 63n - 1n],
    [{ datatype: Float, float: 1.5 }, KIND.number, 1.5],
    [{ datatype: Double, double: 21.4 }, KIND.number, 21.4],
    [{ datatype: Bool, boolean: false }, KIND.boolean, false],
    [{ datatype: Str, string: 'idle' }, KIND.text, 'idle'],
    [{ datatype: Text, string: '' }, KIND.text, ''],
    [{ datatype: UUID, string: 'e0a5' }, KIND.text, 'e0a5'],
    [{ datatype: DateTime, long: 1_767_225_600_250n }, KIND.text, '2026-01-01T00:00:00.250Z'],
  ])('%p is of its kind', (metric, kind, value) => {
    expect(measured(metric)).toEqual([kind, value])
  })

  test.each([
    [{ datatype: Int8, int: 128 + 256 }, 'does not fit 8 bits'],
    [{ datatype: Int8, int: 300 }, 'does not fit 8 bits'],
    [{ datatype: UInt8, int: 256 }, 'does not fit 8 bits'],
    [{ datatype: UInt32, long: 2n ** 32n }, 'does not fit 32 bits'],
    [{ datatype: UInt64, long: 2n ** 63n }, 'is not a whole number of at most 64 bits'],
    [{ datatype: Int32, string: '7' }, 'is not an integer'],
    [{ datatype: Double, int: 7 }, 'came as int_value, against its datatype'],
    [{ datatype: Double, double: Number.NaN }, 'is too large for a double'],
    [{ datatype: Bool, int: 1 }, 'came as int_value'],
    [{ datatype: Str, int: 1 }, 'came as int_value'],
    [{ datatype: DateTime, long: 2n ** 62n }, 'is not a time'],
    [{ datatype: DateTime, string: 'x' }, 'came as string_value'],
    [{ datatype: 17, bytes: new Uint8Array(3) }, 'is of the datatype 17'],
    [{ datatype: 0, int: 1 }, 'is of the datatype 0'],
    [{ int: 1 }, 'has no datatype'],
    [{ datatype: Int8 }, 'is missing'],
  ])('%p is refused: it %s', (metric, reason) => {
    expect(() => measured(metric)).toThrow(`the value of m ${reason}`)
  })
})
