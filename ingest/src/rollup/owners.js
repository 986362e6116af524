/** Which process does which part of the work: each decides for itself, and all decide the same. */

import { createHash } from 'node:crypto'
import { ROLLUP_SHARDS } from '@sandglass/common/rollup'

/**
 * The shards of one of several processes, by rendezvous hashing (Thaler and Ravishankar 1996): when
 * one comes or goes, no shard changes hands between the others.
 *
 * @param {string} id
 * @param {readonly string[]} ids  Of all processes; without its own, it has none.
 */
export function shardsOf(id, ids) {
  const shards = Array.from({ length: ROLLUP_SHARDS }, (_, shard) => shard)
  return shards.filter((shard) => {
    /** @param {string} one */
    const weight = (one) => createHash('sha1').update(`${one}/${shard}`).digest('hex')
    const heaviest = ids.reduce((best, one) => (weight(one) > weight(best) ? one : best), ids[0])
    return heaviest === id
  })
}
