/**
 * The life of a service: start, serve, stop in reverse order. A `main.js` gives a function that
 * starts things and registers how each is stopped; signals, logging and the exit code are here.
 */

import pino from 'pino'

/**
 * Node's options for the api: a young generation that grows, up to so many MiB, until the rows of
 * many pages die in it. In the default one they grow old, and collecting them keeps other requests
 * waiting for milliseconds. What dies young is never made old at once (docs/adr/0089).
 */
export const API_FLAGS = ['--max-semi-space-size=64', '--no-allocation-site-pretenuring']

/**
 * The same for ingest, of which nearly all dies young. Where few are left to copy, one thread is
 * done before helpers have a core (docs/adr/0053).
 */
export const INGEST_FLAGS = ['--no-allocation-site-pretenuring', '--no-parallel-scavenge']

/** Longest that an orderly stop may take, in milliseconds; then the process ends with code 1. */
const STOP_MS_MAX = 15_000

/** @typedef {import('pino').Logger} Logger */
/** @typedef {(name: string, stop: () => unknown) => void} OnStop */

/**
 * A logger that writes one JSON object per line to standard error.
 *
 * @param {string} name  The service.
 */
function createLogger(name) {
  const level = process.env.LOG_LEVEL ?? 'info'
  return pino(
    { name, level, base: { pid: process.pid } },
    pino.destination({ dest: 2, sync: true }),
  )
}

/** @typedef {(reason: string, code: number) => Promise<void>} Stop */

/** SIGTERM and SIGINT stop a service. @param {Stop} stop */
function bySignals(stop) {
  for (const signal of /** @type {const} */ (['SIGTERM', 'SIGINT'])) {
    process.on(signal, () => void stop(signal, 0))
  }
}

/**
 * The process that started this one stops it, by a message: a signal to their group reaches both,
 * and would be a second one here.
 *
 * @param {Stop} stop
 */
export function byParent(stop) {
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => {})
  process.on('message', (/** @type {{ stop?: boolean }} */ message) => {
    if (message.stop) void stop('the first process stops', 0)
  })
}

/**
 * Runs a service until SIGTERM or SIGINT, then stops what `start` registered, last first. A second
 * signal ends the process at once.
 *
 * @param {string} name
 * @param {(context: { logger: Logger, onStop: OnStop }) => Promise<void>} start
 * @param {(stop: Stop) => void} [listen]  To what stops it, in the place of signals.
 */
export async function run(name, start, listen = bySignals) {
  const logger = createLogger(name)
  /** @type {{ name: string, stop: () => unknown }[]} */
  const stops = []
  let stopping = false

  /** @param {string} reason  @param {number} code */
  async function stop(reason, code) {
    if (stopping) process.exit(1)
    stopping = true
    logger.info({ reason }, 'stopping')
    setTimeout(() => {
      logger.error({ stopMsMax: STOP_MS_MAX }, 'stopping took too long')
      process.exit(1)
    }, STOP_MS_MAX).unref()
    for (const { name: part, stop: stopPart } of stops.reverse()) {
      try {
        await stopPart()
      } catch (error) {
        logger.error({ err: error, part }, 'a part did not stop cleanly')
      }
    }
    logger.info('stopped')
    process.exit(code)
  }

  listen(stop)
  process.on('uncaughtException', (error) => {
    logger.fatal({ err: error }, 'unexpected error')
    void stop('unexpected error', 1)
  })
  try {
    await start({ logger, onStop: (part, stopPart) => stops.push({ name: part, stop: stopPart }) })
  } catch (error) {
    logger.fatal(explain(/** @type {NodeJS.ErrnoException & { port?: number }} */ (error)))
    void stop('could not start', 1)
  }
}

/**
 * One clear line for what a user can mend; everything else keeps its stack.
 *
 * @param {NodeJS.ErrnoException & { port?: number }} error
 */
function explain(error) {
  if (error.code === 'EADDRINUSE') {
    return `port ${error.port} is taken: stop what listens there, or choose another with the flag`
  }
  if (error.code === 'commander.invalidArgument') return error.message
  return error.stack ?? String(error)
}
