/** What the simulator can be told: its flags and environment variables. */

import { integer, number, oneOf, readOptions, SettingError, url } from '@sandglass/common/options'
import { parseMoment, parseSpan } from './calendar.js'
import { FLEETS } from './kinds.js'
import { SHAPES } from './message.js'

/** More sensors than this on one machine measure the machine and not the platform. */
const SENSORS_MAX = 1_000_000
const RATE_MAX = 1_000_000
const CONNECTIONS_MAX = 20_000
/** Longest run or backlog, in seconds: a year. */
const SECONDS_MAX = 31_536_000
/** Nothing Sandglass stores is older than this, in milliseconds since the Unix epoch. */
const TIME_MS_MIN = Date.UTC(2000)
/** Where a fleet begins that is only told to be fast: so many milliseconds ago. */
const PAST_MS = 86_400_000
/** How much of its past a fleet fills that goes on until it is told to stop, in milliseconds. */
const BACKFILL_MS = 86_400_000
/** Longest past that is filled besides the present, in milliseconds. */
const BACKFILL_MS_MAX = 31 * 86_400_000
/**
 * Most messages a second of one sensor that can be reconciled: two of them never share a
 * millisecond, which would make equal values one row.
 */
const SENSOR_RATE_MAX = 500

const percent = { default: '0', parse: number(0, 100) }

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
    flag: '--fleet <name>',
    help: `what they are: ${Object.keys(FLEETS).join(', ')}`,
    default: 'mixed',
    parse: oneOf(Object.keys(FLEETS)),
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
    ...percent,
  },
  {
    flag: '--late-percent <number>',
    help: 'share of messages that come late, out of order: by 1 s to 10 min',
    ...percent,
  },
  {
    flag: '--duplicate-percent <number>',
    help: 'share of messages that come once more, 1 s to 10 min later',
    ...percent,
  },
  {
    flag: '--clockless-percent <number>',
    help: 'share of sensors without a clock, whose messages carry no time',
    ...percent,
  },
  {
    flag: '--fault-percent <number>',
    help: 'share of time in which a metric hangs, has spikes or drifts away',
    ...percent,
  },
  {
    flag: '--outage-percent <number>',
    help: 'share of time in which a sensor says nothing',
    ...percent,
  },
  {
    flag: '--from <time>',
    help: 'fill the past from this time on, e.g. 2026-01-31T12:00 or 7d (ago)',
    parse: parseMoment,
  },
  {
    flag: '--to <time>',
    help: 'of --from: up to this time (default: now)',
    parse: parseMoment,
  },
  {
    flag: '--backfill <span>',
    help:
      'of a fleet in the present: fill so much of its past first, e.g. 36h, with a reading a ' +
      'minute, or as many as make 100,000 in all; again stores nothing twice; 0: none ' +
      '(default: 1d for a run without end, else 0)',
    parse: parseSpan,
  },
  {
    flag: '--describe <yes|no>',
    help:
      'set type and tags of the sensors over REST, and what the metrics of their types mean, ' +
      'where nobody has said it; of the first 1,000 sensors',
    default: 'yes',
    parse: oneOf(['yes', 'no']),
  },
  {
    flag: '--backlog <seconds>',
    help:
      'how far back readings are sent later when the broker was away; ' +
      'with --from or --reconcile: all are',
    default: '3600',
    parse: number(0, SECONDS_MAX),
  },
  {
    flag: '--replay <file.csv>',
    help: 'publish this file instead: a time column, then one a metric',
  },
  {
    flag: '--speed <number>',
    help:
      'of --from and --replay, times real time; 0, which it is if not given: as fast as ' +
      'acknowledged; without --from: begin a day ago',
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
  {
    flag: '--reconcile',
    help: 'at the end read everything back, and say what differs',
  },
  {
    flag: '--reconcile-wait <seconds>',
    help: 'how long what is missing is waited for, after the last that came',
    default: '10',
    parse: number(0, SECONDS_MAX),
  },
  {
    flag: '--api-url <url>',
    help: 'of --describe and --reconcile: where sensors are described, and read back',
    default: 'http://127.0.0.1:8080',
    parse: url('http:', 'https:'),
  },
]

const AFTER = `Every flag can be given as an environment variable, e.g. SENSORS=100; the flag wins.

The platform has to be up (npm run demo, or npm start); the simulator waits for it.

Times in a file are ISO 8601 (UTC unless they say otherwise) or seconds, milliseconds, microseconds
or nanoseconds since 1970. All rows are checked before the first is published.

A reconciled run wants its sensors for itself: give it a --seed that no other run uses meanwhile.

Ends with 0 when every message was acknowledged, and with --reconcile everything is stored as it was
published; with 1 when not; with 2 when it was told nonsense.`

