/**
 * Has expressions evaluated, in a process of its own (`child.js`, ADR 0078): it can be stopped
 * whatever it does, and its memory is not ours. It is started when the first payload is there, and
 * given what arrived while it was busy. If it ends, the next one gets what was not answered, one by
 * one; a message at which that ends, too, is refused.
 *
 * A client whose messages ended it several times within a minute waits for the next minute: its
 * messages are refused at once, so that others need not wait for the process to come back.
 */

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { OUTCOME } from './envelope.js'
import { FairQueue } from './fair-queue.js'

/** Processor time of one payload, and real time where the machine has much else to do, in ms. */
const CPU_MS_MAX = 500
const REAL_MS_MAX = 10_000

/** Memory of the process for what expressions make, in megabytes. */
const HEAP_MB_MAX = 64

/** Payloads that the process is given at once; no more are added beyond so many bytes. */
const SENT_MAX = 32
const SENT_BYTES_MAX = 2 ** 20

/** When a process that did not start is started again, in milliseconds. */
const RESTART_MS = 1_000

/** How often the messages of a client may end the process within a time, in milliseconds. */
const ENDS_MAX = 3
const ENDS_MS = 60_000

/** Most clients of which that is remembered. */
const CLIENTS_MAX = 10_000

/** What the watchdog ends the process with. */
const TOO_LONG_SIGNAL = 'SIGUSR2'

const CHILD = fileURLToPath(new URL('./child.js', import.meta.url))

const TOO_LONG = `the expression took more than ${CPU_MS_MAX} ms of the processor`
const TOO_LARGE = `the expression took more than ${HEAP_MB_MAX} MB of memory, or failed badly`
const TOO_OFTEN =
  `${ENDS_MAX} messages of this client took too long, or too much, within a minute: ` +
  'this one was not evaluated'

/** @typedef {import('./evaluate.js').Reading} Reading */
/** @typedef {import('./evaluate.js').Said} Said */

/**
 * @typedef {object} Question
 * @property {string} expression
 * @property {Reading} reading
 * @property {Buffer | undefined} payload  Without one it is only looked at the expression.
 * @property {{ topic: string, sensor?: string, metric?: string }} place
 * @property {string} client  Who sent it.
 */

/**
 * @typedef {object} Waiting
 * @property {number} id
 * @property {Question} question
 * @property {(said: Said) => void} answer
 * @property {boolean} isSuspect  Whether a process ended while it had it.
 */

/** Of a payload: its id, the outcome, what was said, and how many milliseconds it took. */
/** @typedef {[number, number, string, number]} Answer */

export class Evaluator {
  counts = {
    /** Payloads that were evaluated, or refused. */
    evaluated: 0,
    /** Payloads that took too long, and too much memory. */
    slow: 0,
    large: 0,
    /** Payloads that were not evaluated, because others of their client ended the process. */
    unasked: 0,
    /** Processes that were started. */
    starts: 0,
  }
  /** @type {FairQueue<Waiting>} */
  #waiting = new FairQueue()
  /** That the process has, oldest first. @type {Waiting[]} */
  #sent = []
  /** That a process had when it ended: each is sent alone. @type {Waiting[]} */
  #suspects = []
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child
  /** @type {NodeJS.Timeout | undefined} */
  #restart
  #isStopped = false
  #lastId = 0
  /** @type {Map<string, { ends: number, sinceMs: number }>} */
  #clients = new Map()
  #logger
  #now
  #limits

  /**
   * @param {object} [parts]
   * @param {Pick<import('pino').Logger, 'warn'>} [parts.logger]
   * @param {() => number} [parts.now]  A clock that only goes forward, in milliseconds.
   * @param {{ cpuMsMax: number, realMsMax: number }} [parts.limits]
   */
  constructor({ logger, now = () => performance.now(), limits } = {}) {
    this.#logger = logger
    this.#now = now
    this.#limits = limits ?? { cpuMsMax: CPU_MS_MAX, realMsMax: REAL_MS_MAX }
  }

  /** How many payloads wait. */
  get waiting() {
    return this.#waiting.length + this.#suspects.length + this.#sent.length
  }

  /** The id of the process, while there is one. */
  get pid() {
    return this.#child?.pid
  }

