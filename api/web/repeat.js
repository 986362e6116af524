/** Doing something again and again while somebody looks, never twice at once. */

import { setText } from './dom.js'
import { RestError } from './rest.js'

/**
 * Does something once; what the api refuses goes to `onError`, unless nobody wants it any more.
 *
 * @param {() => Promise<void>} action
 * @param {AbortSignal} signal
 * @param {(error: RestError) => void} onError
 */
export async function attempt(action, signal, onError) {
  try {
    await action()
  } catch (error) {
    if (!(error instanceof RestError)) throw error
    if (!signal.aborted) onError(error)
  }
}

/**
 * How a view does things once: what the api refuses is reported, and said at a note.
 *
 * @param {import('./page.js').Context} context
 * @param {HTMLElement} note
 * @returns {(action: () => Promise<void>) => void}
 */
export function attempts({ signal, report }, note) {
  return (action) => {
    void attempt(action, signal, (error) => {
      report(error)
      setText(note, error.message)
    })
  }
}

/**
 * @param {() => Promise<void>} action
 * @param {() => number} pauseMs  Asked before each pause.
 * @param {AbortSignal} signal  Ends it.
 * @param {(error: RestError) => void} onError  The next turn comes all the same.
 */
export async function repeat(action, pauseMs, signal, onError) {
  while (!signal.aborted) {
    if (!document.hidden) await attempt(action, signal, onError)
    await pause(pauseMs(), signal)
  }
}

/**
 * Waits; shorter if it is over before.
 *
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
}
