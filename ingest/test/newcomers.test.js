// In which turn those who were let in are read.
import { Newcomers, READ_PER_TURN, UNREAD_MS_MAX } from '../src/broker/entrance/newcomers.js'

const DOORS = 4

/** Turns are taken, and time passes, when a test says so. */
function begin() {
  let nowMs = 0
  /** @type {(() => void)[]} */
  let calls = []
  const newcomers = new Newcomers({ clockMs: () => nowMs, nextTurn: (call) => calls.push(call) })
  newcomers.doors = DOORS
  /** @type {number[]} */
  const read = []
  return {
    newcomers,
    read,
    /** @param {number} number */
    letIn(number) {
      const one = { isBlocked: false, read: () => void read.push(number) }
      newcomers.letIn(one)
      return one
    },
    /** @param {number} came  How many come in in it. @param {number} [ms]  How long it takes. */
    turn(came, ms = 1) {
      for (let n = 0; n < came; n++) newcomers.came()
      nowMs += ms
      const all = calls
      calls = []
      for (const call of all) call()
    },
    get isIdle() {
      return calls.length === 0
    },
  }
}

test('who is let in while few come is read at once', () => {
  const { letIn, turn, read } = begin()
  turn(DOORS - 1)
  expect(letIn(1).isBlocked).toBe(false)
  expect(read).toEqual([1])
})

test('who is let in while each door brings somebody is read when one does not', () => {
  const all = begin()
  all.turn(DOORS)
  expect(all.letIn(1).isBlocked).toBe(true)
  all.turn(DOORS)
  all.letIn(2)
  expect(all.read).toEqual([])
  all.turn(DOORS - 1)
  expect(all.read).toEqual([1, 2])
  all.turn(0)
  expect(all.isIdle).toBe(true)
})

test('it is not a crowd where it is not known how many doors there are', () => {
  const { newcomers, letIn, turn, read } = begin()
  newcomers.doors = Number.POSITIVE_INFINITY
  turn(1_000)
  letIn(1)
  expect(read).toEqual([1])
})

test('a crowd that does not end keeps nobody from being read for longer than allowed', () => {
  const { letIn, turn, read } = begin()
  turn(DOORS)
  letIn(1)
  turn(DOORS, UNREAD_MS_MAX - 1)
  letIn(2)
  expect(read).toEqual([])
  turn(DOORS, 1)
  expect(read).toEqual([1])
  turn(DOORS, UNREAD_MS_MAX)
  expect(read).toEqual([1, 2])
})

test('when a crowd is in, a part of it more is read each turn, in its order', () => {
  const all = begin()
  all.turn(DOORS)
  const numbers = Array.from({ length: 2 * READ_PER_TURN }, (_, n) => n)
  for (const n of numbers) all.letIn(n)
  all.turn(0)
  expect(all.read).toEqual(numbers.slice(0, READ_PER_TURN))
  all.letIn(numbers.length)
  all.turn(0)
  expect(all.read).toEqual(numbers)
  all.turn(0)
  expect(all.read).toEqual([...numbers, numbers.length])
  expect(all.isIdle).toBe(true)
})

test('who has left meanwhile is not read', () => {
  const { letIn, turn, read } = begin()
  turn(DOORS)
  const gone = letIn(1)
  letIn(2)
  gone.isBlocked = false
  turn(0)
  expect(read).toEqual([2])
})
