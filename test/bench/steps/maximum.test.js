import { largest } from './maximum.js'

describe('the largest number that holds', () => {
  const search = { first: 50_000, factor: 1.5, precision: 0.05 }

  test.each([50_000, 49_999, 75_000, 100_467, 243_500, 12, 2])(
    'of those up to %d',
    async (most) => {
      /** @type {number[]} */
      const asked = []
      const found = await largest(async (number) => {
        asked.push(number)
        return number <= most
      }, search)
      expect(found).toBeLessThanOrEqual(most)
      expect(found).toBeGreaterThan(most / 1.051)
      expect(asked.length).toBeLessThan(50)
      expect(new Set(asked).size).toBe(asked.length)
    },
  )

  test('is none where none holds', async () => {
    await expect(largest(async () => false, search)).rejects.toThrow('not even one')
  })
})
