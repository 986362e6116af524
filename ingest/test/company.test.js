import { Company } from '../src/write/company.js'

/**
 * How long rows waited, of a time in which they came at these rates.
 *
 * @param {Company} company
 * @param {object} time  In milliseconds.
 * @param {number} time.fromMs
 * @param {number} time.toMs
 * @param {(isWaiting: boolean, ms: number) => number} rowsPerMs
 * @returns {number}  A part of the time.
 */
function waited(company, { fromMs, toMs }, rowsPerMs) {
  let [waitedMs, due] = [0, 0]
  for (let ms = fromMs; ms < toMs; ms++) {
    if (company.isWorthIt) waitedMs++
    due += rowsPerMs(company.isWorthIt, ms)
    for (; due >= 1; due--) company.noteRow()
    if (due < 1) company.look(ms)
  }
  return waitedMs / (toMs - fromMs)
}

const MINUTE = { fromMs: 0, toMs: 60_000 }

describe('company', () => {
  test('rows that come steadily wait', () => {
    for (const rate of [0.5, 1, 4, 50]) {
      expect(waited(new Company(0), MINUTE, () => rate)).toBeGreaterThan(0.9)
    }
  })

  test('rows that come fast wait from the first moment on, and all the time', () => {
    const company = new Company(0)
    expect(waited(company, { fromMs: 0, toMs: 1_000 }, () => 10)).toBeGreaterThan(0.9)
    expect(waited(company, { fromMs: 1_000, toMs: 600_000 }, () => 10)).toBeGreaterThan(0.999)
  })

  test('they do however unevenly they come', () => {
    const uneven = (/** @type {boolean} */ _, /** @type {number} */ ms) => (ms % 300 < 20 ? 15 : 0)
    expect(waited(new Company(0), MINUTE, uneven)).toBeGreaterThan(0.9)
  })

  test('rows that come slowly never wait', () => {
    expect(waited(new Company(0), MINUTE, () => 0.4)).toBe(0)
  })

  test('clients that send when they are acknowledged are hardly kept waiting', () => {
    for (const share of [0.1, 0.4, 0.7]) {
      const rate = (/** @type {boolean} */ isWaiting) => (isWaiting ? 4 * share : 4)
      expect(waited(new Company(0), MINUTE, rate)).toBeLessThan(0.15)
    }
  })

  test('nor are they if they come slowly at first, while code is not compiled yet', () => {
    const rate = (/** @type {boolean} */ isWaiting, /** @type {number} */ ms) =>
      Math.min(isWaiting ? 1 : 4, 0.5 + ms / 5_000)
    const company = new Company(0)
    waited(company, MINUTE, rate)
    expect(waited(company, { fromMs: 60_000, toMs: 120_000 }, rate)).toBeLessThan(0.15)
  })

  test('a load that goes down by half is waited for again within three seconds', () => {
    const company = new Company(0)
    waited(company, MINUTE, () => 4)
    waited(company, { fromMs: 60_000, toMs: 63_000 }, () => 2)
    expect(waited(company, { fromMs: 63_000, toMs: 66_000 }, () => 2)).toBe(1)
  })

  test('after clients that wait for us a steady load is waited for within twenty seconds', () => {
    const company = new Company(0)
    waited(company, MINUTE, (isWaiting) => (isWaiting ? 1 : 4))
    waited(company, { fromMs: 60_000, toMs: 80_000 }, () => 4)
    expect(waited(company, { fromMs: 80_000, toMs: 140_000 }, () => 4)).toBeGreaterThan(0.9)
  })

  test('a single row after a pause does not wait', () => {
    const company = new Company(0)
    waited(company, MINUTE, () => 4)
    company.noteRow()
    company.look(70_000)
    expect(company.isWorthIt).toBe(false)
  })
})
