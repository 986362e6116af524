// How fast something is at its best: a busy machine slows down one attempt, a fault all of them.

/** Times that it is tried. */
export const TRIES = 3

/**
 * The shortest that something took, in milliseconds.
 *
 * @param {(attempt: number) => Promise<number>} once  Resolves to the milliseconds that it took.
 */
export async function quickest(once) {
  let bestMs = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < TRIES; attempt++) bestMs = Math.min(bestMs, await once(attempt))
  return bestMs
}
