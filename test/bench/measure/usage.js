// What a process costs, as the kernel counts it.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * CPU time of a process, all its threads, in microseconds. From schedstat, whose nanoseconds are
 * exact; /proc/PID/stat counts ticks of 10 ms. Threads that have ended are not in it.
 *
 * @param {number} pid
 */
export function cpuUs(pid) {
  return eachTask(pid, (task) => Number(read(`${task}/schedstat`).split(' ')[0])) / 1000
}

/**
 * How often the threads of a process gave up the CPU by themselves, i.e. slept.
 *
 * @param {number} pid
 */
export function sleeps(pid) {
  return eachTask(pid, (task) => field(`${task}/status`, 'voluntary_ctxt_switches'))
}

/**
 * Proportional set size: memory of a process, shared pages divided among those that share them.
 *
 * @param {number} pid
 * @returns {number}  Bytes.
 */
export function pssBytes(pid) {
  return field(`/proc/${pid}/smaps_rollup`, 'Pss') * 1024
}

/**
 * Resident memory of a process, shared pages in full. The kernel keeps count of it, whereas it
 * looks at each page for `pssBytes`.
 *
 * @param {number} pid
 * @returns {number}  Bytes.
 */
export function residentBytes(pid) {
  return field(`/proc/${pid}/status`, 'VmRSS') * 1024
}

/** Length of the ticks in which /proc/stat counts, in microseconds. */
const TICK_US = 10_000

/** CPU time that all programs of the machine have used, in microseconds. */
export function machineCpuUs() {
  const [user, nice, system, , , irq, softirq] = read('/proc/stat')
    .split('\n')[0]
    .split(/\s+/)
    .slice(1)
    .map(Number)
  return (user + nice + system + irq + softirq) * TICK_US
}

/** @param {number} pid @param {(task: string) => number} measure  @returns {number}  The sum. */
function eachTask(pid, measure) {
  let sum = 0
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    try {
      sum += measure(`/proc/${pid}/task/${task}`)
    } catch (error) {
      // A thread may end between the listing and the reading.
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ENOENT') throw error
    }
  }
  return sum
}

/** @param {string} file */
function read(file) {
  return readFileSync(file, 'utf8')
}

/** @param {string} file @param {string} name */
function field(file, name) {
  const value = new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(read(file))?.[1]
  if (value === undefined) throw new Error(`${file} has no ${name}`)
  return Number(value)
}

/** How many files and sockets a process has open. @param {number} pid */
export function descriptors(pid) {
  return readdirSync(`/proc/${pid}/fd`).length
}

/**
 * How many files are in a folder and those below it, and their length in bytes.
 *
 * @param {string} folder
 */
export function filesIn(folder) {
  let count = 0
  let bytes = 0
  for (const entry of readdirSync(folder, { recursive: true })) {
    // What is compacted or emptied may be gone by now.
    const stat = statSync(join(folder, String(entry)), { throwIfNoEntry: false })
    if (!stat?.isFile()) continue
    count++
    bytes += stat.size
  }
  return { count, bytes }
}
