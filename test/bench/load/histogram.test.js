import { Histogram } from './histogram.js'

describe('Histogram', () => {
  test.each([1, 31, 32, 33, 1000, 12_345, 1_000_000, 100_000_000])('gives %i back', (us) => {
    const histogram = new Histogram()
    histogram.add(us)
    const given = histogram.percentile(1)
    expect(given).toBeGreaterThan(us)
    expect(given).toBeLessThanOrEqual(us * (1 + 1 / 32) + 1)
  })

  test('gives percentiles of many values, never too good', () => {
    const histogram = new Histogram()
    for (let us = 1; us <= 10_000; us++) histogram.add(us)
    for (const share of [0.01, 0.5, 0.99, 1]) {
      expect(histogram.percentile(share)).toBeGreaterThanOrEqual(share * 10_000)
      expect(histogram.percentile(share)).toBeLessThanOrEqual(share * 10_000 * (33 / 32) + 1)
    }
  })

  test('of nothing is 0', () => {
    expect(new Histogram().percentile(0.99)).toBe(0)
  })
})
