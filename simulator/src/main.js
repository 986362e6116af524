/** Options → links → fleet or file → report; the exit code says whether all was acknowledged. */

import { setMaxListeners } from 'node:events'
import { basename, extname } from 'node:path'
import { SettingError } from '@sandglass/common/options'
import { Progress } from '@sandglass/common/progress'
import mqtt from 'mqtt'
import { backfillPlan } from './backfill.js'
import { formatMoment } from './calendar.js'
import { DESCRIBED_MAX, DescribeError, Describer } from './describe.js'
import { Ledger } from './ledger.js'
import { Link, Totals } from './link.js'
import { readSimulatorOptions } from './options.js'
import { Plan } from './plan.js'
import { checkTable } from './precheck.js'
import { Readback, ReadbackError } from './readback.js'
import { Reconciliation } from './reconcile.js'
import { count, finalLine, Latencies, runningLine } from './report.js'
import { realClock, runFleet, runReplay, Timeline } from './run.js'
import { readTable, TableError } from './table.js'
import { differenceOf, verdictLines } from './verdicts.js'

/** How long acknowledgements are waited for at the end, in milliseconds. */
const SETTLE_MS_MAX = 10_000
const RECONNECT_MS = 1000
const PROGRESS_MS = 1000
/** How much longer than told a run goes on that is behind, or whose last messages are late. */
const END_MS_MAX = 1000
const LATE_MS_MAX = 30_000
/** How long a run that is over waits for the last sensors to be described, in milliseconds. */
const DESCRIBE_MS_MAX = 5_000
/** Connections are opened this many at a time: a broker's backlog of new ones is short. */
const CONNECTIONS_AT_ONCE = 200

const options = readOptionsOrEnd()
const progress = new Progress(process.stdout, PROGRESS_MS)
/** With which the names of our connections begin, and those of no other run. */
const clients = `simulator-${process.pid.toString(36)}-${Date.now().toString(36)}-`
const stop = new AbortController()
// Every connection listens.
setMaxListeners(0, stop.signal)
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.on(signal, () => {
    // The second time nothing is waited for any more.
    if (stop.signal.aborted) process.exit(1)
    stop.abort()
  })
}

try {
  process.exitCode = options.replay ? await replay(options.replay) : await simulate()
} catch (error) {
  if (error instanceof TableError) {
    progress.line(`${options.replay}: ${error.message}`)
    process.exit(2)
  }
  if (!(error instanceof ReadbackError)) throw error
  progress.line(`cannot be reconciled: ${error.message}`)
  process.exit(1)
}

function readOptionsOrEnd() {
  try {
    return readSimulatorOptions(process.argv)
  } catch (error) {
    if (!(error instanceof SettingError)) throw error
    process.stderr.write(`error: ${error.message}\n`)
    process.exit(2)
  }
}

/** Publishes what a fleet measures. @returns {Promise<number>}  The exit code. */
async function simulate() {
  const { from, to, duration, speed, reconcile } = options
  const beganMs = Date.now()
  const startMs = from ?? beganMs
  const isLive = from === undefined
  const plan = new Plan(options, {
    startMs,
    endMs: isLive && duration > 0 ? startMs + duration * 1000 : to,
    backlogMs: isLive && !reconcile ? options.backlog * 1000 : Number.POSITIVE_INFINITY,
  })
  const past = options.backfill > 0 ? backfillPlan(options, startMs) : undefined
  const describing = options.describe === 'yes' ? describe(plan) : undefined
  const ledger = reconcile ? new Ledger(options.sensors) : undefined
  const reconciliation = ledger && prepare(plan, ledger, beganMs)
  await reconciliation?.begin()
  return publish(
    options.connections,
    async (links) => {
      if (duration > 0) setTimeout(() => stop.abort(), durationMsMax()).unref()
      const timeline = new Timeline(realClock, { startMs, speed })
      const parts = { links, clock: realClock, signal: stop.signal }
      let isPast = past !== undefined
      const run = async () => {
        const atOnce = new Timeline(realClock, { startMs, speed: 0 })
        if (past) await runFleet({ ...parts, plan: past, timeline: atOnce })
        isPast = false
        await runFleet({ ...parts, plan, timeline, ledger })
      }
      const live = () => (isPast ? ` · filling the past (${past?.percent} %)` : '')
      return {
        done: run(),
        skipped: () => plan.skipped,
        extra: () => (isLive ? live() : ` · ${position(plan, startMs, to)}`),
      }
    },
    async (unacknowledged) => {
      await describing?.finish()
      if (!reconciliation) return true
      const verdicts = await reconciliation.finish()
      const { seed } = options
      for (const line of verdictLines(verdicts, { unacknowledged, seed })) progress.line(line)
      return differenceOf(verdicts) === 0
    },
  )
}

