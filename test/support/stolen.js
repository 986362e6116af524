// How much of the time was not this machine's: a virtual one shares its cores with others.
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** A tick of `/proc/stat`, in milliseconds. */
const TICK_MS = 10

/** Where the column `steal` is, counted from 0: proc_stat(5). */
const STEAL_AT = 8

const CORES = cpus().length

/**
 * What the host has given to others since the start, in milliseconds, as a mean of all cores. 0 on
 * a machine of its own.
 */
export function stolenMs() {
  const [ofAll] = readFileSync('/proc/stat', 'latin1').split('\n', 1)
  return (Number(ofAll.split(/\s+/)[STEAL_AT]) * TICK_MS) / CORES
}
