/** The processes of a platform: what each is started with. Pure. */

import { join } from 'node:path'
import { API_FLAGS, INGEST_FLAGS } from '../src/service.js'
import { format } from './ports.js'

/** @typedef {import('./options.js').Options} Options */
/** @typedef {import('./ports.js').Address} Address */

/** Listening on all addresses means reachable on this one. @type {Record<string, string>} */
const REACHABLE = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** Where a listener is reached from this machine. @param {Address} address */
export const reach = ({ host, port }) => format({ host: REACHABLE[host] ?? host, port })

/** Where devices publish. @param {Options} options */
export const brokerUrl = ({ mqttUrl, mqttListen }) => mqttUrl ?? `mqtt://${reach(mqttListen)}`

/** What is set only if it was asked for. @param {Record<string, unknown>} values */
const given = (values) =>
  Object.fromEntries(
    Object.entries(values)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, String(value)]),
  )

/**
 * The parts in the order in which they start.
 *
 * @param {import('./options.js').Mode} mode
 * @param {Options} options
 * @param {{ root: string, engine: string | undefined, node: string,
 *   isApiEncrypted?: boolean }} programs
 *   The api serves HTTPS if its environment has a certificate.
 * @returns {import('./part.js').PartSpec[]}
 */
export function describeParts(mode, options, { root, engine, node, isApiEncrypted }) {
  const shared = given({
    CQL_HOSTS: options.cqlHosts ?? reach(options.dbListen),
    ALLOW_REMOTE: options.allowRemote,
    REQUIRE_KEYS: options.requireKeys,
  })
  const apiUrl = `${isApiEncrypted ? 'https' : 'http'}://${reach(options.apiListen)}`
  const parts = [
    {
      name: 'ingest',
      command: [node, ...INGEST_FLAGS, join(root, 'ingest/src/main.js')],
      env: {
        ...shared,
        MQTT_LISTEN: format(options.mqttListen),
        INGEST_HTTP: format(options.ingestHttp),
        SPOOL_DIR: join(options.dataDir, 'spool'),
        ...given({ MQTT_URL: options.mqttUrl }),
      },
      healthUrl: `http://${reach(options.ingestHttp)}/health`,
    },
    {
      name: 'api',
      command: [node, ...API_FLAGS, join(root, 'api/src/main.js')],
      env: {
        ...shared,
        API_LISTEN: format(options.apiListen),
        INGEST_URL: `http://${reach(options.ingestHttp)}`,
      },
      healthUrl: `${apiUrl}/health`,
    },
  ]
  return [
    ...(engine ? [describeEngine(options, engine)] : []),
    ...parts,
    ...(mode === 'demo' ? [describeSimulator(options, root, node, apiUrl)] : []),
  ]
}

/** @param {Options} options  @param {string} engine */
function describeEngine(options, engine) {
  return {
    name: 'engine',
    command: [engine],
    env: given({
      DB_DATA_DIR: options.dbDataDir,
      DB_LISTEN: format(options.dbListen),
      DB_HTTP: format(options.dbHttp),
      DB_SHARDS: options.dbShards,
      DB_MEMORY: options.dbMemory,
      DB_ALLOW_REMOTE: options.allowRemote,
    }),
    healthUrl: `http://${reach(options.dbHttp)}/health`,
  }
}

/**
 * @param {Options} options
 * @param {string} root
 * @param {string} node
 * @param {string} apiUrl
 */
function describeSimulator(options, root, node, apiUrl) {
  return {
    name: 'simulator',
    command: [node, join(root, 'simulator/src/main.js')],
    env: given({
      MQTT_URL: brokerUrl(options),
      API_URL: apiUrl,
      SENSORS: options.sensors,
      RATE: options.rate,
      MALFORMED_PERCENT: options.malformedPercent,
    }),
    mayFinish: true,
  }
}
