/**
 * The states of a rule for one series, and what leads from one to the next. Pure: the same values
 * give the same alerts, whoever computes them, and however often.
 *
 * ```text
 * ok ──wrong──▶ pending ──for_s──▶ firing ──right──▶ ok
 *                  └──not wrong──▶ ok
 * ```
 *
 * Values count in the order in which they were received. One whose time is not after all before it
 * is late and changes nothing. A time ahead of its receipt counts as its receipt, so that a clock
 * that is wrong does not make all that follows late; several that count at once are in the order of
 * their own times.
 *
 * An alert is known by when it began. So each begins after the end of the one before, and ends no
 * earlier than it began, whatever the times of the values say.
 */

import { isRight, isWrong } from './check.js'

/** @typedef {import('./check.js').Limits} Limits */

/**
 * @typedef {object} State
 * @property {'ok' | 'pending' | 'firing'} phase
 * @property {number} sinceMs  Since when it is wrong, by event time; 0 while it is ok.
 * @property {number} firedMs  When it began to fire, by event time; 0 while it does not.
 * @property {number} endedMs  When it last ceased to fire; -Infinity if it never did.
 * @property {number} atMs  When the newest value counted that did.
 * @property {number} eventMs  Event time of that value: it may be ahead of `atMs`.
 * @property {number} seq  Of that value, within its millisecond.
 * @property {number} value  That value.
 * @property {number} shown  What was compared: the value, or its rate.
 * @property {number} ruleMs  `changedMs` of the rule by which it was found.
 * @property {boolean} isTold  Whether receivers heard, or will, that it fires.
 */

/**
 * @typedef {object} Sample  One value.
 * @property {number} timeMs  Of the event.
 * @property {number} seq
 * @property {number} receivedMs
 * @property {number} value
 */

/** @typedef {{ change: 'fired' | 'resolved', timeMs: number, value: number, firedMs: number }
 *   } Change */

/**
 * What a rule means for one series.
 *
 * @typedef {object} Terms
 * @property {Limits} limits
 * @property {number} forMs
 * @property {number} lateMs
 * @property {number} [perMs]  Values are compared as rates, in this time.
 * @property {number} fromMs  Nothing is wrong before that: when the rule was made.
 */

/** @type {Readonly<State>} */
export const AT_FIRST = Object.freeze({
  phase: 'ok',
  sinceMs: 0,
  firedMs: 0,
  endedMs: Number.NEGATIVE_INFINITY,
  atMs: Number.NEGATIVE_INFINITY,
  eventMs: Number.NEGATIVE_INFINITY,
  seq: 0,
  value: Number.NaN,
  shown: Number.NaN,
  ruleMs: 0,
  isTold: false,
})

/** The time by which a value counts. @param {Sample} sample */
const countedMs = ({ timeMs, receivedMs }) => Math.min(timeMs, receivedMs)

/**
 * What becomes of a state by values that were stored.
 *
 * @param {Readonly<State>} before
 * @param {Terms} terms
 * @param {readonly Sample[]} samples  In any order.
 * @returns {{ state: State, changes: Change[] }}
 */
export function fold(before, terms, samples) {
  const [whole] = foldInParts(before, terms, samples, Number.POSITIVE_INFINITY)
  return whole
}

/**
 * The same in parts of not many more changes than that, for values that change it all the time. The
 * state of a part is the one that goes on: what is noted in it before the next part is asked for
 * stays noted.
 *
 * @param {Readonly<State>} before
 * @param {Terms} terms
 * @param {readonly Sample[]} samples  In any order.
 * @param {number} changesMax
 * @returns {Generator<{ state: State, changes: Change[], isMore: boolean }, void, undefined>}
 */
export function* foldInParts(before, terms, samples, changesMax) {
  const state = { ...before }
  /** @type {Change[]} */
  let changes = []
  const inOrder = [...samples].sort(
    (a, b) => a.receivedMs - b.receivedMs || a.timeMs - b.timeMs || a.seq - b.seq,
  )
  for (const sample of inOrder) {
    if (sample.receivedMs - sample.timeMs > terms.lateMs) continue
    const timeMs = countedMs(sample)
    if (!isAfter(state, timeMs, sample)) continue
    const compared =
      terms.perMs === undefined ? sample.value : rateOf(state, timeMs, sample, terms.perMs)
    if (compared !== undefined) take(state, terms, timeMs, compared, changes)
    state.atMs = timeMs
    state.eventMs = sample.timeMs
    state.seq = sample.seq
    state.value = sample.value
    if (changes.length >= changesMax) {
      yield { state, changes, isMore: true }
      changes = []
    }
  }
  yield { state, changes, isMore: false }
}

/**
 * Whether a value is newer than all that counted before it.
 *
 * @param {State} state
 * @param {number} timeMs  By which it counts.
 * @param {Sample} sample
 */
function isAfter({ atMs, eventMs, seq }, timeMs, sample) {
  if (timeMs !== atMs) return timeMs > atMs
  return sample.timeMs === eventMs ? sample.seq > seq : sample.timeMs > eventMs
}

