import { describe, expect, test } from '@jest/globals'
import { matchesTopic } from '../src/topic-match.js'

/** What MQTT says, level by level. @param {string} filter  @param {string} topic */
function matchesSlowly(filter, topic) {
  const filters = filter.split('/')
  const levels = topic.split('/')
  if (topic.startsWith('$') && /^[+#]/.test(filter)) return false
  const rest = filters.indexOf('#')
  const isLong = rest >= 0 ? levels.length >= rest : levels.length === filters.length
  const named = rest >= 0 ? filters.slice(0, rest) : filters
  return isLong && named.every((level, at) => level === '+' || level === levels[at])
}

describe('a topic and a filter', () => {
  test('match as MQTT says, for all short ones', () => {
    const words = ['', 'a', 'ab', '$a']
    const combine = (/** @type {string[]} */ levels) =>
      levels.flatMap((one) => [
        one,
        ...levels.flatMap((two) => [
          `${one}/${two}`,
          ...levels.map((three) => `${one}/${two}/${three}`),
        ]),
      ])
    const topics = combine(words).filter((topic) => topic !== '')
    const filters = [
      ...combine([...words, '+']),
      '#',
      ...combine([...words, '+']).map((one) => `${one}/#`),
    ]
    let matching = 0
    for (const filter of filters.filter((one) => one !== '')) {
      for (const topic of topics) {
        const isSo = matchesTopic(filter, topic)
        if (isSo) matching += 1
        if (isSo !== matchesSlowly(filter, topic))
          throw new Error(`${filter} and ${topic}: ${isSo}`)
      }
    }
    expect(matching).toBeGreaterThan(1_000)
  })

  test('that differ at once are told apart at once, however long they are', () => {
    const tookMs = (/** @type {string} */ topic) => {
      const beganMs = performance.now()
      for (let count = 0; count < 20_000; count++) matchesTopic('kept/+/#', topic)
      return performance.now() - beganMs
    }
    tookMs('other/a')
    expect(tookMs(`other/${'x'.repeat(65_000)}`)).toBeLessThan(100 * (tookMs('other/a') + 1))
  })
})
