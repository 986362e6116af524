/**
 * Ends a process whose expression takes too long, from a thread of its own: a function that does
 * not come back cannot be stopped otherwise. Time is that of the processor, so that a machine with
 * much else to do refuses nothing; a longer limit of real time is for what waits.
 */

import { workerData } from 'node:worker_threads'

/** How often it looks, in milliseconds. */
const LOOK_MS = 25

/** The signal that says so to who started the process. */
const TOO_LONG = 'SIGUSR2'

/** @type {{ turn: Int32Array, cpuMsMax: number, realMsMax: number, parent: number }} */
const { turn, cpuMsMax, realMsMax, parent } = workerData

const cpuMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

let seen = -1
let sinceCpuMs = 0
let sinceMs = 0

setInterval(() => {
  const now = Atomics.load(turn, 0)
  if (now !== seen) {
    seen = now
    sinceCpuMs = cpuMs()
    sinceMs = performance.now()
    return
  }
  const isWorking = now % 2 !== 0
  const isOver = cpuMs() - sinceCpuMs > cpuMsMax || performance.now() - sinceMs > realMsMax
  if (isWorking && isOver) process.kill(process.pid, TOO_LONG)
  // Nobody would hear the answer.
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
}, LOOK_MS)
