import { Ledger } from './ledger.js'

/** @param {unknown} value @param {number} [seq] @param {number} [timeMs] */
const row = (value, seq = 0, timeMs = 1) => ({ sensorId: 's', metric: 'm', timeMs, seq, value })

/** A ledger of two acknowledged values of one millisecond, and of one that was not acknowledged. */
function ledgerOfThree() {
  const ledger = new Ledger()
  ledger.note('s', 'm', 1, 1.5)()
  ledger.note('s', 'm', 1, 2.5)()
  ledger.note('s', 'm', 2, 3.5)
  return ledger
}

describe('Ledger', () => {
  test('finds nothing wrong when all that was acknowledged is there once', () => {
    const counts = { stored: 2, lost: 0, doubled: 0, foreign: 0 }
    expect(ledgerOfThree().compare([row(1.5), row(2.5, 1)])).toEqual({
      lost: [],
      doubled: [],
      foreign: [],
      counts,
    })
  })

  test('an unacknowledged value may be there, or not', () => {
    const { counts } = ledgerOfThree().compare([row(1.5), row(2.5, 1), row(3.5, 0, 2)])
    expect(counts).toEqual({ stored: 3, lost: 0, doubled: 0, foreign: 0 })
  })

  test('finds an acknowledged value that is not there', () => {
    expect(ledgerOfThree().compare([row(1.5)]).lost).toEqual(['2.5 at s m 1'])
  })

  test('finds a value that is there twice', () => {
    const { doubled } = ledgerOfThree().compare([row(1.5), row(2.5, 1), row(1.5, 2)])
    expect(doubled).toEqual(['1.5 at s m 1, seq 2'])
  })

  test('finds a value that nobody published: at no place, or at another one', () => {
    const { foreign } = ledgerOfThree().compare([row(1.5), row(2.5, 1), row(9, 2), row(1.5, 0, 7)])
    expect(foreign).toEqual(['9 at s m 1, seq 2', '1.5 at s m 7, seq 0'])
  })

  test('counts all differences and shows a few', () => {
    const ledger = new Ledger()
    for (let timeMs = 0; timeMs < 100; timeMs++) ledger.note('s', 'm', timeMs, 1)()
    const { lost, counts } = ledger.compare([])
    expect(lost).toHaveLength(5)
    expect(counts).toEqual({ stored: 0, lost: 100, doubled: 0, foreign: 0 })
  })
})
