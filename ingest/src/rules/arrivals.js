/**
 * The values of a series in the order in which they were received, read by their own times. Of very
 * many only the last ones received are held, whatever a device sends: whose time is further ahead
 * of its receipt than all of these is found late.
 */

/** Values that are held at once: some 10 MiB. */
export const HELD_MAX = 100_000

/** @typedef {import('@sandglass/common/rules/machine').Sample} Sample */

/**
 * @param {AsyncIterable<Sample[]>} parts  By time.
 * @returns {AsyncGenerator<{ samples: Sample[], isLast: boolean }>}  At least the last one.
 */
export async function* inOrderOfReceipt(parts) {
  /** @type {Sample[]} */
  let held = []
  for await (const some of parts) {
    for (const sample of some) held.push(sample)
    if (held.length < HELD_MAX) continue
    held.sort(byReceipt)
    const later = held.splice(HELD_MAX / 2)
    yield { samples: held, isLast: false }
    held = later
  }
  yield { samples: held.sort(byReceipt), isLast: true }
}

/** @param {Sample} a  @param {Sample} b */
function byReceipt(a, b) {
  return a.receivedMs - b.receivedMs || a.timeMs - b.timeMs || a.seq - b.seq
}
