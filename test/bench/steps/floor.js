// What this machine gives, under the loads of the other steps.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { prepareLoad } from '../load/load.js'
import { Meter } from '../measure/meter.js'
import { figuresOf } from '../report/figure.js'

const SERVER = fileURLToPath(new URL('../others/floor.js', import.meta.url))

const figure = figuresOf('floor')

/** Those of `ingest-100` and `ingest-spread`. */
const LOADS = [
  { connections: 100, sensors: 100, rate: 101 },
  { connections: 500, sensors: 500, rate: 10_100 },
]

/**
 * A broker that only writes to a file, synchronously, and answers.
 *
 * @param {import('../benchmarks.js').Context} context
 * @returns {Promise<import('../report/figure.js').Figure[]>}
 */
export async function floor({ seconds, progress }) {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-floor-'))
  const server = fork(SERVER, [join(directory, 'log')])
  try {
    const [port] = await once(server, 'message')
    const figures = []
    for (const load of LOADS) {
      progress(`${load.rate} messages/s`)
      figures.push(...(await under({ ...load, host: '127.0.0.1', port, seconds }, server)))
    }
    return figures
  } finally {
    server.kill()
    rmSync(directory, { recursive: true, force: true })
  }
}

/**
 * @param {import('../measure/underload.js').SteadyLoad & { host: string, port: number }} load
 * @param {import('node:child_process').ChildProcess} server
 */
async function under(load, server) {
  const generator = await prepareLoad({ ...load, prefix: 'floor' })
  try {
    await generator.begin()
    const pids = { server: Number(server.pid), generator: generator.pid }
    const meter = new Meter(pids, ['server'])
    meter.begin()
    const { ackP50Ms, ackP99Ms, sentP99Ms, acknowledgedByEnd: count } = await generator.end()
    const { cpuUs, otherCores } = meter.end()
    const name = `${load.rate} messages/s`
    return [
      figure(`${name}: due to PUBACK, median`, ackP50Ms, 'ms'),
      figure(`${name}: due to PUBACK, p99`, ackP99Ms, 'ms'),
      figure(`${name}: of these, due to sent, p99`, sentP99Ms, 'ms'),
      figure(`${name}: CPU`, cpuUs.server / count, 'µs/message'),
      figure(`${name}: kept busy by other programs`, otherCores, 'cores'),
    ]
  } finally {
    generator.kill()
  }
}
