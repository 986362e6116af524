// Whatever was imported when, has expired since or was rewritten: every answer of `series` is what
// is stored, and nothing is refused that could be told.
import { randomInt } from 'node:crypto'
import { expect, test } from '@jest/globals'
import { DAY_MS, HOUR_MS, startOf } from '@sandglass/common/rollup'
import { Semaphore } from '@sandglass/common/semaphore'
import { SeriesDownsampler } from '../src/downsample/reader.js'
import { seeded } from './support/fake-store.js'
import { ID, METRIC, StoredHistory, sumOf } from './support/stored-history.js'

const MINUTE_MS = 60_000
const NOW = Date.UTC(2026, 5, 15, 12, 34, 56)
const SIGNAL = new AbortController().signal
const NAMES = ['count', 'sum', 'min', 'max', 'first', 'last']

/** Histories of one test; a longer search: RUNS=1000. */
const RUNS = Number(process.env.RUNS ?? 30)

/** So long before it is gone a row need not be told any more, in milliseconds. */
const SLACK_MS = 150_000

/** @typedef {import('../src/downsample/reader.js').Question} Question */
/** @typedef {import('@sandglass/common/spans').Range} Range */

/** @param {StoredHistory} history  @param {Partial<Question>} what */
async function ask(history, what) {
  const parts = { store: history.store(), gate: new Semaphore(9), now: () => history.nowMs }
  const series = { sensorId: ID, metric: METRIC }
  const question = { fromMs: undefined, toMs: undefined, stepMs: undefined, points: 10, ...what }
  const answer = await new SeriesDownsampler(parts).read(
    [series],
    { needsSketch: false, ...question },
    SIGNAL,
  )
  const windows = answer.windows.get(series)
  return { ...answer, items: windows?.items(answer.range, NAMES, 'none') ?? [], windows }
}

/** What an answer must be. */
/** @param {StoredHistory} history  @param {{ range: Range, stepMs: number }} answer */
function rightItems(history, { range, stepMs }) {
  return [...history.rightWindows(range, stepMs)]
    .sort(([a], [b]) => a - b)
    .map(([t, rows]) => {
      const { n, sum, min, max, first, last } = sumOf(rows)
      return { t, count: n, sum: expect.closeTo(sum, 6), min, max, first, last }
    })
}

/** Percentiles that are further off than a sketch may be. */
/** @param {StoredHistory} history  @param {Awaited<ReturnType<typeof ask>>} answer */
function wrongMedians(history, { range, stepMs, windows }) {
  const right = history.rightWindows(range, stepMs)
  return (windows?.items(range, ['p50'], 'none') ?? []).filter(({ t, p50 }) => {
    const values = (right.get(Number(t)) ?? []).map(({ value }) => value).sort((a, b) => a - b)
    const [low, high] = [Math.floor, Math.ceil].map((to) => values[to((values.length - 1) / 2)])
    const off = 0.011 * Math.max(Math.abs(low), Math.abs(high)) + 0.01
    return !(Number(p50) >= low - off && Number(p50) <= high + off)
  })
}

/**
 * Whether an hour can be told in windows of a length.
 *
 * @param {StoredHistory} history
 * @param {number} hourMs
 * @param {number} grainMs
 * @param {boolean} needsSketch
 */
function isTold(history, hourMs, grainMs, needsSketch) {
  const right = history.right(hourMs)
  if (history.isPartial(startOf(hourMs, DAY_MS)) && !history.isKept(hourMs)) return false
  if (right.length === 0) return true
  const raw = history.rawOf(hourMs, SLACK_MS)
  const isSame = raw.length === right.length && right.every((row) => raw.includes(row))
  const row = history.rollup('1h', hourMs, SLACK_MS)
  const isDirty = history.isDirty(hourMs)
  const isCertain = !history.isFrozen(hourMs, SLACK_MS)
  if (isSame && isCertain) return true
  if (!row || grainMs === 1) return false
  if (isDirty && isCertain) return false
  if (grainMs >= HOUR_MS) return true
  return !needsSketch && history.nowMs + SLACK_MS < row.writtenMs + 90 * DAY_MS
}

