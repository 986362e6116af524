// The trees of filters and of topics find what MQTT says, compared with what is written in 4.7.

import { FilterTree } from '../../src/broker/routing/filter-tree.js'
import { TopicTree } from '../../src/broker/routing/topic-tree.js'
import { heapBytes } from '../support/garbage.js'
import { seeded } from '../support/random.js'

/** What MQTT says, level by level. @param {string} filter  @param {string} topic */
function matches(filter, topic) {
  const filters = filter.split('/')
  const levels = topic.split('/')
  if (topic.startsWith('$') && /^[+#]/.test(filter)) return false
  const rest = filters.indexOf('#')
  const isLong = rest >= 0 ? levels.length >= rest : levels.length === filters.length
  const named = rest >= 0 ? filters.slice(0, rest) : filters
  return isLong && named.every((level, at) => level === '+' || level === levels[at])
}

/** All paths of one to three levels. @param {string[]} levels */
const paths = (levels) =>
  levels
    .flatMap((one) => [
      one,
      ...levels.flatMap((two) => [
        `${one}/${two}`,
        ...levels.map((three) => `${one}/${two}/${three}`),
      ]),
    ])
    .filter((path) => path !== '')

const topics = paths(['', 'a', 'ab', '$a'])
const plain = paths(['', 'a', 'ab', '$a', '+'])
const filters = [...plain, '#', ...plain.map((one) => `${one}/#`)]

/** @template T  @param {Iterable<T | undefined>} found  @returns {T[]} */
const all = (found) => [...found].flatMap((value) => (value === undefined ? [] : [value]))

test('each filter finds the topics that it is for, of all short ones', () => {
  /** @type {TopicTree<string>} */
  const tree = new TopicTree()
  for (const topic of topics) tree.set(topic, topic)
  let matching = 0
  for (const filter of filters) {
    const found = all(tree.match(filter)).sort()
    const expected = topics.filter((topic) => matches(filter, topic)).sort()
    matching += found.length
    expect([filter, ...found]).toEqual([filter, ...expected])
  }
  expect(matching).toBeGreaterThan(1_000)
})

test('each topic finds the filters that are for it, of all short ones', () => {
  /** @type {FilterTree<string>} */
  const tree = new FilterTree()
  for (const filter of filters) tree.add(filter, filter)
  for (const topic of topics) {
    const expected = filters.filter((filter) => matches(filter, topic)).sort()
    expect([topic, ...tree.match(topic).sort()]).toEqual([topic, ...expected])
  }
})

describe.each([7, 8, 9])('of seed %i', (seed) => {
  const random = seeded(seed)
  /** @template T  @param {T[]} from  @returns {T} */
  const one = (from) => from[Math.floor(random() * from.length)]

  test('filters that come and go are found as long as they are there', () => {
    /** @type {FilterTree<string>} */
    const tree = new FilterTree()
    /** @type {Set<string>} */
    const there = new Set()
    for (let step = 0; step < 1_000; step++) {
      const filter = one(filters)
      if (there.delete(filter)) tree.remove(filter, filter)
      else tree.add(filter, [...there.add(filter)].at(-1) ?? '')
      tree.remove(one(filters), 'never added')
      const topic = one(topics)
      const expected = [...there].filter((known) => matches(known, topic)).sort()
      expect(tree.match(topic).sort()).toEqual(expected)
      expect(tree.size).toBe(there.size)
    }
  })

  test('topics that come and go are found as long as they are there, also while one looks', () => {
    /** @type {TopicTree<string>} */
    const tree = new TopicTree()
    /** @type {Set<string>} */
    const there = new Set()
    const change = () => {
      const topic = one(topics)
      if (there.delete(topic)) tree.delete(topic)
      else tree.set(topic, [...there.add(topic)].at(-1) ?? '')
    }
    for (let step = 0; step < 1_000; step++) {
      change()
      tree.delete('a/never/there/at/all')
      const filter = one(filters)
      const stays = new Set([...there].filter((topic) => matches(filter, topic)))
      const found = []
      for (const topic of tree.match(filter)) {
        if (topic === undefined) continue
        expect(there.has(topic) && matches(filter, topic)).toBe(true)
        found.push(topic)
        if (random() < 0.1) {
          change()
          for (const known of stays) if (!there.has(known)) stays.delete(known)
        }
      }
      expect(new Set(found).size).toBe(found.length)
      for (const topic of stays) expect(found).toContain(topic)
      for (const topic of there) expect(tree.get(topic)).toBe(topic)
    }
  })
})

test('a filter that very many have finds all of them', () => {
  /** @type {FilterTree<number>} */
  const tree = new FilterTree()
  for (let number = 0; number < 200_000; number++) tree.add('a/#', number)
  expect(tree.match('a/b')).toHaveLength(200_000)
  expect(tree.match('a')).toHaveLength(200_000)
})

test('a topic that is looked for among many others is found at once', () => {
  /** @type {TopicTree<number>} */
  const tree = new TopicTree()
  for (let number = 0; number < 10_000; number++) tree.set(`devices/${number}/desired`, number)
  for (const filter of ['devices/77/desired', 'devices/77/#', 'devices/77/+']) {
    expect([...tree.match(filter)]).toEqual([77])
  }
  // With a pause now and then where there is much to look at.
  const steps = [...tree.match('devices/+/reported')]
  expect(steps.length).toBeGreaterThan(100)
  expect(all(steps)).toEqual([])
})

test('a level does not keep the topic that it came with', () => {
  const before = heapBytes()
  /** @type {TopicTree<number>} */
  const tree = new TopicTree()
  for (let number = 0; number < 1_000; number++) {
    const level = `a name that is long enough ${number}`
    const long = Buffer.from(`${level}/${'x'.repeat(60_000)}`).toString()
    tree.set(long, number)
    tree.set(`${level}/b`, number)
    tree.delete(long)
  }
  expect(all(tree.match('+/b'))).toHaveLength(1_000)
  // Of 60 MB that came.
  expect(heapBytes() - before).toBeLessThan(6e6)
})
