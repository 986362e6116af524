// The near end of the load generator.
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const GENERATOR = fileURLToPath(new URL('./generator.js', import.meta.url))

/** @typedef {import('./generator.js').Load} Load */
/** @typedef {import('./generator.js').LoadResult} LoadResult */

/** Messages of one connection that may wait for their PUBACK; devices that pipeline. */
const WINDOW = 20
/**
 * Options of Node for the generator. Devices collect their garbage on machines of their own: here
 * it is collected seldom and on one thread, so that it takes no core from what is measured.
 */
const GENERATOR_FLAGS = ['--no-allocation-site-pretenuring', '--single-threaded-gc']
/** Seconds before the measured time: sensors register, code is compiled. */
const WARMUP_S = 5

/**
 * Opens all connections.
 *
 * @param {Omit<Load, 'window' | 'warmupS'>} load
 */
export async function prepareLoad(load) {
  const child = fork(GENERATOR, { stdio: 'inherit', execArgv: GENERATOR_FLAGS })
  /** @type {Map<string, (message: any) => void>} */
  const waiting = new Map()
  /** @type {Map<string, any>} */
  const came = new Map()
  /** @type {(error: Error) => void} */
  let fail = () => {}
  /** @type {Promise<never>} */
  const failed = new Promise((_, reject) => {
    fail = reject
  })
  failed.catch(() => {})
  child.on('message', (/** @type {any} */ message) => {
    if (message.state === 'failed') fail(new Error(`the load generator: ${message.reason}`))
    came.set(message.state, message)
    waiting.get(message.state)?.(message)
  })
  child.once('exit', (code) => fail(new Error(`the load generator ended with code ${code}`)))

  /** @param {string} state  @returns {Promise<any>} */
  const state = (state) =>
    Promise.race([
      failed,
      new Promise((resolve) => {
        if (came.has(state)) resolve(came.get(state))
        else waiting.set(state, resolve)
      }),
    ])

  child.send({ window: WINDOW, warmupS: WARMUP_S, ...load })
  await state('ready')
  return {
    pid: Number(child.pid),
    /** Begins to publish; resolves when the warm-up is over. */
    begin: async () => {
      child.send({ go: true })
      await state('begin')
    },
    /** Resolves when all connections are open again after they were lost, once. */
    back: async () => {
      await state('back')
    },
    /** Resolves when all is acknowledged. @returns {Promise<LoadResult>} */
    end: async () => (await state('end')).result,
    /** Ends it at once. */
    kill: () => child.kill('SIGKILL'),
  }
}