/** @param {StoredHistory} history  @param {(below: number) => number} random */
function change(history, random) {
  const chance = random(100)
  if (chance < 55) {
    const ages = [0, 0, HOUR_MS, DAY_MS, 6 * DAY_MS, 29 * DAY_MS, 100 * DAY_MS, 4_000 * DAY_MS]
    const endMs = history.nowMs - ages[random(ages.length)] - random(random(2) ? DAY_MS : HOUR_MS)
    const everyMs = [1_000, 61_000, 600_000, HOUR_MS][random(4)]
    const waitedMs = random(10) === 0 ? random(3 * DAY_MS) : 0
    const aheadMs = random(8) === 0 ? random(DAY_MS) : 0
    for (let left = 1 + random(40); left > 0; left--) {
      const t = Math.max(0, endMs + aheadMs - left * everyMs)
      history.insert({ t, value: random(2_000) / 8 - 100 }, waitedMs)
    }
  } else if (chance < 85) {
    const far = [MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, DAY_MS, DAY_MS, 7 * DAY_MS]
    history.advance(random(far[random(far.length)]), random(5) > 0)
  } else if (chance < 95) {
    const further = [7 * DAY_MS, 31 * DAY_MS, 90 * DAY_MS, 3 * 365 * DAY_MS]
    history.advance(further[random(further.length)] + random(2 * DAY_MS) - DAY_MS, true)
  } else if (chance < 98) {
    const className = ['7d', '30d', '90d', '400d', 'keep'][random(5)]
    const fromMs = startOf(history.nowMs + 26 * HOUR_MS, HOUR_MS)
    const last = history.layouts[history.layouts.length - 1]
    if (last.fromMs < fromMs) history.layouts.push({ ...last, fromMs, className })
  } else {
    history.rewrite(['90d', '400d', 'keep'][random(3)])
  }
}

/** @param {StoredHistory} history  @param {(below: number) => number} random */
function questionAt(history, random) {
  const hours = [...history.hours.keys()]
  const aroundMs = hours[random(hours.length)] + random(HOUR_MS)
  const steps = [1_000, 7_000, MINUTE_MS, 5 * MINUTE_MS, 7 * MINUTE_MS]
  const longer = [HOUR_MS, 90 * MINUTE_MS, 6 * HOUR_MS, 36 * HOUR_MS, DAY_MS, 7 * DAY_MS]
  const stepMs = random(4) === 0 ? undefined : [...steps, ...longer][random(11)]
  const lengthMs = [10 * MINUTE_MS, HOUR_MS, DAY_MS, 3 * DAY_MS, 40 * DAY_MS][random(5)]
  const shortMs = Math.min(1 + random(lengthMs), 9_000 * (stepMs ?? DAY_MS))
  const gridMs = [1, MINUTE_MS, HOUR_MS, DAY_MS][random(4)]
  const fromMs = startOf(aroundMs - random(shortMs), gridMs)
  const isFine = gridMs > 9_000 * (stepMs ?? DAY_MS)
  return { fromMs, toMs: fromMs + (isFine ? shortMs : Math.max(gridMs, shortMs)), stepMs }
}

/** @param {StoredHistory} history  @param {(below: number) => number} random */
async function judge(history, random) {
  const needsSketch = random(4) === 0
  const question = { ...questionAt(history, random), points: 1 + random(60), needsSketch }
  /** @type {number[]} */
  const hours = []
  for (let ms = startOf(question.fromMs, HOUR_MS); ms < question.toMs; ms += HOUR_MS) hours.push(ms)
  try {
    const answer = await ask(history, question)
    expect(answer.items).toEqual(rightItems(history, answer))
    if (needsSketch) expect(wrongMedians(history, answer)).toEqual([])
    return answer.resolution
  } catch (error) {
    const finestMs = Number(/multiple of (\d+)ms/.exec(String(error))?.[1])
    if (!finestMs) throw error
    // Nothing finer could be told, and what it names can be.
    const finerMs = [1, MINUTE_MS, HOUR_MS].filter((ms) => ms < finestMs)
    for (const ms of finerMs) {
      const areTold = hours.every((one) => isTold(history, one, ms, needsSketch))
      expect({ ms, areTold }).toEqual({ ms, areTold: false })
    }
    const answer = await ask(history, { ...question, stepMs: finestMs })
    expect(answer.items).toEqual(rightItems(history, answer))
    return 'refused'
  }
}

