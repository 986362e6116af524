/** Series that are evaluated at the same time. */
const AT_ONCE = 8

/**
 * Does something for each of many, a few at a time. Once one has failed or it is stopped, no other
 * is begun, and none is still under way afterwards.
 *
 * @template T
 * @param {readonly T[]} many
 * @param {(one: T) => Promise<unknown>} work
 * @param {() => boolean} isStopped
 */
export async function eachOf(many, work, isStopped) {
  let next = 0
  const one = async () => {
    while (next < many.length && !isStopped()) {
      await work(many[next++]).catch((error) => {
        next = many.length
        throw error
      })
    }
  }
  const workers = Array.from({ length: Math.min(AT_ONCE, many.length) }, one)
  const failed = (await Promise.allSettled(workers)).find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}
