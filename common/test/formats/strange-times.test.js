// A time that is strange costs the values that it dates, and no others, in every format.
import { describe, expect, test } from '@jest/globals'
import { keepBelieved } from '../../src/formats/believed.js'
import { decode } from '../../src/formats/registry.js'
import { PayloadError } from '../../src/payload.js'
import { STRANGE, strangeTimes, T } from './strange-times.js'

const RECEIVED_MS = Date.UTC(2026, 5, 1)
const RECEIPT = { receivedMs: RECEIVED_MS, firstReceivedMs: RECEIVED_MS }
const TABLE = strangeTimes()
/** As the topic of Sparkplug has them. */
const WORDS = new Map([
  ['{type}', 'DDATA'],
  ['{device}', 'd'],
])

/** @param {typeof TABLE[number]} of  @returns {Record<string, unknown>} */
function fatesOf({ format, payload, metric }) {
  try {
    const said = decode(format.number, { topic: '', sensor: 's', metric, words: WORDS }, payload)
    keepBelieved(said, RECEIPT)
    const fates = said.measurements.map(({ metric: name, timeMs = RECEIVED_MS }) => {
      const isNow = Math.abs(timeMs - RECEIVED_MS) <= 1_000
      return [name, timeMs === T ? 'T' : isNow ? 'receipt' : timeMs]
    })
    const reasons = said.refused.map(({ reason }) => reason)
    return { ...Object.fromEntries(fates), lost: reasons.length }
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    return { lost: 1 }
  }
}

test('the table has every format that knows a time', () => {
  expect(new Set(TABLE.map(({ fate }) => fate))).toEqual(
    new Set(['T', 'receipt', 'lost', 'refused']),
  )
  expect(TABLE.length).toBeGreaterThan(13 * 10)
  expect(Object.keys(STRANGE).length).toBeGreaterThan(20)
})

describe.each(TABLE.map((row) => ({ ...row, title: `${row.format.name}: ${row.name}` })))(
  '$title',
  (row) => {
    test(`becomes ${row.fate}, and nothing else is lost`, () => {
      const value = {
        refused: {},
        lost: { x: 'receipt' },
        T: { x: 'T' },
        receipt: { x: 'receipt' },
      }
      expect(fatesOf(row)).toEqual({
        ...value[row.fate],
        ...(row.rest && { [row.rest]: 'T' }),
        lost: row.fate === 'lost' || row.fate === 'refused' ? 1 : 0,
      })
    })
  },
)
