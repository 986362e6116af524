import { KIND } from '@sandglass/common/measurement'
import { Histogram } from '../src/histogram.js'
import { LATEST_SLOT_MS, Latest } from '../src/sensors/latest.js'
import { Sensor, Series } from '../src/sensors/series.js'
import { GENERATION_MS_MAX, GENERATION_TIMES_MAX, NONE_LEFT, Recent } from '../src/write/recent.js'
import { COUNTED_MAX, hashedSeq, microsecondOf } from '../src/write/seq.js'

const series = () => new Series(new Sensor('00000000-0000-0000-0000-000000000000', 's'), 'm')

describe('recent values', () => {
  test('kinds are told apart, also where they look alike', () => {
    const recent = new Recent()
    const one = series()
    const seqs = [
      recent.place(one, 5, KIND.number, 1),
      recent.place(one, 5, KIND.text, '1'),
      recent.place(one, 5, KIND.boolean, true),
      recent.place(one, 5, KIND.text, 'true'),
      recent.place(one, 5, KIND.location, { lat: 1, lon: 1 }),
      recent.place(one, 5, KIND.text, 'x'.repeat(100)),
      recent.place(one, 5, KIND.text, `${'x'.repeat(99)}y`),
    ]
    expect(seqs).toEqual([0, 1, 2, 3, 4, 5, 6])
    expect(recent.place(one, 5, KIND.text, 'x'.repeat(100))).toBe(5)
    expect(recent.place(one, 6, KIND.number, 1)).toBe(0)
  })

  test('what was seen is remembered while a generation passes, and forgotten after two', () => {
    let nowMs = 0
    const recent = new Recent({ now: () => nowMs })
    const [kept, forgotten] = [series(), series()]
    for (const one of [kept, forgotten]) recent.place(one, 5, KIND.number, 1)
    nowMs += GENERATION_MS_MAX
    recent.age()
    expect(recent.place(kept, 5, KIND.number, 2)).toBe(1)
    nowMs += GENERATION_MS_MAX
    recent.age()
    expect(recent.place(kept, 5, KIND.number, 2)).toBe(1)
    expect(recent.place(forgotten, 5, KIND.number, 2)).toBe(0)
  })

  test('their number is bounded, and the newest generation is always there', () => {
    const recent = new Recent({ now: () => 0 })
    const one = series()
    for (let t = 0; t < 3 * GENERATION_TIMES_MAX; t++) recent.place(one, t, KIND.number, 1)
    const kept = (one.recent?.size ?? 0) + (one.recentBefore?.size ?? 0)
    expect(kept).toBeGreaterThanOrEqual(GENERATION_TIMES_MAX)
    expect(kept).toBeLessThanOrEqual(2 * GENERATION_TIMES_MAX)
  })

  test('a millisecond has room for as many values as seq can count', () => {
    const recent = new Recent()
    const one = series()
    one.horizonMs = 5
    const taken = Array.from({ length: COUNTED_MAX }, (_, seq) => ({ seq, token: seq }))
    recent.learn(one, 5, taken)
    expect(recent.place(one, 5, KIND.number, -1)).toBe(COUNTED_MAX)
    expect(recent.place(one, 5, KIND.number, -2)).toBe(NONE_LEFT)
    expect(recent.place(one, 5, KIND.number, -1)).toBe(COUNTED_MAX)
  })
})

describe('hashed values', () => {
  /** @type {[number, import('@sandglass/common/measurement').Value][]} */
  const different = [
    ...Array.from(
      { length: 20_000 },
      (_, n) => /** @type {[number, number]} */ ([KIND.number, n / 8]),
    ),
    [KIND.number, 1e-300],
    [KIND.text, '1'],
    [KIND.text, 'true'],
    [KIND.text, 'number 1'],
    [KIND.text, 'x'.repeat(100)],
    [KIND.text, `${'x'.repeat(99)}y`],
    [KIND.boolean, true],
    [KIND.boolean, false],
    [KIND.integer, 1],
    [KIND.integer, 2n ** 62n],
    [KIND.location, { lat: 1, lon: 1 }],
    [KIND.location, { lat: 1, lon: -1 }],
  ]
  const seqs = different.map(([kind, value]) => hashedSeq(kind, value))

  test('every value has a place of its own, exact as a number, that no counted one takes', () => {
    expect(new Set(seqs).size).toBe(different.length)
    expect(Math.min(...seqs)).toBeGreaterThan(COUNTED_MAX)
    expect(seqs.every(Number.isSafeInteger)).toBe(true)
  })

  test('the same value has the same place in every process and version', () => {
    expect(different.map(([kind, value]) => hashedSeq(kind, value))).toEqual(seqs)
    expect(hashedSeq(KIND.number, 21.5)).toBe(147_956_950_057_852)
  })

  test('of two the higher never counts as measured earlier, and all as of their millisecond', () => {
    const rising = [0, 1, 499, 500, COUNTED_MAX, ...seqs].sort((a, b) => a - b).map(microsecondOf)
    expect(rising).toEqual([...rising].sort((a, b) => a - b))
    expect(rising[0]).toBe(0)
    expect(rising.at(-1)).toBe(999)
    expect(microsecondOf(Math.min(...seqs))).toBeGreaterThan(microsecondOf(COUNTED_MAX))
  })
})

