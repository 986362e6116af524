/** A platform on this machine: its parts started in order, watched, and stopped in reverse. */

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LogFile } from './log-file.js'
import { LISTENERS } from './options.js'
import { Part } from './part.js'
import { brokerUrl, describeParts, reach } from './parts.js'
import { checkPorts } from './ports.js'
import { buildEngine } from './setup.js'
import { sample, statusLine } from './status.js'

/** Between two looks at the platform, in milliseconds. */
const STATUS_MS = 1000

/** @typedef {import('./options.js').Options} Options */
/** @typedef {import('./setup.js').SetUp} SetUp */

/**
 * Sets a platform up, starts it, and shows how it does until the signal says stop; then stops it.
 *
 * @param {import('./options.js').Mode} mode
 * @param {Options} options
 * @param {SetUp & { force: AbortSignal }} setUp  `force`: stop at once what is being stopped.
 */
export async function runPlatform(mode, options, setUp) {
  const { root, progress, guard, signal, force } = setUp
  await checkPorts(listeners(options))
  const engine = options.cqlHosts ? undefined : (options.dbProgram ?? (await buildEngine(setUp)))
  const logs = join(options.dataDir, 'logs')
  mkdirSync(logs, { recursive: true })
  const isApiEncrypted = Boolean(process.env.API_TLS_CERT)
  const programs = { root, engine, node: process.execPath, isApiEncrypted }
  const parts = describeParts(mode, options, programs).map((spec) => {
    const log = new LogFile(join(logs, `${spec.name}.log`))
    return new Part(spec, { cwd: root, log, guard, say: (line) => progress.line(line) })
  })
  force.addEventListener('abort', () => {
    for (const part of parts) part.kill()
  })
  const started = []
  try {
    for (const part of parts) {
      if (signal.aborted) return
      progress.update(`starting ${part.name}`)
      started.push(part)
      await untilStopped(part.start(), part, signal)
    }
    if (signal.aborted) return
    for (const line of welcome(mode, options, logs, isApiEncrypted)) progress.line(line)
    await watch(options, parts, progress, signal)
  } finally {
    for (const part of started.reverse()) {
      progress.update(`stopping ${part.name}`)
      await part.stop()
    }
    progress.line('stopped')
  }
}

/**
 * Waits for a start, or for the signal: then the part is stopped, which ends its start.
 *
 * @param {Promise<void>} start
 * @param {Part} part
 * @param {AbortSignal} signal
 */
async function untilStopped(start, part, signal) {
  const stop = () => void part.stop()
  signal.addEventListener('abort', stop)
  try {
    await start
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** @param {Options} options */
function listeners(options) {
  const isOurs = (/** @type {string} */ key) =>
    !(options.cqlHosts && key.startsWith('db')) && !(options.mqttUrl && key === 'mqttListen')
  return LISTENERS.filter(({ key }) => isOurs(key)).map(({ key, flag, what }) => ({
    what,
    flag,
    address: options[key],
  }))
}

/**
 * What a new user wants to know first.
 *
 * @param {import('./options.js').Mode} mode
 * @param {Options} options
 * @param {string} logs
 * @param {boolean} isApiEncrypted
 */
function welcome(mode, options, logs, isApiEncrypted) {
  const api = `http${isApiEncrypted ? 's' : ''}://${reach(options.apiListen)}`
  const engine = options.cqlHosts ? '' : `http://${reach(options.dbHttp)}/metrics `
  return [
    '',
    `Sandglass is up${mode === 'demo' ? `, with ${options.sensors} simulated sensors` : ''}.`,
    `  page     ${api}/`,
    `  REST     ${api}/v1/sensors, described at ${api}/docs`,
    `  MQTT     ${brokerUrl(options)}, topic sensors/NAME/METRIC`,
    `  CQL      ${options.cqlHosts ?? reach(options.dbListen)}`,
    `  metrics  ${engine}http://${reach(options.ingestHttp)}/metrics ${api}/metrics`,
    `  data     ${options.dataDir}`,
    `  logs     ${logs}`,
    'Ctrl-C stops it.',
    '',
  ]
}

/**
 * @param {Options} options
 * @param {Part[]} parts
 * @param {import('../src/progress.js').Progress} progress
 * @param {AbortSignal} signal
 */
async function watch(options, parts, progress, signal) {
  const url = `http://${reach(options.ingestHttp)}`
  let before = await sample(url)
  while (!signal.aborted) {
    await sleep(STATUS_MS, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    const now = await sample(url)
    for (const { name, log } of parts) {
      if (options.verbose) for (const line of log.newLines()) progress.line(`${name}: ${line}`)
      log.rotate()
    }
    progress.update(statusLine(before, now))
    before = now
  }
}