/**
 * The change since the value before; undefined if there is none before, or no time between.
 *
 * @param {State} state
 * @param {number} timeMs
 * @param {Sample} sample
 * @param {number} perMs
 */
function rateOf({ atMs, value: before }, timeMs, { value }, perMs) {
  if (atMs === Number.NEGATIVE_INFINITY || timeMs <= atMs) return undefined
  return ((value - before) / (timeMs - atMs)) * perMs
}

/**
 * @param {State} state
 * @param {Terms} terms
 * @param {number} timeMs
 * @param {number} value
 * @param {Change[]} changes
 */
function take(state, { limits, forMs, fromMs }, timeMs, value, changes) {
  if (state.phase === 'pending') pass(state, forMs, timeMs, changes)
  state.shown = value
  if (state.phase === 'firing') {
    if (isRight(limits, value)) end(state, timeMs, value, changes)
    return
  }
  if (!isWrong(limits, value)) {
    if (state.phase === 'pending') reset(state)
    return
  }
  if (state.phase === 'ok') {
    state.phase = 'pending'
    state.sinceMs = Math.max(timeMs, fromMs)
  }
  pass(state, forMs, Math.max(timeMs, fromMs), changes)
}

/**
 * Lets a state fire that has been wrong for long enough.
 *
 * @param {State} state
 * @param {number} forMs
 * @param {number} untilMs
 * @param {Change[]} changes
 */
function pass(state, forMs, untilMs, changes) {
  if (state.phase !== 'pending' || untilMs < state.sinceMs + forMs) return
  fire(state, forMs, state.shown, changes)
}

/**
 * @param {State} state
 * @param {number} forMs
 * @param {number} value
 * @param {Change[]} changes
 */
function fire(state, forMs, value, changes) {
  const firedMs = Math.max(state.sinceMs + forMs, state.endedMs + 1)
  state.phase = 'firing'
  state.firedMs = firedMs
  state.isTold = false
  changes.push({ change: 'fired', timeMs: firedMs, value, firedMs })
}

/**
 * @param {State} state
 * @param {number} timeMs
 * @param {number} value
 * @param {Change[]} changes
 */
function end(state, timeMs, value, changes) {
  const { firedMs } = state
  state.endedMs = Math.max(timeMs, firedMs)
  changes.push({ change: 'resolved', timeMs: state.endedMs, value, firedMs })
  reset(state)
}

/** @param {State} state */
function reset(state) {
  state.phase = 'ok'
  state.sinceMs = 0
  state.firedMs = 0
  state.isTold = false
}

/**
 * What becomes of a state by time alone: the last value holds until another one comes.
 *
 * @param {Readonly<State>} before
 * @param {number} forMs
 * @param {number} nowMs
 * @returns {{ state: State, changes: Change[] }}
 */
export function wait(before, forMs, nowMs) {
  const state = { ...before }
  /** @type {Change[]} */
  const changes = []
  pass(state, forMs, nowMs, changes)
  return { state, changes }
}

/**
 * Ends an alert whose rule watches the series no more.
 *
 * @param {Readonly<State>} before
 * @param {number} nowMs
 * @returns {{ state: State, changes: Change[] }}
 */
export function abandon(before, nowMs) {
  const state = { ...before }
  /** @type {Change[]} */
  const changes = []
  if (state.phase === 'firing') end(state, nowMs, state.shown, changes)
  else reset(state)
  return { state, changes }
}

/**
 * What becomes of a state of silence.
 *
 * @param {Readonly<State>} before
 * @param {object} times
 * @param {number} times.lastMs  When something was received last.
 * @param {number} times.forMs
 * @param {number} times.nowMs
 * @param {number} [times.awayMs]  For how long of that nothing could be received.
 * @returns {{ state: State, changes: Change[] }}
 */
export function listen(before, { lastMs, forMs, nowMs, awayMs = 0 }) {
  const state = { ...before }
  /** @type {Change[]} */
  const changes = []
  if (state.phase === 'firing' && lastMs > state.atMs) end(state, lastMs, Number.NaN, changes)
  state.atMs = Math.max(state.atMs, lastMs)
  if (state.phase === 'ok' && nowMs - lastMs - awayMs >= forMs) {
    state.sinceMs = lastMs
    fire(state, forMs, Number.NaN, changes)
  }
  return { state, changes }
}

/** A state as it is stored: JSON knows neither infinity nor NaN. @param {State} state */
export function stateText(state) {
  return JSON.stringify(state)
}

/** @param {string} text  @returns {State} */
export function stateOfText(text) {
  const { atMs, eventMs, endedMs, value, shown, ...rest } = JSON.parse(text)
  const orElse = (/** @type {number | null} */ one, /** @type {number} */ other) => one ?? other
  const countedMs = orElse(atMs, Number.NEGATIVE_INFINITY)
  return {
    ...rest,
    // States that were stored before these two were.
    endedMs: orElse(endedMs, Number.NEGATIVE_INFINITY),
    eventMs: orElse(eventMs, countedMs),
    atMs: countedMs,
    value: orElse(value, Number.NaN),
    shown: orElse(shown, Number.NaN),
  }
}
