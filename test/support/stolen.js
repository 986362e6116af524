// How much of the time was not this machine's: a virtual one shares its cores with others.
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** A tick of `/proc/stat`, in milliseconds. */
const TICK_MS = 10

const CORES = cpus().length

/**
 * What the host has given to others since the start, in milliseconds, as a mean of all cores: the
 * column `steal` of proc_stat(5). 0 on a machine of its own.
 */
export function stolenMs() {
  const [ofAll] = readFileSync('/proc/stat', 'latin1').split('\n', 1)
  const [, , , , , , , , steal] = ofAll.split(/\s+/)
  return (Number(steal) * TICK_MS) / CORES
}
