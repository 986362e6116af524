// What the simulator can be told, and what does not go together.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { SettingError } from '@sandglass/common/options'
import { formatMoment, parseMoment } from '../src/calendar.js'
import { readSimulatorOptions } from '../src/options.js'

/** @param {...string} args */
const read = (...args) => readSimulatorOptions(['node', 'main.js', ...args])

describe('options', () => {
  test('are those of a fleet in the present if nothing is said', () => {
    expect(read()).toMatchObject({
      fleet: 'mixed',
      sensors: 25,
      rate: 25,
      speed: 1,
      from: undefined,
    })
  })

  test('that begin in the past end now, and go as fast as acknowledged', () => {
    const beforeMs = Date.now()
    const { from = 0, to, speed } = read('--from=2h')
    expect(speed).toBe(0)
    expect(to).toBeGreaterThanOrEqual(beforeMs)
    expect(Math.abs(to - from - 7_200_000)).toBeLessThan(1000)
  })

  test('that only say how fast begin a day ago', () => {
    const { from = 0, to, speed } = read('--speed=60')
    expect(speed).toBe(60)
    expect(Math.abs(to - from - 86_400_000)).toBeLessThan(1000)
  })

  test('of a replay are as fast as acknowledged', () => {
    expect(read('--replay=x.csv')).toMatchObject({ speed: 0, from: undefined })
  })

  test.each([
    ['--to=1h'],
    ['--from=1h', '--to=2h'],
    ['--from=1h', '--to=2999-01-01'],
    ['--from=1999-01-01'],
    ['--from=1h', '--rate=0'],
    ['--late-percent=1', '--rate=0'],
    ['--reconcile', '--rate=0'],
    ['--reconcile', '--qos=0'],
    ['--reconcile', '--rate=1000', '--sensors=1'],
    ['--replay=x.csv', '--from=1h'],
    ['--replay=x.csv', '--reconcile'],
    ['--backfill=1h', '--from=1h'],
    ['--backfill=1h', '--replay=x.csv'],
    ['--backfill=1h', '--rate=0'],
    ['--backfill=1h', '--reconcile'],
    ['--backfill=1h', '--shape=plain'],
    ['--backfill=5w'],
  ])('do not go together: %s %s %s', (...args) => {
    expect(() => read(...args.filter(Boolean))).toThrow(SettingError)
  })

  test('that do not go together end the simulator with one line and code 2', () => {
    const main = fileURLToPath(new URL('../src/main.js', import.meta.url))
    const { status, stderr } = spawnSync(process.execPath, [main, '--to=1h'], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([2, 'error: --to needs --from.\n'])
  })
})

describe('a moment', () => {
  test.each([
    ['90s', 90_000],
    ['1.5h', 5_400_000],
    ['7d', 604_800_000],
    ['2w', 1_209_600_000],
  ])('%s is so long ago', (text, ms) => {
    expect(Math.abs(Date.now() - ms - parseMoment(text))).toBeLessThan(1000)
  })

  test('is read and shown in UTC', () => {
    expect(formatMoment(parseMoment('2026-01-05T06:07:08'))).toBe('2026-01-05 06:07:08')
  })

  test.each(['', 'noon', '7y', '-3d'])('"%s" is none', (text) => {
    expect(() => parseMoment(text)).toThrow(SettingError)
  })
})