describe('latest', () => {
  test('a series is written at once, then at most once a second, the newest in the end', () => {
    let nowMs = 0
    const latest = new Latest({ now: () => nowMs })
    const one = series()
    const note = (/** @type {number} */ timeMs) =>
      latest.note(one, { timeMs, seq: 0, receivedMs: 1e12, kind: KIND.number, value: timeMs })
    expect([note(5), note(6), note(7)]).toEqual([true, false, false])
    nowMs = 999
    expect(latest.takeDue()).toEqual([])
    nowMs = 1_000
    expect(latest.takeDue()).toEqual([one])
    expect(one.newest?.value).toBe(7)
    expect(latest.takeDue()).toEqual([])
    nowMs = 3_000
    expect([note(6), note(8)]).toEqual([false, true])
  })

  test('a thousand series are written some at a time, each of them at most once a second', () => {
    let nowMs = 5
    const latest = new Latest({ now: () => nowMs })
    const all = Array.from({ length: 1_000 }, series)
    /** @type {Map<Series, number>} */
    const writtenMs = new Map()
    /** @type {number[]} */
    const together = []
    const wrote = (/** @type {Series} */ one) => {
      expect(nowMs - (writtenMs.get(one) ?? Number.NEGATIVE_INFINITY)).toBeGreaterThanOrEqual(1_000)
      writtenMs.set(one, nowMs)
    }
    const run = (/** @type {number} */ toMs) => {
      for (; nowMs < toMs; nowMs += 5) {
        for (const one of all) {
          const what = { timeMs: nowMs, seq: 0, receivedMs: nowMs, kind: KIND.number, value: nowMs }
          if (latest.note(one, what)) wrote(one)
        }
        if (nowMs % LATEST_SLOT_MS > 0) continue
        const due = latest.takeDue()
        together.push(due.length)
        for (const one of due) {
          wrote(one)
          expect(one.newest?.value).toBe(nowMs)
        }
      }
    }
    // All come at once, and go on to do so unless they are spread.
    run(10_000)
    expect(Math.max(...together)).toBeLessThanOrEqual(50)
    for (const one of all) expect(nowMs - (writtenMs.get(one) ?? 0)).toBeLessThanOrEqual(1_100)
    expect(latest.takeAll()).toHaveLength(all.length)
    expect(latest.takeAll()).toEqual([])
  })

  test('it is told when one begins to wait, so that nobody looks while none does', () => {
    let nowMs = 0
    const latest = new Latest({ now: () => nowMs })
    let told = 0
    latest.onWaiting = () => {
      told++
    }
    const [one, other] = [series(), series()]
    const note = (/** @type {Series} */ which) =>
      latest.note(which, { timeMs: 1, seq: 0, receivedMs: 1e12, kind: KIND.number, value: 1 })
    for (const which of [one, other]) note(which)
    expect([told, latest.isWaiting]).toEqual([0, false])
    for (const which of [one, other, one]) note(which)
    expect([told, latest.isWaiting]).toEqual([1, true])
    nowMs = 1_000
    expect(latest.takeDue()).toEqual([one, other])
    expect([told, latest.isWaiting]).toEqual([1, false])
    note(one)
    expect([told, latest.isWaiting]).toEqual([2, true])
  })

  test('what waits for its turn longer than a second waits for half of one more at most', () => {
    let nowMs = 0
    const latest = new Latest({ now: () => nowMs })
    const all = Array.from({ length: 5_000 }, series)
    const note = (/** @type {number} */ count, /** @type {number} */ timeMs) => {
      for (const one of all.slice(0, count)) {
        latest.note(one, { timeMs, seq: 0, receivedMs: 1e12, kind: KIND.number, value: timeMs })
      }
    }
    note(5_000, 1)
    note(5_000, 2)
    let left = all.length
    for (nowMs = 1_000; nowMs < 1_500; nowMs += LATEST_SLOT_MS) left -= latest.takeDue().length
    expect(left).toBe(0)
    expect(latest.takeDue()).toEqual([])
    nowMs = 3_000
    note(1_000, 3)
    note(1_000, 4)
    nowMs = 4_000
    expect(latest.takeDue()).toHaveLength(50)
  })
})

describe('distribution', () => {
  test('quantiles are exact to 13 %, of the recent past only', () => {
    let nowMs = 0
    const distribution = new Histogram({ now: () => nowMs })
    for (let value = 1; value <= 1_000; value++) distribution.note(value)
    for (const share of [0.5, 0.9, 0.99]) {
      const found = distribution.quantile(share) ?? 0
      expect(found / (1_000 * share)).toBeGreaterThan(0.99)
      expect(found / (1_000 * share)).toBeLessThan(1.13)
    }
    nowMs = 100_000
    expect(distribution.quantile(0.5)).toBeNull()
    expect(distribution.count).toBe(1_000)
    expect(distribution.countUpTo(2 ** 20)).toBe(1_000)
  })
})
