/** What the simulator can be told: its flags and environment variables. */

import { integer, number, oneOf, readOptions, url } from '@sandglass/common/options'
import { SHAPES } from './message.js'

/** More sensors than this on one machine measure the machine and not the platform. */
const SENSORS_MAX = 1_000_000
const RATE_MAX = 1_000_000
const CONNECTIONS_MAX = 20_000
/** Longest run or backlog, in seconds: a year. */
const SECONDS_MAX = 31_536_000

/** @type {import('@sandglass/common/options').OptionSpec<any>[]} */
const OPTIONS = [
  {
    flag: '--mqtt-url <url>',
    help: 'the broker',
    default: 'mqtt://127.0.0.1:1883',
    parse: url('mqtt:', 'mqtts:', 'ws:', 'wss:'),
  },
  {
    flag: '--sensors <number>',
    help: 'how many sensors',
    default: '25',
    parse: integer(1, SENSORS_MAX),
  },
  {
    flag: '--rate <number>',
    help: 'messages a second in all (default: one per sensor); 0: as fast as acknowledged',
    parse: number(0, RATE_MAX),
  },
  {
    flag: '--connections <number>',
    help: 'MQTT connections that the sensors share (default: 10, or one per sensor if fewer)',
    parse: integer(1, CONNECTIONS_MAX),
  },
  {
    flag: '--window <number>',
    help: 'most messages under way on a connection',
    default: '20',
    parse: integer(1, 65_535),
  },
  { flag: '--qos <0|1|2>', help: 'MQTT quality of service', default: '1', parse: integer(0, 2) },
  {
    flag: '--seed <number>',
    help: 'the same seed gives the same sensors and values',
    default: '1',
    parse: integer(0, 2 ** 31 - 1),
  },
  {
    flag: '--duration <seconds>',
    help: 'stop after this time; 0: on Ctrl-C',
    default: '0',
    parse: number(0, SECONDS_MAX),
  },
  {
    flag: '--shape <name>',
    help: `of a message: ${SHAPES.join(', ')} (all metrics; one with its time; one bare value)`,
    default: 'object',
    parse: oneOf(SHAPES),
  },
  {
    flag: '--malformed-percent <number>',
    help: 'share of messages that are rubbish, to see dead letters',
    default: '0',
    parse: number(0, 100),
  },
  {
    flag: '--backlog <seconds>',
    help: 'how far back readings are sent later when the broker was away',
    default: '3600',
    parse: number(0, SECONDS_MAX),
  },
  {
    flag: '--replay <file.csv>',
    help: 'publish this file instead: a time column, then one a metric',
  },
  {
    flag: '--speed <number>',
    help: 'of a replay, times real time; 0: as fast as acknowledged',
    default: '0',
    parse: number(0, 1e9),
  },
  { flag: '--sensor <name>', help: "of a replay: the sensor's name (default: the file's name)" },
  {
    flag: '--sensor-column <name>',
    help: 'of a replay: the column that names the sensor of a row',
  },
  { flag: '--time-column <name>', help: 'of a replay: the column of times (default: the first)' },
  {
    flag: '--skip-bad-rows',
    help: 'of a replay: publish the good rows although there are bad ones',
  },
]

const AFTER = `Every flag can be given as an environment variable, e.g. SENSORS=100; the flag wins.

The platform has to be up (npm run demo, or npm start); the simulator waits for it.

Times in a file are ISO 8601 (UTC unless they say otherwise) or seconds, milliseconds, microseconds
or nanoseconds since 1970. All rows are checked before the first is published.

Ends with 0 when every message was acknowledged, 1 when one was not, 2 when it was told nonsense.`

/**
 * @typedef {object} Options
 * @property {string} mqttUrl
 * @property {number} sensors
 * @property {number} rate          Messages a second; 0: as fast as acknowledged.
 * @property {number} connections
 * @property {number} window
 * @property {0 | 1 | 2} qos
 * @property {number} seed
 * @property {number} duration      In seconds; 0: until told to stop.
 * @property {import('./message.js').Shape} shape
 * @property {number} malformedPercent
 * @property {number} backlog       In seconds.
 * @property {string} [replay]
 * @property {number} speed         Times real time; 0: as fast as acknowledged.
 * @property {string} [sensor]
 * @property {string} [sensorColumn]
 * @property {string} [timeColumn]
 * @property {boolean} skipBadRows
 */

/**
 * @param {string[]} argv  As in `process.argv`.
 * @returns {Options}
 */
export function readSimulatorOptions(argv) {
  const values = readOptions(
    {
      name: 'npm run simulator --',
      description: 'Publishes what sensors might measure, or a file, over MQTT.',
      options: OPTIONS,
      after: AFTER,
    },
    argv,
  )
  const sensors = values.replay ? 1 : values.sensors
  return /** @type {Options} */ ({
    ...values,
    sensors,
    rate: values.rate ?? sensors,
    connections: Math.min(sensors, values.connections ?? 10),
  })
}
