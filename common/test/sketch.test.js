import { randomInt } from 'node:crypto'
import { SKETCH_ALPHA, SKETCH_BINS_MAX, Sketch } from '../src/sketch.js'

const SHARES = [0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1]

/** @param {Iterable<number>} values */
function sketchOf(values) {
  const sketch = new Sketch()
  for (const value of values) sketch.add(value)
  return sketch
}

/** @param {readonly number[]} sorted  @param {number} share */
const exact = (sorted, share) => sorted[Math.floor(share * (sorted.length - 1))]

describe.each([
  ['temperatures', () => 20 + 3 * (Math.random() + Math.random())],
  ['of both signs', () => 200 * (Math.random() - 0.5)],
  ['with many zeros', () => (Math.random() < 0.6 ? 0 : -Math.random())],
  ['over six powers of ten', () => 10 ** (6 * Math.random() - 3)],
])('percentiles of values %s', (_, draw) => {
  const values = Array.from({ length: 5_000 }, draw)
  const sorted = [...values].sort((a, b) => a - b)

  test.each(SHARES)('%d is as near as promised', (share) => {
    const right = exact(sorted, share)
    const off = Math.abs(sketchOf(values).quantile(share) - right)
    // Collapsing makes the bins wider; six powers of ten need four times as many as there are.
    expect(off).toBeLessThanOrEqual(4.1 * SKETCH_ALPHA * Math.abs(right) + 1e-12)
  })

  test('are the same, however the values are cut, merged, written and read', () => {
    const whole = sketchOf(values)
    const parts = new Sketch()
    for (let from = 0; from < values.length; ) {
      const to = from + randomInt(1, 900)
      parts.merge(Sketch.decode(sketchOf(values.slice(from, to)).encode()))
      from = to
    }
    for (const share of SHARES) expect(parts.quantile(share)).toBe(whole.quantile(share))
    expect(parts.encode()).toEqual(whole.encode())
  })
})

test('a sketch is bounded, whatever it is given', () => {
  const sketch = new Sketch()
  for (let power = -290; power < 300; power++) {
    for (let n = 1; n < 10; n++) {
      sketch.add(n * 10 ** power)
      sketch.add(-n * 10 ** power)
    }
  }
  expect(sketch.encode().length).toBeLessThan(2 * SKETCH_BINS_MAX * 6)
  expect(sketch.quantile(0)).toBeLessThan(-1e298)
  expect(Sketch.decode(sketch.encode()).encode()).toEqual(sketch.encode())
})

test('an empty one knows nothing', () => {
  expect(new Sketch().quantile(0.5)).toBeNaN()
  expect(Sketch.decode(new Sketch().encode()).quantile(0.5)).toBeNaN()
})

test('the bytes are those of docs/format/sketch.md', () => {
  expect(sketchOf([0, 1, 1, -1, 3]).encode().toString('hex')).toBe('0100010200026e01010001')
})

test('every cut and every changed length of it is refused', () => {
  const bytes = sketchOf([0, 5, 6, 7, -8]).encode()
  for (let length = 0; length < bytes.length; length++) {
    expect(() => Sketch.decode(bytes.subarray(0, length))).toThrow(RangeError)
  }
  expect(() => Sketch.decode(Buffer.concat([bytes, Buffer.of(0)]))).toThrow('too long')
  expect(() => Sketch.decode(Buffer.of(9, 0, 0, 0, 0))).toThrow('version')
})
