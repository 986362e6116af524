import { FairQueue } from '@sandglass/common/expressions/fair-queue'

/**
 * Serves clients for some time.
 *
 * @param {FairQueue<string>} queue
 * @param {Record<string, number>} costMs
 * @param {number} untilMs
 */
function serve(queue, costMs, untilMs) {
  /** @type {Record<string, number>} */
  const served = {}
  for (let ms = 0; ms < untilMs; ) {
    const next = queue.take()
    if (next === undefined) break
    queue.spent(next, costMs[next])
    served[next] = (served[next] ?? 0) + 1
    ms += costMs[next]
  }
  return served
}

describe('a fair queue', () => {
  test('gives each client the oldest of its items first', () => {
    /** @type {FairQueue<number>} */
    const queue = new FairQueue()
    for (let item = 0; item < 4; item++) queue.add('a', item)
    expect([queue.take(), queue.take(), queue.take(), queue.take()]).toEqual([0, 1, 2, 3])
    expect([queue.take(), queue.length]).toEqual([undefined, 0])
  })

  test('divides time among clients, whatever each of their items costs', () => {
    /** @type {FairQueue<string>} */
    const queue = new FairQueue()
    for (const name of ['slow', 'quick', 'middle']) {
      for (let item = 0; item < 10_000; item++) queue.add(name, name)
    }
    const { slow, quick, middle } = serve(queue, { slow: 100, quick: 1, middle: 10 }, 30_000)
    expect(slow * 100).toBeCloseTo(10_000, -3)
    expect(middle * 10).toBeCloseTo(10_000, -3)
    expect(quick).toBeGreaterThan(8_500)
  })

  test('remembers what a client used that sends one at a time', () => {
    /** @type {FairQueue<string>} */
    const queue = new FairQueue()
    for (let item = 0; item < 1_000; item++) queue.add('quick', 'quick')
    let slow = 0
    for (let item = 0; item < 1_000; item++) {
      if (slow === 0 || queue.length === 0) queue.add('slow', 'slow')
      const next = queue.take() ?? ''
      queue.spent(next, next === 'slow' ? 500 : 1)
      if (next === 'slow') slow++
      if (next === 'slow') queue.add('slow', 'slow')
    }
    expect(slow).toBeLessThanOrEqual(3)
  })

  test('gives nobody credit for having been away', () => {
    /** @type {FairQueue<string>} */
    const queue = new FairQueue()
    for (let item = 0; item < 2_000; item++) queue.add('a', 'a')
    serve(queue, { a: 10 }, 10_000)
    for (let item = 0; item < 2_000; item++) queue.add('b', 'b')
    const { a, b } = serve(queue, { a: 10, b: 10 }, 2_000)
    expect(Math.abs(a - b)).toBeLessThanOrEqual(2)
  })

  test('drops what a client has in it', () => {
    /** @type {FairQueue<string>} */
    const queue = new FairQueue()
    for (const name of ['a', 'b', 'a']) queue.add(name, name)
    expect([queue.drop('a'), queue.length, queue.take()]).toEqual([['a', 'a'], 1, 'b'])
    expect(queue.drop('nobody')).toEqual([])
  })
})
