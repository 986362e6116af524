/**
 * What devices send where a time belongs, in every format, and what becomes of the value that it
 * dates. Tests of each door go through this table.
 */

import { encode as encodeMessagePack } from '@msgpack/msgpack'
import { encode as encodeCbor } from 'cborg'
import { OUTCOME, writeEnvelope } from '../../src/expressions/envelope.js'
import { FORMATS } from '../../src/formats/registry.js'
import { writePayload } from '../../src/formats/sparkplug/write.js'

/** The right time, at a full second. */
export const T = Date.UTC(2026, 0, 1)

/**
 * What becomes of the value: `T`, `receipt` (it has no time, and nothing is lost), `lost` (the time
 * is lost alone, and the value is of the receipt), `refused` (the value is lost).
 *
 * @typedef {'T' | 'receipt' | 'lost' | 'refused'} Fate
 */

/** By the name of the case. @type {Record<string, unknown>} */
export const STRANGE = {
  nothing: undefined,
  null: null,
  text: 'noon',
  'an empty text': '',
  'no date': '2026-02-30T00:00:00Z',
  true: true,
  object: {},
  array: [],
  NaN: Number.NaN,
  infinite: Number.POSITIVE_INFINITY,
  '1e300': 1e300,
  negative: -1,
  1999: Date.UTC(1999, 0, 1),
  '1999 in seconds': Date.UTC(1999, 0, 1) / 1e3,
  2096: 4e12,
  seconds: T / 1e3,
  'seconds as text': `${T / 1e3}`,
  microseconds: T * 1e3,
  nanoseconds: T * 1e6,
  ISO: '2026-01-01T01:00:00+01:00',
  'ISO without a zone': '2026-01-01T00:00:00',
}

/** Of `t` in our own formats: any unit, told by its size, and any spelling of ISO 8601. */
const OURS = {
  T: ['seconds', 'seconds as text', 'microseconds', 'nanoseconds', 'ISO', 'ISO without a zone'],
  receipt: ['nothing', 'null'],
}

/** @typedef {{ T?: string[], receipt?: string[], lost?: string[] }} Fates  Others are refused. */

/**
 * @typedef {object} Case
 * @property {Fates} fates
 * @property {(t: any) => Buffer} write  A payload whose metric `x` is of the time `t`; undefined
 *   stands for none.
 * @property {string} [metric]  Of the topic.
 * @property {string} [rest]  A metric of the same payload whose time is right.
 * @property {(name: string) => boolean} [has]  Which of the cases can be written.
 */

/** JSON has neither NaN nor infinite numbers; what it reads as one is written so. */
const json = (/** @type {unknown} */ tree) =>
  Buffer.from(
    JSON.stringify(tree, (_, value) => (value === Number.POSITIVE_INFINITY ? '\u0001' : value)),
  )
const jsonOf = (/** @type {unknown} */ tree) =>
  Buffer.from(json(tree).toString().replaceAll('"\\u0001"', '1e999'))
const hasNoNaN = (/** @type {string} */ name) => name !== 'NaN'

/** @param {object} of */
const defined = (of) =>
  Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined))

const pair = (/** @type {any} */ t) => [{ t: T, ok: 1 }, defined({ t, x: 2 })]
const named = (/** @type {any} */ t) => defined({ sensor: 'named', t, x: 2 })
const cborOf = (/** @type {unknown} */ tree) => Buffer.from(encodeCbor(tree))
const messagePackOf = (/** @type {unknown} */ tree) => Buffer.from(encodeMessagePack(tree))
const records = (/** @type {any} */ t) => [
  { n: 'ok', t: T / 1e3, v: 1 },
  defined({ n: 'x', t, v: 2 }),
]

/** SenML counts seconds, and what is small is relative to now. */
const SENML = { T: ['seconds'], receipt: ['nothing', 'negative'] }

/** What stands for the time beside values that are live: it is lost alone. */
const TEXT_ONLY = {
  T: ['ISO'],
  receipt: ['nothing', 'null', 'ISO without a zone', 'seconds as text'],
  lost: [
    ...['text', 'an empty text', 'no date', 'true', 'object', 'array', 'infinite', '1e300'],
    ...['negative', '1999', '1999 in seconds', '2096', 'seconds'],
    ...['microseconds', 'nanoseconds'],
  ],
}

/** Timestamps of Sparkplug are integers of 64 bits, in milliseconds. */
const isUint = (/** @type {string} */ name) =>
  name === 'nothing' ||
  (Number.isInteger(STRANGE[name]) && Number(STRANGE[name]) >= 0 && name !== '1e300')