test('an hour of 2015 that was imported today is charted in as many points as are asked for', async () => {
  for (const className of ['7d', '30d', 'keep']) {
    const history = new StoredHistory(NOW, [{ fromMs: 0, className, bucketS: 86_400 }])
    const fromMs = Date.UTC(2015, 4, 5, 10)
    for (let minute = 0; minute < 24 * 60; minute++) {
      history.insert({ t: fromMs - 10 * HOUR_MS + minute * MINUTE_MS, value: minute }, 0)
    }
    for (const waitMs of [0, 10 * MINUTE_MS, 5 * DAY_MS]) {
      history.advance(waitMs, true)
      const hour = { fromMs, toMs: fromMs + HOUR_MS }
      const { items, range, stepMs } = await ask(history, hour)
      expect({ className, waitMs, stepMs, range }).toEqual({
        className,
        waitMs,
        stepMs: 10 * MINUTE_MS,
        range: hour,
      })
      expect(items.map(({ count }) => count)).toEqual([10, 10, 10, 10, 10, 10])
      for (const step of [1_000, MINUTE_MS, HOUR_MS]) {
        const answer = await ask(history, { ...hour, stepMs: step })
        expect(answer.items).toHaveLength(step === HOUR_MS ? 1 : 60)
      }
    }
    // Raw rows of seven days are gone, its minutes are not.
    history.advance(3 * DAY_MS, true)
    const hour = { fromMs, toMs: fromMs + HOUR_MS }
    expect((await ask(history, { ...hour, stepMs: MINUTE_MS })).items).toHaveLength(60)
    const seconds = ask(history, { ...hour, stepMs: 1_000 })
    if (className === '7d') await expect(seconds).rejects.toThrow('multiple of 60000ms')
    else expect((await seconds).items).toHaveLength(60)
  }
})

test('rows that came a day before their time are gone a day before their time, and not told', async () => {
  const hourMs = startOf(NOW, HOUR_MS) + 23 * HOUR_MS
  const history = new StoredHistory(NOW, [{ fromMs: 0, className: '7d', bucketS: 21_600 }])
  for (let at = 0; at < 5; at++) history.insert({ t: hourMs + at * MINUTE_MS, value: at }, 0)
  history.advance(7 * DAY_MS + HOUR_MS, true)
  const hour = { fromMs: hourMs, toMs: hourMs + HOUR_MS }
  await expect(ask(history, { ...hour, stepMs: 1_000 })).rejects.toThrow('multiple of 60000ms')
  expect((await ask(history, { ...hour, stepMs: MINUTE_MS })).items).toHaveLength(5)
})

test('an hour of which rows have expired is told as it was summed up, whatever comes late', async () => {
  const hourMs = startOf(NOW, HOUR_MS) + HOUR_MS
  const history = new StoredHistory(hourMs, [{ fromMs: 0, className: '7d', bucketS: 21_600 }])
  for (let at = 0; at < 5; at++) history.insert({ t: hourMs + at, value: 1 }, 0)
  history.advance(7 * DAY_MS + 30 * MINUTE_MS, true)
  for (let at = 0; at < 5; at++) history.insert({ t: hourMs + 10 * MINUTE_MS + at, value: 1 }, 0)
  // While the late rows wait to be summed up, and afterwards.
  for (const waitMs of [0, 2 * MINUTE_MS]) {
    history.advance(waitMs, true)
    const hour = { fromMs: hourMs, toMs: hourMs + HOUR_MS }
    await expect(ask(history, { ...hour, stepMs: 1_000 })).rejects.toThrow('multiple of 60000ms')
    for (const stepMs of [MINUTE_MS, HOUR_MS]) {
      const { items } = await ask(history, { ...hour, stepMs })
      expect(items).toMatchObject([{ t: hourMs, count: 5 }])
    }
  }
})

test('whatever is imported, expires, moves or waits, an answer is what is stored', async () => {
  const seed = Number(process.env.SEED ?? randomInt(2 ** 31))
  /** @type {Map<string, number>} */
  const told = new Map()
  for (let run = 0; run < RUNS; run++) {
    const random = seeded(seed + run)
    const className = ['7d', '30d', '90d', '400d', 'keep'][random(5)]
    const layouts = [{ fromMs: 0, className, bucketS: 86_400 }]
    const history = new StoredHistory(NOW, layouts, random(4) > 0)
    for (let step = 0; step < 40; step++) {
      change(history, random)
      if (history.hours.size === 0) continue
      try {
        const result = await judge(history, random)
        told.set(result, (told.get(result) ?? 0) + 1)
      } catch (error) {
        if (process.env.DEBUG)
          console.log(history.layouts, new Date(history.nowMs), new Date(history.doneMs))
        throw new Error(`SEED=${seed}, run ${run}, step ${step}`, { cause: error })
      }
    }
  }
  // None of the ways to answer was left out.
  expect({ seed, told: [...told.keys()].sort() }).toEqual({
    seed,
    told: ['1d', '1h', '1m', 'raw', 'refused'],
  })
})
