/**
 * Long work in short turns: other requests have theirs in between. Whoever does much at once asks
 * after each part of it whether its turn is over.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'

/** How long one turn is, in milliseconds. */
export const TURN_MS = 10

/** Items of a list that are written before the clock is looked at. */
const ITEMS_AT_ONCE = 128

export class Turns {
  #untilMs
  #clock
  #signal

  /**
   * @param {AbortSignal} [signal]  Aborted when nobody waits for the work any more.
   * @param {() => number} [clock]  Milliseconds, by a clock that only goes forward.
   */
  constructor(signal, clock = performance.now.bind(performance)) {
    this.#signal = signal
    this.#clock = clock
    this.#untilMs = clock() + TURN_MS
  }

  /** Whether others are to have their turn. */
  get isOver() {
    return this.#clock() >= this.#untilMs
  }

  /** Lets others have theirs where this one is over. @throws  The signal's reason. */
  async pause() {
    if (!this.isOver) return
    await nextTurn()
    this.#signal?.throwIfAborted()
    this.#untilMs = this.#clock() + TURN_MS
  }
}

/**
 * A list as a JSON array; its items are made as they are written, so that they are not all there
 * at once.
 *
 * @param {Iterable<unknown>} items
 * @param {Turns} turns  Of all lists of an answer.
 */
export async function listJson(items, turns) {
  /** @type {string[]} */
  const texts = []
  /** @type {unknown[]} */
  let some = []
  for (const item of items) {
    some.push(item)
    if (some.length < ITEMS_AT_ONCE) continue
    texts.push(JSON.stringify(some).slice(1, -1))
    some = []
    await turns.pause()
  }
  if (some.length > 0) texts.push(JSON.stringify(some).slice(1, -1))
  await turns.pause()
  return `[${texts.join(',')}]`
}