/** By the name of the format. @type {Record<string, Case>} */
export const CASES = {
  json: { fates: OURS, rest: 'ok', has: hasNoNaN, write: (t) => jsonOf(pair(t)) },
  'json-object': { fates: OURS, has: hasNoNaN, write: (t) => jsonOf(named(t)) },
  'line-protocol': {
    fates: { T: ['nanoseconds'], receipt: ['nothing'] },
    has: (name) => !['null', 'an empty text', 'object', 'array'].includes(name),
    write: (t) => Buffer.from(`x,sensor=named value=2${t === undefined ? '' : ` ${t}`}`),
  },
  'senml-json': { fates: SENML, rest: 'ok', has: hasNoNaN, write: (t) => jsonOf(records(t)) },
  'senml-cbor': {
    fates: SENML,
    rest: 'ok',
    write: (t) =>
      cborOf(records(t).map((one) => new Map(Object.entries(one).map(([n, v]) => [LABELS[n], v])))),
  },
  cbor: { fates: OURS, rest: 'ok', write: (t) => cborOf(pair(t)) },
  'cbor-object': { fates: OURS, write: (t) => cborOf(named(t)) },
  messagepack: { fates: OURS, rest: 'ok', write: (t) => messagePackOf(pair(t)) },
  'messagepack-object': { fates: OURS, write: (t) => messagePackOf(named(t)) },
  zigbee2mqtt: {
    fates: {
      T: ['seconds', 'microseconds', 'nanoseconds', 'ISO'],
      // Without a zone a text could be hours off, also one that is a count.
      receipt: ['nothing', 'null', 'ISO without a zone', 'seconds as text'],
      lost: ['text', 'an empty text', 'no date', 'true', 'object', 'array', 'infinite', '1e300'],
    },
    has: hasNoNaN,
    write: (t) => jsonOf(defined({ x: 2, last_seen: t })),
  },
  tasmota: {
    fates: TEXT_ONLY,
    metric: 'SENSOR',
    has: hasNoNaN,
    write: (t) => jsonOf(defined({ Time: t, x: 2 })),
  },
  shelly: {
    fates: {
      T: ['seconds'],
      receipt: ['nothing', 'null', 'negative', '1999 in seconds'],
      lost: [
        ...['text', 'an empty text', 'no date', 'true', 'object', 'array', 'infinite', '1e300'],
        ...['1999', '2096', 'seconds as text', 'microseconds', 'nanoseconds', 'ISO'],
        'ISO without a zone',
      ],
    },
    metric: 'events.rpc',
    has: hasNoNaN,
    write: (t) => jsonOf({ method: 'NotifyStatus', params: defined({ ts: t, x: 2 }) }),
  },
  'the-things-stack': {
    fates: TEXT_ONLY,
    has: hasNoNaN,
    write: (t) =>
      jsonOf({ uplink_message: { received_at: t, decoded_payload: { x: 2 } }, received_at: t }),
  },
  'sparkplug-b': {
    fates: { receipt: ['nothing'] },
    rest: 'ok',
    has: isUint,
    write: (t) =>
      writePayload({
        seq: 0,
        metrics: [
          { name: 'ok', timeMs: T, datatype: 10, double: 1 },
          { name: 'x', timeMs: t, datatype: 10, double: 2 },
        ],
      }),
  },
  expression: {
    fates: OURS,
    rest: 'ok',
    has: hasNoNaN,
    write: (t) =>
      writeEnvelope({
        decoder: 'own',
        version: 1,
        sensor: 'named',
        metric: undefined,
        original: Buffer.from('{}'),
        outcome: OUTCOME.value,
        said: jsonOf(pair(t)),
      }),
  },
}

/** RFC 8428, table 4. @type {Record<string, number>} */
const LABELS = { n: 0, v: 2, t: 6 }

/** They have no time, so that none of theirs can be strange. */
const TIMELESS = new Set(['esphome', 'statestream'])

/** @param {Fates} fates  @param {string} name  @returns {Fate} */
function fateOf({ T: right, receipt, lost }, name) {
  if (right?.includes(name)) return 'T'
  if (receipt?.includes(name)) return 'receipt'
  return lost?.includes(name) ? 'lost' : 'refused'
}

/**
 * The whole table.
 *
 * @returns {{ format: import('../../src/formats/types.js').Format, name: string, payload: Buffer,
 *   fate: Fate, metric: string | undefined, rest: string | undefined }[]}
 */
export function strangeTimes() {
  return FORMATS.filter(({ name }) => !TIMELESS.has(name)).flatMap((format) => {
    const { fates, write, metric, rest, has = () => true } = CASES[format.name]
    return Object.keys(STRANGE)
      .filter(has)
      .map((name) => ({
        format,
        name,
        payload: write(STRANGE[name]),
        fate: fateOf(fates, name),
        metric,
        rest,
      }))
  })
}
