import { describe, expect, test } from '@jest/globals'
import { distanceM, placesOf, printDistance, project, scaleM, waysM } from '../../web/places.js'

const BOX = { width: 400, height: 300, margin: 50 }
const place = (/** @type {number} */ lat, /** @type {number} */ lon) => ({ t: 0, lat, lon })

describe('a track', () => {
  test('is of the places among what was measured', () => {
    const rows = [
      { t: 1, v: { lat: 52.5, lon: 13.4 } },
      { t: 2, v: 'lost' },
    ]
    expect(placesOf(rows)).toEqual([{ t: 1, lat: 52.5, lon: 13.4 }])
  })

  test('has north above, east on the right, and the same scale in both', () => {
    const { points, metresPerPx } = project([place(60, 10), place(60.01, 10.02)], BOX)
    const [first, last] = points
    // At 60 degrees a degree to the east is half as long as one to the north.
    expect(last.x - first.x).toBeCloseTo(first.y - last.y, 0)
    expect(last.x).toBeGreaterThan(first.x)
    const px = Math.hypot(last.x - first.x, last.y - first.y)
    expect(px * metresPerPx).toBeCloseTo(distanceM(first, last), -1)
    for (const { x, y } of points) {
      expect(x).toBeGreaterThanOrEqual(49.9)
      expect(y).toBeGreaterThanOrEqual(49.9)
    }
  })

  test('is short where the date changes', () => {
    for (const lon of [179.99, -179.99]) {
      const there = project([place(0, lon), place(0, -lon), place(0, lon)], BOX)
      expect(there.metresPerPx).toBeLessThan(10)
    }
    expect(distanceM(place(0, 179.99), place(0, -179.99))).toBeCloseTo(2_224, -1)
  })

  test('of one place is in the middle', () => {
    const { points } = project([place(-90, 0)], BOX)
    expect(points[0]).toMatchObject({ x: 200, y: 150 })
  })

  test('is measured along the earth', () => {
    // A degree of latitude is 111.195 km on a sphere of this radius.
    expect(distanceM(place(0, 0), place(1, 0))).toBeCloseTo(111_195, -1)
    expect(waysM([place(0, 0), place(1, 0), place(0, 0)])[2]).toBeCloseTo(222_390, -1)
  })

  test.each([
    [10, 140, 1_000],
    [40, 140, 5_000],
    [0.15, 140, 20],
  ])('of %p m a pixel has a round scale', (metresPerPx, px, metres) => {
    expect(scaleM(metresPerPx, px)).toBe(metres)
  })

  test.each([
    [12.4, '12 m'],
    [1_540, '1.5 km'],
    [123_456, '123 km'],
  ])('%p m read %s', (metres, text) => {
    expect(printDistance(metres)).toBe(text)
  })
})
