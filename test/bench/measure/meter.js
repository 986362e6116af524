// What the platform's processes use between two moments.
import { cpuUs, machineCpuUs, pssBytes, residentBytes } from './usage.js'

/** How often memory is read, in milliseconds; the largest sum counts. */
const MEMORY_MS = 1000

/**
 * @typedef {object} Usage
 * @property {Record<string, number>} cpuUs  By process, microseconds.
 * @property {number} otherCores  Cores that everything else on the machine kept busy.
 * @property {Record<string, number>} pssBytes  By process, when the sum was largest.
 * @property {number} pssBytesMax  The largest sum.
 */

export class Meter {
  /** @type {Record<string, number>} */
  #cpuUsBefore = {}
  /** @type {Record<string, number>} */
  #resident = {}
  #residentMax = 0
  #machineUs = 0
  #beginMs = 0
  /** @type {NodeJS.Timeout | undefined} */
  #timer

  /**
   * @param {Record<string, number>} pids  Processes by name.
   * @param {string[]} platform  Names of those whose memory is summed.
   */
  constructor(pids, platform) {
    this.pids = pids
    this.platform = platform
  }

  begin() {
    this.#cpuUsBefore = this.#cpu()
    this.#machineUs = machineCpuUs()
    this.#beginMs = performance.now()
    this.#sample()
    this.#timer = setInterval(() => this.#sample(), MEMORY_MS)
  }

  /** @returns {Usage} */
  end() {
    clearInterval(this.#timer)
    this.#sample()
    const machineUs = machineCpuUs() - this.#machineUs
    const passedUs = (performance.now() - this.#beginMs) * 1000
    const used = Object.entries(this.#cpu()).map(([name, us]) => [
      name,
      us - this.#cpuUsBefore[name],
    ])
    const ours = used.reduce((sum, [, us]) => sum + Number(us), 0)
    const otherCores = Math.max(0, machineUs - ours) / passedUs
    const pssBytes = this.#pssWhenLargest()
    return {
      cpuUs: Object.fromEntries(used),
      otherCores,
      pssBytes,
      pssBytesMax: Object.values(pssBytes).reduce((total, bytes) => total + bytes, 0),
    }
  }

  #cpu() {
    return Object.fromEntries(Object.entries(this.pids).map(([name, pid]) => [name, cpuUs(pid)]))
  }

  /**
   * What of a process is shared is looked at only now that nothing is measured: the kernel takes
   * milliseconds for it, in which messages would wait.
   */
  #pssWhenLargest() {
    return Object.fromEntries(
      Object.entries(this.#resident).map(([name, resident]) => {
        const pid = this.pids[name]
        return [name, resident - (residentBytes(pid) - pssBytes(pid))]
      }),
    )
  }

  #sample() {
    const resident = Object.fromEntries(
      this.platform.map((name) => [name, residentBytes(this.pids[name])]),
    )
    const sum = Object.values(resident).reduce((total, bytes) => total + bytes, 0)
    if (sum <= this.#residentMax) return
    this.#residentMax = sum
    this.#resident = resident
  }
}
