import { expect } from '@jest/globals'

/** How much larger the large input is than the small one. */
const FACTOR = 8

/** Time that grows with the square of the input is 64 times as long; 8 times is right. */
const GROWTH_MAX = 24

/** What a busy machine adds, in milliseconds. What grows with the square takes a second or more. */
const NOISE_MS = 100

/**
 * Expects that a decoder takes time in proportion to what a client sends, and not to its square.
 * What is compared are the shortest of a few times: the machine may be busy.
 *
 * @param {number} size  Of the large input. With the square of it the work takes a second or more.
 * @param {(size: number) => () => void} build  Gives the work on an input of this size.
 */
export function expectLinear(size, build) {
  const small = build(size / FACTOR)
  const large = build(size)
  const smallMs = shortestMs(small)
  const largeMs = shortestMs(large, GROWTH_MAX * smallMs + NOISE_MS)
  expect(largeMs).toBeLessThan(GROWTH_MAX * smallMs + NOISE_MS)
}

/** @param {() => void} work  @param {number} [enoughMs]  Another time need not be measured. */
function shortestMs(work, enoughMs = 0) {
  let shortest = Number.POSITIVE_INFINITY
  for (let time = 0; time < 3 && shortest > enoughMs; time++) {
    const startMs = performance.now()
    work()
    shortest = Math.min(shortest, performance.now() - startMs)
  }
  return shortest
}
