// What is known of the queue of notifications, when more waits than memory may hold.
import { expect, test } from '@jest/globals'
import { Queue } from '../src/notify/queue.js'

/** @param {string} id  @param {Record<string, any>} [more] */
const notification = (id, { sensor = 's', ...more } = {}) => ({
  id,
  createdMs: 0,
  receiverId: 'duty',
  alertId: `alert ${id}`,
  change: 'fired',
  body: JSON.stringify({ data: { rule: { id: 'r' }, sensor: { id: sensor } } }),
  ...more,
})

/** Ids in the order in which they are told. @param {Queue} queue  @param {string} receiverId */
function drain(queue, receiverId) {
  const ids = []
  for (let chain = queue.take(receiverId); chain; chain = queue.take(receiverId)) {
    for (const one of [...chain.all]) {
      ids.push(one.id)
      queue.remove(chain, one)
    }
    queue.release(chain)
  }
  return ids
}

test('series take turns, and of each the oldest comes first', () => {
  const queue = new Queue()
  for (const n of [3, 1, 2]) queue.add(0, notification(`a${n}`, { sensor: 'a', createdMs: n }))
  for (const n of [2, 1]) queue.add(0, notification(`b${n}`, { sensor: 'b', createdMs: n }))
  expect(drain(queue, 'duty')).toEqual(['a1', 'b1', 'a2', 'b2', 'a3'])
  expect([queue.size, queue.receivers, queue.oldestMs]).toEqual([0, [], undefined])
})

test('a full queue has room for other series and receivers, and keeps the older of the longest', () => {
  const queue = new Queue(100)
  const flaps = (/** @type {number} */ n) =>
    notification(`${n}`, { sensor: 'flaps', createdMs: n, receiverId: 'away' })
  for (let n = 0; n < 1_000; n++) queue.add(0, flaps(n))
  expect(queue.size).toBe(100)
  for (let n = 0; n < 10; n++) {
    queue.add(0, notification(`other ${n}`, { sensor: `${n}`, receiverId: 'away' }))
    queue.add(0, notification(`live ${n}`, { sensor: `${n}`, receiverId: 'live' }))
  }
  expect(queue.size).toBeLessThanOrEqual(100)
  expect(drain(queue, 'live')).toHaveLength(10)
  const ids = drain(queue, 'away')
  expect(ids.filter((id) => id.startsWith('other'))).toHaveLength(10)
  expect(ids.filter((id) => Number(id) >= 0).slice(0, 50)).toEqual(
    Array.from({ length: 50 }, (_, n) => `${n}`),
  )
  // What was left to the table comes in when that is read again.
  for (let n = 50; n < 150; n++) queue.add(0, flaps(n))
  expect(drain(queue, 'away')).toEqual(Array.from({ length: 100 }, (_, n) => `${n + 50}`))
})

test('a queue that is full of what was refused, or of single ones, has room for another', () => {
  const queue = new Queue(100)
  for (let n = 0; n < 100; n++) queue.add(0, notification(`${n}`, { receiverId: 'refuses' }))
  for (let chain = queue.take('refuses'); chain; chain = queue.take('refuses')) {
    queue.release(chain, 1_000)
  }
  queue.add(0, notification('good', { receiverId: 'refuses', sensor: 'good' }))
  expect(drain(queue, 'refuses')).toEqual(['good'])

  const wide = new Queue(100)
  for (let n = 0; n < 200; n++) {
    wide.add(0, notification(`${n}`, { sensor: `${n}`, receiverId: 'away' }))
  }
  wide.add(0, notification('live', { receiverId: 'live' }))
  expect(drain(wide, 'live')).toEqual(['live'])
})

test('what is left to another process is gone, also if it is on its way', () => {
  const queue = new Queue()
  for (let n = 0; n < 4; n++) queue.add(n % 2, notification(`${n}`))
  const chain = queue.take('duty')
  queue.leave(0)
  if (chain) queue.release(chain, 0)
  queue.wake(1)
  expect(chain?.all[0].id).toBe('0')
  expect(drain(queue, 'duty')).toEqual(['1', '3'])
  expect(queue.size).toBe(0)
})
