/** Options → links → fleet or file → report; the exit code says whether all was acknowledged. */

import { setMaxListeners } from 'node:events'
import { basename, extname } from 'node:path'
import { Progress } from '@sandglass/common/progress'
import mqtt from 'mqtt'
import { Link, Totals } from './link.js'
import { readSimulatorOptions } from './options.js'
import { checkTable } from './precheck.js'
import { count, finalLine, Latencies, runningLine } from './report.js'
import { realClock, runFleet, runReplay } from './run.js'
import { readTable, TableError } from './table.js'

/** How long acknowledgements are waited for at the end, in milliseconds. */
const SETTLE_MS_MAX = 10_000
const RECONNECT_MS = 1000
const PROGRESS_MS = 1000
/** Connections are opened this many at a time: a broker's backlog of new ones is short. */
const CONNECTIONS_AT_ONCE = 200

const options = readSimulatorOptions(process.argv)
const progress = new Progress()
const stop = new AbortController()
// Every connection listens.
setMaxListeners(0, stop.signal)
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.on(signal, () => stop.abort())
}

try {
  process.exitCode = options.replay ? await replay(options.replay) : await simulate()
} catch (error) {
  if (!(error instanceof TableError)) throw error
  progress.line(`${options.replay}: ${error.message}`)
  process.exitCode = 2
}

/** Publishes what a fleet measures. @returns {Promise<number>}  The exit code. */
async function simulate() {
  return publish(options.connections, async (links) => {
    if (options.duration > 0) setTimeout(() => stop.abort(), options.duration * 1000).unref()
    const { done, skipped } = runFleet(options, links, realClock, stop.signal)
    return { done, skipped, extra: () => '' }
  })
}

/**
 * Publishes the rows of a file.
 *
 * @param {string} path
 * @returns {Promise<number>}  The exit code.
 */
async function replay(path) {
  const layout = { ...options, sensor: options.sensor ?? basename(path, extname(path)) }
  const check = await checkTable(readTable(path, layout))
  for (const problem of check.problems) progress.line(`${path}: ${problem}`)
  if (check.bad > 0 && !options.skipBadRows) {
    progress.line(
      `${count(check.bad)} of ${count(check.rows)} rows are bad and nothing was published: ` +
        'mend them, or add --skip-bad-rows',
    )
    return 2
  }
  const good = check.rows - check.bad
  progress.line(
    `rows to publish: ${count(good)}, from ${new Date(check.firstMs).toISOString()} to ` +
      `${new Date(check.lastMs).toISOString()}; skipped: ${count(check.bad)}`,
  )
  let rows = 0
  return publish(1, async ([link]) => ({
    done: runReplay(goodRows(path, layout), options, link, realClock, stop.signal, () => rows++),
    skipped: () => 0,
    extra: () => ` · row ${count(rows)} of ${count(good)} (${Math.floor((rows * 100) / good)} %)`,
  }))
}

/** @param {string} path  @param {import('./table.js').Layout} layout */
async function* goodRows(path, layout) {
  for await (const row of readTable(path, layout)) {
    if (!('problem' in row)) yield row
  }
}

/** @typedef {{ done: Promise<unknown>, skipped: () => number, extra: () => string }} Run */

/**
 * Opens the links, lets a run publish over them, waits for the last acknowledgements and reports.
 *
 * @param {number} connections
 * @param {(links: Link[]) => Promise<Run>} start
 * @returns {Promise<number>}  The exit code.
 */
async function publish(connections, start) {
  const totals = new Totals()
  const latencies = new Latencies()
  const links = await connect(connections, totals, latencies)
  const run = await start(links)
  const startMs = performance.now()
  let before = 0
  const timer = setInterval(() => {
    const ratePerS = ((totals.acknowledged - before) * 1000) / PROGRESS_MS
    before = totals.acknowledged
    const extra = run.extra()
    progress.update(runningLine({ totals, ratePerS, latencies, links: connections, extra }))
  }, PROGRESS_MS)
  await run.done
  const waited = realClock.sleep(SETTLE_MS_MAX, new AbortController().signal)
  await Promise.race([Promise.all(links.map((link) => link.settled())), waited])
  clearInterval(timer)
  const elapsedMs = performance.now() - startMs
  progress.line(finalLine({ totals, elapsedMs, latencies, skipped: run.skipped() }))
  await Promise.all(links.map((link) => link.close()))
  // The wait for acknowledgements may still be ticking.
  process.exit(totals.acknowledged === totals.published ? 0 : 1)
}

/** @param {number} connections  @param {Totals} totals  @param {Latencies} latencies */
async function connect(connections, totals, latencies) {
  /** @type {Link[]} */
  const links = []
  while (links.length < connections && !stop.signal.aborted) {
    const client = mqtt.connect(options.mqttUrl, {
      clientId: `simulator-${process.pid}-${links.length + 1}`,
      reconnectPeriod: RECONNECT_MS,
    })
    const link = new Link(client, {
      qos: options.qos,
      window: options.window,
      totals,
      onAcknowledged: (ms) => latencies.add(ms),
    })
    links.push(link)
    while (links.length % CONNECTIONS_AT_ONCE === 0 && totals.connections < links.length) {
      progress.update(
        `connecting to ${options.mqttUrl}: ${count(totals.connections)} of ${count(connections)}` +
          `${totals.trouble ? ` (${totals.trouble})` : ''}`,
      )
      await realClock.sleep(50, stop.signal)
      if (stop.signal.aborted) break
    }
  }
  return links
}
