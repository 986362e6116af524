/** What the launcher can be told: its flags and environment variables. */

import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import {
  address,
  allowRemote,
  integer,
  number,
  readOptions,
  requireKeys,
  requireLoopback,
  url,
} from '../src/options.js'
import { Failure } from './failure.js'

/** @typedef {import('../src/options.js').OptionSpec<any>} OptionSpec */
/** @typedef {import('./ports.js').Address} Address */
/** @typedef {'start' | 'demo'} Mode */

/** What listens, in the order in which it starts. */
export const LISTENERS = /** @type {const} */ ([
  { key: 'dbListen', flag: '--db-listen', what: 'CQL', initial: '127.0.0.1:9042' },
  { key: 'dbHttp', flag: '--db-http', what: "the engine's HTTP", initial: '127.0.0.1:9180' },
  { key: 'mqttListen', flag: '--mqtt-listen', what: 'MQTT', initial: '127.0.0.1:1883' },
  { key: 'ingestHttp', flag: '--ingest-http', what: "ingest's HTTP", initial: '127.0.0.1:9181' },
  { key: 'apiListen', flag: '--api-listen', what: 'page and REST', initial: '127.0.0.1:8080' },
])

/** Those that know keys. @type {ReadonlySet<string>} */
const ASKS_WHO = new Set(['mqttListen', 'apiListen'])

/**
 * @typedef {object} Options
 * @property {string} dataDir   Absolute.
 * @property {string} dbDataDir  Absolute.
 * @property {Address} dbListen
 * @property {Address} dbHttp
 * @property {Address} mqttListen
 * @property {Address} ingestHttp
 * @property {Address} apiListen
 * @property {string} [dbShards]
 * @property {string} [dbMemory]
 * @property {string} [dbProgram]  Absolute. An engine that is built already.
 * @property {string} [cqlHosts]  A database that runs elsewhere; then no engine is started.
 * @property {string} [mqttUrl]  A broker that runs elsewhere; then ingest is its client.
 * @property {number} sensors
 * @property {number} [rate]
 * @property {number} malformedPercent
 * @property {boolean} allowRemote
 * @property {boolean} requireKeys
 * @property {boolean} verbose
 */

/**
 * Where a demo keeps its data unless told otherwise: never in `./data`, which is for real readings.
 *
 * @param {Record<string, string | undefined>} env
 */
export function demoDirectory(env) {
  const state = env.XDG_STATE_HOME || (env.HOME ? join(env.HOME, '.local/state') : tmpdir())
  return join(state, 'sandglass/demo')
}

/** @type {OptionSpec[]} */
const SIMULATOR_OPTIONS = [
  {
    flag: '--sensors <number>',
    help: 'simulated sensors',
    default: '25',
    parse: integer(1, 1_000_000),
  },
  {
    flag: '--rate <number>',
    help: 'messages a second of all sensors together (default: one per sensor)',
    parse: number(0, 1_000_000),
  },
  {
    flag: '--malformed-percent <number>',
    help: 'share of messages that are rubbish, to see dead letters',
    default: '0',
    parse: number(0, 100),
  },
]

/** @param {Mode} mode  @param {string} dataDir  @returns {OptionSpec[]} */
function specs(mode, dataDir) {
  return [
    { flag: '--data-dir <directory>', help: 'where data and logs are kept', default: dataDir },
    {
      flag: '--db-data-dir <directory>',
      help: "the engine's data (default: db in the data directory)",
    },
    ...LISTENERS.map(({ flag, what, initial }) => ({
      flag: `${flag} <host:port>`,
      help: `where ${what} is served`,
      default: initial,
      parse: address,
    })),
    { flag: '--db-shards <number>', help: "the engine's shards (default: half the cores)" },
    { flag: '--db-memory <bytes>', help: "the engine's memory, e.g. 256MiB" },
    { flag: '--db-program <file>', help: 'an engine that is built already: nothing is compiled' },
    {
      flag: '--cql-hosts <host:port,...>',
      help: 'use this ScyllaDB, Cassandra or engine instead of starting one',
    },
    {
      flag: '--mqtt-url <url>',
      help: 'use this MQTT broker, mqtt:// or mqtts://, instead of the one inside ingest',
      parse: url('mqtt:', 'mqtts:'),
    },
    ...(mode === 'demo' ? SIMULATOR_OPTIONS : []),
    requireKeys,
    allowRemote,
    { flag: '--verbose', help: "show the parts' logs as they are written" },
  ]
}

const AFTER = `Every flag can be given as an environment variable, e.g. API_LISTEN=127.0.0.1:8081;
the flag wins. What the parts can be told besides is given as environment variables, too; see
npm run db -- --help, and the same of ingest, api and simulator.`

/**
 * @param {Mode} mode
 * @param {string[]} argv  As in `process.argv`.
 * @param {string} root  The repository.
 * @returns {Options}
 * @throws {Failure}
 */
export function readLaunchOptions(mode, argv, root) {
  const keep = join(root, 'data')
  const description =
    mode === 'demo'
      ? 'Starts the whole platform with simulated sensors, on data of its own.'
      : 'Starts the whole platform for real devices.'
  const initial = mode === 'demo' ? demoDirectory(process.env) : keep
  const name = mode === 'demo' ? 'npm run demo --' : 'npm start --'
  const options = specs(mode, initial)
  const values = readOptions({ name, description, options, after: AFTER }, argv)
  const dataDir = resolve(values.dataDir)
  if (mode === 'demo' && dataDir === keep) {
    throw new Failure(`${keep} is for real readings (npm start): give the demo another --data-dir`)
  }
  for (const { key, flag } of LISTENERS) {
    try {
      const asksWho = values.requireKeys && ASKS_WHO.has(key)
      requireLoopback(flag, values[key], values.allowRemote || asksWho)
    } catch (error) {
      throw new Failure(/** @type {Error} */ (error).message)
    }
  }
  const dbDataDir = resolve(values.dbDataDir ?? join(dataDir, 'db'))
  const dbProgram = values.dbProgram && resolve(values.dbProgram)
  return /** @type {Options} */ ({ ...values, dataDir, dbDataDir, dbProgram })
}
