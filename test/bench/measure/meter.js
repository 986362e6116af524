// What the platform's processes use between two moments.
import { cpuUs, machineCpuUs, pssBytes } from './usage.js'

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
  #pss = {}
  #pssMax = 0
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
    return {
      cpuUs: Object.fromEntries(used),
      otherCores,
      pssBytes: this.#pss,
      pssBytesMax: this.#pssMax,
    }
  }

  #cpu() {
    return Object.fromEntries(Object.entries(this.pids).map(([name, pid]) => [name, cpuUs(pid)]))
  }

  #sample() {
    const pss = Object.fromEntries(this.platform.map((name) => [name, pssBytes(this.pids[name])]))
    const sum = Object.values(pss).reduce((total, bytes) => total + bytes, 0)
    if (sum <= this.#pssMax) return
    this.#pssMax = sum
    this.#pss = pss
  }
}
