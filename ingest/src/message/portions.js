/**
 * Takes the parts of something large a portion at a time, so that one client that sends much at
 * once costs neither memory for all of it nor the time of everybody else.
 */

/** Parts, or rows, of one message that are on their way at the same time. */
export const PORTION = 500

/** How often it is looked whether there is room again, in milliseconds. */
const ROOM_MS = 20

/**
 * How long parts are taken in one turn, in milliseconds: of those that are settled at once, as
 * refused ones are, none stays under way (ADR 0032).
 */
const TURN_MS = 2

/** @typedef {import('./message.js').Message} Message */
/** @typedef {import('./message.js').Origin} Origin */

/**
 * @param {object} parts
 * @param {number} parts.count  How many messages there are, at least one.
 * @param {(at: number, origin: Origin) => Message} parts.make
 * @param {(message: Message) => void} parts.accept  Settles it, now or some time later.
 * @param {(message: Message, at: number) => void} [parts.onSettled]  One of them is settled.
 * @param {() => void} parts.onDone  All of them are.
 * @param {() => boolean} [parts.hasRoom]  Whether more may be made now; asked again later.
 */
export function takeInPortions({ count, make, accept, onSettled, onDone, hasRoom = () => true }) {
  let next = 0
  let underWay = 0
  let isTaking = false
  /** Whether it goes on in a later turn. */
  let isLater = false

  /** @param {number} at */
  const origin = (at) => ({
    settled(/** @type {Message} */ message) {
      underWay--
      onSettled?.(message, at)
      take()
    },
  })

  function take() {
    // What is settled at once comes back here from within.
    if (isTaking || isLater) return
    isTaking = true
    const endMs = performance.now() + TURN_MS
    while (next < count && underWay < PORTION && hasRoom() && !isLater) {
      underWay++
      const at = next++
      accept(make(at, origin(at)))
      isLater = next < count && performance.now() >= endMs
    }
    isTaking = false
    if (isLater) setImmediate(goOn)
    else if (next === count && underWay === 0) onDone()
    else if (underWay === 0) setTimeout(take, ROOM_MS)
  }

  function goOn() {
    isLater = false
    take()
  }
  take()
}
