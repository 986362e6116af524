/**
 * The clock by which hours are marked dirty. It does not step back: a slot that was worked off
 * would not be looked at again. When the wall clock steps back, this one stands still until that
 * has caught up, at most {@link STEP_BACK_WAIT_MS_MAX}. After a longer step it follows, and every
 * mark made before is void, for rollups are computed anew.
 */

import { MARK_AHEAD_MS_MAX, SLOT_GRACE_MS, STEP_BACK_WAIT_MS_MAX } from '@sandglass/common/rollup'

/** A shorter step back is one that clocks of processes may differ by, in milliseconds. */
const STEP_MS_MIN = SLOT_GRACE_MS / 4

export class SlotClock {
  /** How often the wall clock was seen to step back. */
  stepsBack = 0
  /** How often it followed. */
  resets = 0
  /** Resolves once it is known which slots were worked off before: no hour is marked earlier. */
  ready = Promise.resolve()
  #wallNow
  #steadyNow
  #heldMs = Number.NEGATIVE_INFINITY
  /** What the wall clock is ahead of the steady one. */
  #offsetMs = Number.NEGATIVE_INFINITY
  /** Added to deadlines, so that those of before a long step back have passed. */
  #shiftMs = 0

  /**
   * @param {object} [clocks]
   * @param {() => number} [clocks.now]  The wall clock, milliseconds since the Unix epoch.
   * @param {() => number} [clocks.steadyNow]  Milliseconds; it only goes forward.
   */
  constructor({ now = Date.now, steadyNow = () => performance.now() } = {}) {
    this.#wallNow = now
    this.#steadyNow = steadyNow
  }

  /** Milliseconds since the Unix epoch, never less than before but after a long step back. */
  now() {
    const wallMs = this.wallNow()
    if (wallMs < this.#heldMs - STEP_BACK_WAIT_MS_MAX) {
      this.resets++
      this.#shiftMs += this.#heldMs - wallMs + MARK_AHEAD_MS_MAX + SLOT_GRACE_MS
      this.#heldMs = wallMs
    }
    this.#heldMs = Math.max(this.#heldMs, wallMs)
    return this.#heldMs
  }

  /** The wall clock, which may step back. */
  wallNow() {
    const wallMs = this.#wallNow()
    const steadyMs = this.#steadyNow()
    const offsetMs = wallMs - steadyMs
    if (offsetMs < this.#offsetMs - STEP_MS_MIN) {
      this.stepsBack++
      // It may have come so far before, and other processes went by it, although we did not look.
      this.#heldMs = Math.max(this.#heldMs, steadyMs + this.#offsetMs)
    }
    this.#offsetMs = offsetMs
    return wallMs
  }

  /** Milliseconds, by the clock that only goes forward. */
  steadyNow() {
    return this.#steadyNow()
  }

  /** Milliseconds for which it will stand still. */
  get waitMs() {
    return this.now() - this.wallNow()
  }

  /**
   * Lets those who want to mark hours wait.
   *
   * @returns {() => void}  To be called when it is ready.
   */
  prepare() {
    let begin = () => {}
    this.ready = new Promise((resolve) => {
      begin = resolve
    })
    return begin
  }

  /**
   * Before this process started, slots were worked off until a time that may lie ahead.
   *
   * @param {number} doneMs
   */
  noteDone(doneMs) {
    if (doneMs <= this.wallNow() + STEP_BACK_WAIT_MS_MAX) {
      this.#heldMs = Math.max(this.#heldMs, doneMs)
    }
  }

  /** The deadline for a time, to be given to {@link SlotClock.isPast}. @param {number} timeMs */
  deadline(timeMs) {
    return timeMs + this.#shiftMs
  }

  /** @param {number} deadline */
  isPast(deadline) {
    return this.now() + this.#shiftMs >= deadline
  }
}
