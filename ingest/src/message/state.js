/**
 * Where a message is on its way, and where it may go from there.
 *
 * ```text
 * arrived    it is being decided what becomes of it
 * waiting    the database is asked about its sensor, or about its times
 * storing    its rows are being written
 * refused    its dead letter is being written
 * spooling   it is being written to the spool
 * settled    everything it became is durable, or it is dropped
 *
 * arrived  → waiting | storing | refused | spooling | settled
 * waiting  → waiting | storing | refused | spooling
 * storing  → waiting | refused | spooling | settled
 * refused  → spooling | settled
 * spooling → settled, or back to the state from which it came
 * ```
 */

export const STATE = Object.freeze({
  arrived: 'arrived',
  waiting: 'waiting',
  storing: 'storing',
  refused: 'refused',
  spooling: 'spooling',
  settled: 'settled',
})

/** @typedef {typeof STATE[keyof typeof STATE]} State */

/** @type {Readonly<Record<State, ReadonlySet<State>>>} */
const NEXT = Object.freeze({
  arrived: new Set([STATE.waiting, STATE.storing, STATE.refused, STATE.spooling, STATE.settled]),
  waiting: new Set([STATE.waiting, STATE.storing, STATE.refused, STATE.spooling]),
  storing: new Set([STATE.waiting, STATE.refused, STATE.spooling, STATE.settled]),
  refused: new Set([STATE.spooling, STATE.settled]),
  spooling: new Set([STATE.arrived, STATE.waiting, STATE.storing, STATE.refused, STATE.settled]),
  settled: new Set(),
})

/** @param {State} from  @param {State} to */
export function mayFollow(from, to) {
  return NEXT[from].has(to)
}