/** Says what the sensors are, beside what is published. @param {Plan} plan */
function describe({ fleet }) {
  const end = new AbortController()
  const describer = new Describer({
    apiUrl: options.apiUrl,
    fleet,
    fleetName: options.fleet,
    signal: end.signal,
    sleep: realClock.sleep,
  })
  const done = describer.run().then(
    () => {
      const { sensors, all } = describer
      const some = fleet.length > DESCRIBED_MAX ? `the first ${count(all)}` : `${count(all)}`
      if (sensors === all) progress.line(`described: ${some} sensors and their metrics`)
      else progress.line(`described: ${count(sensors)} of ${some} sensors, and their metrics`)
    },
    (error) => {
      if (!(error instanceof DescribeError)) throw error
      progress.line(`types, units and tags are not set: ${error.message}`)
    },
  )
  return {
    /** Waits for it, where the api is there. */
    async finish() {
      const waitMs = describer.isHeard ? DESCRIBE_MS_MAX : 0
      await Promise.race([done, realClock.sleep(waitMs, new AbortController().signal)])
      end.abort()
      await Promise.race([done, realClock.sleep(RECONNECT_MS, new AbortController().signal)])
    },
  }
}

/** After how many milliseconds a run is stopped that was told how long to go on. */
function durationMsMax() {
  const { from, rate, duration, latePercent, duplicatePercent } = options
  // A fleet in the present ends by itself, unless the broker is away.
  const isOver = from !== undefined || rate === 0
  const lateMs = latePercent + duplicatePercent > 0 ? LATE_MS_MAX : END_MS_MAX
  return duration * 1000 + (isOver ? 0 : lateMs)
}

/** @param {Plan} plan  @param {Ledger} ledger  @param {number} startMs */
function prepare(plan, ledger, startMs) {
  const { apiUrl, reconcileWait } = options
  return new Reconciliation(
    { plan, ledger, readback: new Readback({ apiUrl }) },
    {
      clients,
      startMs,
      waitMs: reconcileWait * 1000,
      sleep: (ms) => realClock.sleep(ms, new AbortController().signal),
      onRead: (done, all) => {
        progress.update(`read back: ${count(done)} of ${count(all)} sensors`)
      },
    },
  )
}

/** How far a fleet in the past has come. */
/** @param {Plan} plan  @param {number} fromMs  @param {number} toMs */
function position({ schedules }, fromMs, toMs) {
  const nextMs = Math.min(toMs, ...schedules.map((schedule) => schedule.nextMs))
  const percent = Math.floor(((nextMs - fromMs) * 100) / (toMs - fromMs))
  return `${formatMoment(nextMs)} (${percent} %)`
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
    `rows to publish: ${count(good)}, from ${formatMoment(check.firstMs)} to ` +
      `${formatMoment(check.lastMs)}; skipped: ${count(check.bad)}`,
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
 * @param {(unacknowledged: number) => Promise<boolean>} [verify]  Whether all is well, afterwards.
 * @returns {Promise<number>}  The exit code.
 */
async function publish(connections, start, verify) {
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
  const unacknowledged = totals.published - totals.acknowledged
  await Promise.all(links.map((link) => link.close()))
  const isWell = verify ? await verify(unacknowledged) : true
  // The wait for acknowledgements may still be ticking.
  process.exit(isWell && unacknowledged === 0 ? 0 : 1)
}

/** @param {number} connections  @param {Totals} totals  @param {Latencies} latencies */
async function connect(connections, totals, latencies) {
  /** @type {Link[]} */
  const links = []
  while (links.length < connections && !stop.signal.aborted) {
    const client = mqtt.connect(options.mqttUrl, {
      clientId: `${clients}${links.length + 1}`,
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