/**
 * @typedef {object} Options
 * @property {string} mqttUrl
 * @property {number} sensors
 * @property {string} fleet         A key of {@link FLEETS}.
 * @property {number} rate          Messages a second; 0: as fast as acknowledged.
 * @property {number} connections
 * @property {number} window
 * @property {0 | 1 | 2} qos
 * @property {number} seed
 * @property {number} duration      In seconds; 0: until told to stop.
 * @property {import('./message.js').Shape} shape
 * @property {number} malformedPercent
 * @property {number} latePercent
 * @property {number} duplicatePercent
 * @property {number} clocklessPercent
 * @property {number} faultPercent
 * @property {number} outagePercent
 * @property {number} [from]        In milliseconds since the Unix epoch; undefined: the present.
 * @property {number} to            Likewise; the first moment that is not simulated.
 * @property {number} backfill      In milliseconds.
 * @property {'yes' | 'no'} describe
 * @property {number} backlog       In seconds.
 * @property {string} [replay]
 * @property {number} speed         Times real time; 0: as fast as acknowledged.
 * @property {string} [sensor]
 * @property {string} [sensorColumn]
 * @property {string} [timeColumn]
 * @property {boolean} skipBadRows
 * @property {boolean} reconcile
 * @property {number} reconcileWait  In seconds.
 * @property {string} apiUrl
 */

/**
 * @param {string[]} argv  As in `process.argv`.
 * @returns {Options}
 * @throws {SettingError}  Options do not go together.
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
  const isFast = !values.replay && values.speed !== undefined && values.speed !== 1
  const from = values.from ?? (isFast ? Date.now() - PAST_MS : undefined)
  const rate = values.rate ?? sensors
  const isLive = from === undefined && !values.replay && rate > 0 && !values.reconcile
  const hasPast = isLive && values.duration === 0 && values.shape !== 'plain'
  const options = /** @type {Options} */ ({
    ...values,
    sensors,
    rate,
    backfill: values.backfill ?? (hasPast ? BACKFILL_MS : 0),
    connections: Math.min(sensors, values.connections ?? 10),
    from,
    to: values.to ?? (from === undefined ? Number.POSITIVE_INFINITY : Date.now()),
    speed: values.speed ?? (values.replay || from !== undefined ? 0 : 1),
  })
  const nonsense = contradiction(options)
  if (nonsense) throw new SettingError(nonsense)
  return options
}

/**
 * What does not go together; undefined if all does.
 *
 * @param {Options} options
 */
function contradiction(options) {
  const { from, to, rate, replay, reconcile, latePercent, duplicatePercent } = options
  if (from === undefined && to !== Number.POSITIVE_INFINITY) return '--to needs --from.'
  const wrong = backfillFault(options)
  if (wrong) return wrong
  if (from !== undefined) {
    if (replay) return 'A replay has the times of its file: leave --from out.'
    if (from < TIME_MS_MIN) return '--from is before the year 2000, which is never stored.'
    if (from >= to) return '--from is not before --to.'
    if (to > Date.now()) return '--to is in the future.'
  }
  if (rate === 0) {
    if (from !== undefined)
      return '--from needs a --rate above 0: it says how far readings are apart.'
    if (latePercent + duplicatePercent > 0)
      return 'Late and repeated messages need a --rate above 0.'
    if (reconcile) return '--reconcile needs a --rate above 0; as fast as acknowledged is --from.'
  }
  if (!reconcile) return undefined
  if (replay) return 'A replay cannot be reconciled.'
  if (options.qos === 0) return '--reconcile needs --qos 1 or 2: nothing else is acknowledged.'
  if (rate > SENSOR_RATE_MAX * options.sensors) {
    return `--reconcile takes at most ${SENSOR_RATE_MAX} messages a second of a sensor.`
  }
  return undefined
}

/** @param {Options} options  @returns {string | undefined} */
function backfillFault({ backfill, from, replay, rate, reconcile, shape }) {
  if (backfill === 0) return undefined
  if (from !== undefined || replay || rate === 0) return '--backfill is of a fleet in the present.'
  if (reconcile) return 'A past that is filled besides cannot be reconciled: use --from.'
  if (shape === 'plain') return 'Messages of the shape plain carry no time: they have no past.'
  if (backfill > BACKFILL_MS_MAX) return '--backfill takes at most 31d: use --from for more.'
  return undefined
}