  /**
   * @param {Question} question
   * @param {(said: Said) => void} answer  Called later; never, once it is stopped.
   */
  ask(question, answer) {
    if (this.#isTooOften(question.client)) {
      this.counts.unasked++
      queueMicrotask(() => answer(refusal(TOO_OFTEN)))
      return
    }
    this.#lastId++
    this.#waiting.add(question.client, {
      id: this.#lastId,
      question,
      answer,
      isSuspect: false,
    })
    this.#send()
  }

  /** @param {Question} question  @returns {Promise<Said>} */
  evaluate(question) {
    return new Promise((resolve) => this.ask(question, resolve))
  }

  stop() {
    this.#isStopped = true
    clearTimeout(this.#restart)
    this.#child?.kill('SIGKILL')
  }

  #send() {
    if (this.#isStopped || this.#restart !== undefined || this.#sent.length > 0) return
    if (this.#waiting.length + this.#suspects.length === 0) return
    const child = this.#child ?? this.#start()
    this.#sent = this.#suspects.length > 0 ? this.#suspects.splice(0, 1) : this.#next()
    const jobs = this.#sent.map(({ id, question: { expression, reading, payload, place } }) => ({
      id,
      expression,
      reading,
      payload,
      ...place,
    }))
    // What could not be sent is sent to the next process, when this one has ended.
    child.send(jobs, () => {})
  }

  /** What is sent at once. */
  #next() {
    /** @type {Waiting[]} */
    const sent = []
    let bytes = 0
    while (sent.length < SENT_MAX && bytes < SENT_BYTES_MAX) {
      const next = this.#waiting.take()
      if (!next) break
      bytes += next.question.payload?.length ?? 0
      sent.push(next)
    }
    return sent
  }

  #start() {
    this.counts.starts++
    const child = fork(CHILD, [JSON.stringify(this.#limits)], {
      serialization: 'advanced',
      env: { TZ: 'UTC' },
      execArgv: [
        `--max-old-space-size=${HEAP_MB_MAX}`,
        '--disallow-code-generation-from-strings',
        '--disable-proto=delete',
      ],
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    this.#child = child
    // Nothing waits for it alone.
    child.unref()
    child.channel?.unref()
    child.on('message', (answers) => this.#answered(/** @type {Answer[]} */ (answers)))
    child.on('error', (error) => this.#logger?.warn({ reason: error.message }, 'expressions'))
    child.on('close', (_code, signal) => this.#ended(child, signal))
    return child
  }

  /** @param {Answer[]} answers  In the order of what was sent. */
  #answered(answers) {
    for (const [id, outcome, said, ms] of answers) {
      if (this.#sent[0]?.id === id) this.#done({ outcome, said }, ms)
    }
    this.#send()
  }

  /** @param {Said} said  Of the first that was sent.  @param {number} ms  That it took. */
  #done(said, ms) {
    const done = this.#sent.shift()
    if (!done) return
    this.counts.evaluated++
    this.#waiting.spent(done.question.client, ms)
    done.answer(said)
  }

  /** @param {import('node:child_process').ChildProcess} child  @param {string | null} signal */
  #ended(child, signal) {
    if (this.#child !== child) return
    this.#child = undefined
    if (this.#isStopped) return
    if (signal === null || this.#sent.length === 0) this.#startLater()
    else if (isGuilty(this.#sent, signal)) this.#blame(this.#sent[0], signal)
    for (const one of this.#sent) one.isSuspect = true
    this.#suspects.unshift(...this.#sent)
    this.#sent = []
    this.#send()
  }

  /** @param {Waiting} waiting  The only one there was.  @param {string} signal */
  #blame({ question: { client, place } }, signal) {
    const isSlow = signal === TOO_LONG_SIGNAL
    if (isSlow) this.counts.slow++
    else this.counts.large++
    this.#logger?.warn({ client, topic: place.topic, signal }, 'an expression was stopped')
    this.#note(client)
    this.#done(refusal(isSlow ? TOO_LONG : TOO_LARGE), this.#limits.cpuMsMax)
    if (this.#isTooOften(client)) this.#refuseAll(client)
  }

  /** It ended without having been given anything, or by itself: nobody's message did that. */
  #startLater() {
    this.#logger?.warn({}, 'the process that evaluates expressions ended: it is started again')
    this.#restart = setTimeout(() => {
      this.#restart = undefined
      this.#send()
    }, RESTART_MS)
    this.#restart.unref()
  }

  /** @param {string} client */
  #note(client) {
    const nowMs = this.#now()
    const known = this.#clients.get(client)
    if (known && nowMs - known.sinceMs < ENDS_MS) {
      known.ends++
      return
    }
    if (this.#clients.size >= CLIENTS_MAX) this.#clients.clear()
    this.#clients.set(client, { ends: 1, sinceMs: nowMs })
  }

  /** @param {string} client */
  #isTooOften(client) {
    const known = this.#clients.get(client)
    return known !== undefined && known.ends >= ENDS_MAX && this.#now() - known.sinceMs < ENDS_MS
  }

  /** @param {string} client */
  #refuseAll(client) {
    const late = this.#suspects.filter(({ question }) => question.client === client)
    this.#suspects = this.#suspects.filter(({ question }) => question.client !== client)
    late.push(...this.#waiting.drop(client))
    this.counts.unasked += late.length
    for (const { answer } of late) answer(refusal(TOO_OFTEN))
  }
}

/**
 * Whether it is certain which payload ended a process: one that was alone, and took too long, or
 * has ended another one. Somebody else may have ended it once.
 *
 * @param {Waiting[]} sent
 * @param {string} signal
 */
function isGuilty(sent, signal) {
  return sent.length === 1 && (signal === TOO_LONG_SIGNAL || sent[0].isSuspect)
}

/** @param {string} reason  @returns {Said} */
function refusal(reason) {
  return { outcome: OUTCOME.refused, said: reason }
}
