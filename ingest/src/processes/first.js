/**
 * The first process of an ingest of several: it starts the others, starts again what ends, passes
 * connections on between them, and gathers what they say of themselves. It has the broker
 * (`hub.js`), and stores nothing.
 *
 * Ports are shared by the kernel: whichever process is free accepts.
 */

import cluster from 'node:cluster'
import { SettingError } from '@sandglass/common/options'

/** Before a process that ended is started again, in milliseconds; the last one stays. */
const BACK_OFF_MS = [200, 500, 1_000, 2_000, 4_000, 8_000, 15_000]

/** If it has served this long, it starts again with the shortest pause, in milliseconds. */
const STEADY_MS = 30_000

/** Longest wait for what a process says of itself, in milliseconds. */
const ANSWER_MS_MAX = 2_000

/** Environment of another process: its number, and where the sockets are. */
export const INDEX_VARIABLE = 'SANDGLASS_INGEST_PROCESS'
export const DIRECTORY_VARIABLE = 'SANDGLASS_INGEST_SOCKETS'

/** @typedef {import('node:cluster').Worker} Worker */
/** @typedef {import('./member.js').Question} Question */
/** @typedef {import('./reports.js').Said<any>} Said */

/**
 * @typedef {object} Place  Of a process.
 * @property {Worker | undefined} worker
 * @property {boolean} isReady
 * @property {number} readyMs  When it was ready last.
 * @property {number} failures  In a row.
 */

/** @typedef {{ said: Said[], left: number, done: (said: Said[]) => void }} Round */

export class First {
  /** @type {Place[]} */
  #places
  /** Questions that are being answered. @type {Map<number, Round>} */
  #rounds = new Map()
  #nextRound = 0
  #isStopping = false
  #directory
  #own
  #logger

  /**
   * @param {object} parts
   * @param {number} parts.count
   * @param {string} parts.directory  For sockets.
   * @param {(what: Question) => Promise<Said[]>} parts.own  What this process says.
   * @param {import('pino').Logger} parts.logger
   */
  constructor({ count, directory, own, logger }) {
    this.#directory = directory
    this.#own = own
    this.#logger = logger
    this.#places = Array.from({ length: count }, () => ({
      worker: undefined,
      isReady: false,
      readyMs: 0,
      failures: 0,
    }))
    cluster.schedulingPolicy = cluster.SCHED_NONE
  }

  /** Resolves when all take messages. @throws  If one ends before. */
  async start() {
    await Promise.all(this.#places.map((_place, index) => this.#begin(index)))
    this.#places.forEach((_place, index) => void this.#keep(index))
  }

  /** Lets each stop in its order; resolves when all are gone. */
  async stop() {
    this.#isStopping = true
    await Promise.all(
      this.#places.map(async ({ worker }) => {
        if (!worker || worker.isDead()) return
        const isGone = new Promise((resolve) => worker.once('exit', resolve))
        if (worker.isConnected()) worker.send({ stop: true })
        await isGone
      }),
    )
  }

  /** Resolves when it takes messages. @param {number} index */
  #begin(index) {
    const place = this.#places[index]
    const worker = cluster.fork({
      [INDEX_VARIABLE]: `${index}`,
      [DIRECTORY_VARIABLE]: this.#directory,
    })
    place.worker = worker
    worker.on('error', (error) => this.#logger.warn({ index, reason: error.message }, 'not heard'))
    return new Promise((/** @type {(value: void) => void} */ resolve, reject) => {
      worker.on('message', (message, handle) => {
        if (message.ready) {
          place.isReady = true
          place.readyMs = performance.now()
          resolve()
        } else {
          void this.#hear(index, message, handle)
        }
      })
      worker.once('exit', (code, signal) => {
        place.isReady = false
        const how = signal ?? `exit code ${code}`
        reject(new SettingError(`process ${index} of ingest does not start (${how}): it says why`))
      })
    })
  }

  /** Starts a process again whenever it has ended. @param {number} index */
  async #keep(index) {
    const place = this.#places[index]
    for (;;) {
      const { worker } = place
      if (worker && !worker.isDead()) {
        await new Promise((resolve) => worker.once('exit', resolve))
      }
      if (this.#isStopping) return
      if (performance.now() - place.readyMs > STEADY_MS) place.failures = 0
      const pauseMs = BACK_OFF_MS[Math.min(place.failures++, BACK_OFF_MS.length - 1)]
      this.#logger.error({ index, pauseMs }, 'a process of ingest ended and is started again')
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
      if (this.#isStopping) return
      await this.#begin(index).catch(() => {})
    }
  }

  /** @param {number} index  @param {any} message  @param {any} handle */
  async #hear(index, message, handle) {
    if (handle) {
      this.#pass(message, handle)
    } else if (message.what) {
      const { question, what } = message
      const said = await this.#gather(what)
      const { worker } = this.#places[index]
      if (worker?.isConnected()) worker.send({ question, said })
    } else if ('value' in message) {
      const round = this.#rounds.get(message.question)
      round?.said.push({ process: `${index}`, value: message.value })
      if (round && round.said.length === round.left) round.done(round.said)
    }
  }

  /** A connection; one whose process is away is closed: its client comes again. */
  /** @param {{ to: number, bytes: string }} message  @param {any} handle */
  #pass({ to, bytes }, handle) {
    const { worker, isReady } = this.#places[to]
    if (worker?.isConnected() && isReady) worker.send({ bytes }, handle, () => handle.close())
    else handle.close()
  }

  /** What those say who answer in time. @param {Question} what */
  async #gather(what) {
    const asked = this.#places.filter(({ worker, isReady }) => isReady && worker?.isConnected())
    const question = this.#nextRound++
    const said = await new Promise((/** @type {(said: Said[]) => void} */ done) => {
      /** @type {Round} */
      const round = { said: [], left: asked.length, done }
      this.#rounds.set(question, round)
      setTimeout(() => done(round.said), asked.length > 0 ? ANSWER_MS_MAX : 0)
      for (const { worker } of asked) worker?.send({ question, what })
    })
    this.#rounds.delete(question)
    said.sort((a, b) => Number(a.process) - Number(b.process))
    return [...said, ...(await this.#own(what))]
  }
}
