// Waiting for something to become true, with a deadline: the only way in which tests here wait.
import { setTimeout as delay } from 'node:timers/promises'

/** How long `until` waits when it is not told otherwise, in milliseconds. */
export const DEADLINE_MS = 30_000

/**
 * Asks `probe` again and again until it gives something truthy, and returns that.
 *
 * @template T
 * @param {string} what  What is waited for; named in the error.
 * @param {() => T | Promise<T>} probe  An exception counts as "not yet" and is told at the
 *   deadline.
 * @param {{ deadlineMs?: number, everyMs?: number }} [limits]
 * @returns {Promise<Exclude<T, false | null | undefined | 0 | "">>}
 */
export async function until(what, probe, { deadlineMs = DEADLINE_MS, everyMs = 20 } = {}) {
  const deadline = performance.now() + deadlineMs
  let last = ''
  for (;;) {
    try {
      const value = await probe()
      if (value) return /** @type {Exclude<T, false | null | undefined | 0 | ''>} */ (value)
      last = `the last answer was ${JSON.stringify(value)}`
    } catch (error) {
      last = `the last error was ${error instanceof Error ? error.message : error}`
    }
    if (performance.now() >= deadline) {
      throw new Error(`${what}: not within ${deadlineMs} ms; ${last}`)
    }
    await delay(everyMs)
  }
}
