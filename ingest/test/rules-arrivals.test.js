import { describe, expect, test } from '@jest/globals'
import { HELD_MAX, inOrderOfReceipt } from '../src/rules/arrivals.js'

/** @typedef {import('@sandglass/common/rules/machine').Sample} Sample */

/** @param {Sample[]} samples  By time. */
async function* read(samples) {
  for (let at = 0; at < samples.length; at += 7_000) yield samples.slice(at, at + 7_000)
}

/** @param {Sample[]} samples */
async function arrived(samples) {
  /** @type {Sample[]} */
  const all = []
  let heldMost = 0
  const ends = []
  for await (const { samples: some, isLast } of inOrderOfReceipt(read(samples))) {
    heldMost = Math.max(heldMost, some.length)
    ends.push(isLast)
    for (const one of some) all.push(one)
  }
  expect(ends.indexOf(true)).toBe(ends.length - 1)
  return { all, heldMost }
}

/** @param {number} count  @param {(at: number) => number} lateMs */
const samplesOf = (count, lateMs) =>
  Array.from({ length: count }, (_, at) => {
    return { timeMs: at, seq: 0, receivedMs: at + lateMs(at), value: at }
  })

/** @param {Sample[]} samples */
const byReceipt = (samples) =>
  [...samples].sort((a, b) => a.receivedMs - b.receivedMs || a.timeMs - b.timeMs)

/** Tells by place: a difference of so many would take minutes to print. */
/** @param {Sample[]} some  @param {Sample[]} others */
function expectSame(some, others) {
  expect(some.length).toBe(others.length)
  expect(some.findIndex((one, at) => one !== others[at])).toBe(-1)
}

describe('values in the order of their receipt', () => {
  test.each([0, 1, HELD_MAX - 1, HELD_MAX, 3 * HELD_MAX + 5])(
    'are all given: %i',
    async (count) => {
      const samples = samplesOf(count, (at) => (at * 7919) % 1_000)
      const { all, heldMost } = await arrived(samples)
      expectSame(all, byReceipt(samples))
      expect(heldMost).toBeLessThan(HELD_MAX + 7_000)
    },
  )

  test('come after all others where they are late by much', async () => {
    const late = new Set([0, 5, 50_000, 200_000])
    const samples = samplesOf(4 * HELD_MAX, (at) => (late.has(at) ? 10_000_000 : 3))
    const { all } = await arrived(samples)
    expectSame(all, byReceipt(samples))
    expect(all.slice(-4).map(({ value }) => value)).toEqual([0, 5, 50_000, 200_000])
  })
})
