/** Payloads of every format, made of examples in which values are strange or bytes are broken. */

import { encode as encodeMessagePack } from '@msgpack/msgpack'
import { writePayload } from '@sandglass/common/formats/sparkplug/write'
import { mutated, seeded, strange, strangeJson } from '@sandglass/common/test/formats/fuzz'
import { encode as encodeCbor } from 'cborg'

export const T = 1_767_225_600_123

/** How many payloads in ten have some bytes changed, too. */
const BROKEN_OF_TEN = 2

const OBJECTS = [
  { t: T, a: 1, b: [2], c: { d: true, e: [] } },
  [
    { ts: T, values: { a: 1, b: 'x' } },
    { t: 1_767_225_601, c: { lat: 1, lon: 2 } },
  ],
  { t: '2026-01-01T00:00:00Z', state: 'on', deep: { er: { est: 21.5 } } },
  [21.5, { t: T, v: 7, kind: 'integer' }],
]
const NAMED = [
  { sensor: 'named', t: T, a: 1, b: [], c: { d: 'x' } },
  { sensor: 'named', ts: T, values: { a: 1 } },
  { sensor: 'other', metric: 'm', t: T, v: 5, kind: 'number' },
]
const PACKS = [
  [
    { bn: 'boiler/', bt: 1_767_225_600, n: 'temp', u: 'Cel', v: 21.5 },
    { n: 'open', vb: true },
    { n: 'name', vs: 'x', t: 5 },
  ],
]
const LABELS = new Map([
  ...['n', 'u', 'v', 'vs', 'vb', 's', 't'].map((name, at) => /** @type {const} */ ([name, at])),
  ['bn', -2],
  ['bt', -3],
])
const UPLINK = {
  end_device_ids: { device_id: 'ttn' },
  received_at: '2026-01-01T00:00:00Z',
  uplink_message: {
    f_cnt: 5,
    decoded_payload: { temperature: 21.5, cells: [1, 2] },
    rx_metadata: [{ rssi: -40, snr: 9 }],
    settings: { frequency: '868100000', data_rate: { lora: { spreading_factor: 7 } } },
  },
}
const DEVICE = { temperature: 21.5, state: 'ON', color: { x: 0.3, y: 0.4 }, list: [1, 2] }
const TASMOTA = {
  Time: '2026-01-01T00:00:00Z',
  AM2301: { Temperature: 20.5, Humidity: 55 },
  ENERGY: { Power: [5, 6], Total: 3 },
  TempUnit: 'C',
}
const NOTIFICATIONS = [
  { method: 'NotifyStatus', params: { ts: 1_767_225_600.5, 'switch:0': { id: 0, apower: 8.9 } } },
  {
    method: 'NotifyEvent',
    params: { ts: 1_767_225_600, events: [{ component: 'input:0', event: 'single_push' }] },
  },
]
const PLAIN = ['21.5', 'on', 'nan', '007', '{"brightness":5,"state":"ON"}', '"x"', 'unavailable']
const LINES = [
  `m,sensor=named v=1,on=true,n="x" ${T}000000`,
  `m,sensor=other value=5i ${T}000000`,
  'm,sensor=named v=21.5',
]

/** For expressions; see `EXPRESSIONS`. */
const OWN = [
  { t: T, heat: 215, on: true, name: '12x34' },
  {
    t: T,
    heat: 21,
    d: [
      { k: 'a', r: 1 },
      { k: 'b', r: 2.5 },
    ],
  },
  { t: T, heat: 9, id: 'named' },
]

/** Decoders of people's own. */
export const EXPRESSIONS = [
  '{"t": t, "heat": heat / 10, "on": on, "name": name}',
  '$merge([{"t": t}, d.{k: r}])',
  '$exists(id) ? {"sensor": id, "t": t, "heat": heat} : {"t": t, "heat": heat}',
  'heat > 100 ? null : {"t": t, "v": {"deep": {"er": heat}}, "list": d.r}',
  '{"t": t, "a": $number(name), "b": $sum(d.r), "c": $string($), "z": 1/0}',
  '[{"t": t, "n": heat}, {"t": "2026-01-01", "m": name}]',
]

/** @param {unknown} tree */
const json = (tree) => Buffer.from(strangeJson(tree))

/** What an encoder does not know is a text. @param {(tree: any) => Uint8Array} encode */
const lenient = (encode) => (/** @type {unknown} */ tree) => {
  try {
    return Buffer.from(encode(tree))
  } catch {
    return Buffer.from(String(tree))
  }
}
const cbor = lenient(encodeCbor)
const messagePack = lenient((tree) => encodeMessagePack(tree, { useBigInt64: true }))

/** @param {any} pack */
const labelled = (pack) =>
  Array.isArray(pack)
    ? pack.map((record) =>
        typeof record === 'object' && record !== null && !Array.isArray(record)
          ? new Map(
              Object.entries(record).map(([name, value]) => [LABELS.get(name) ?? name, value]),
            )
          : record,
      )
    : pack

/** @param {() => number} random */
const sparkplug = (random) => {
  const metrics = Array.from({ length: 1 + Math.floor(random() * 4) }, (_, at) => ({
    name: random() < 0.9 ? `m${at}` : undefined,
    alias: random() < 0.3 ? at : undefined,
    timeMs: [undefined, T, 5, 2 ** 52, 2 ** 60][Math.floor(random() * 5)],
    datatype: [10, 3, 17, 11, undefined][Math.floor(random() * 5)],
    double: random() < 0.6 ? 21.5 : Number.NaN,
    isHistorical: random() < 0.2,
  }))
  return writePayload({ timeMs: random() < 0.8 ? T : undefined, seq: 0, metrics })
}

/** @typedef {(random: () => number) => Buffer} Generator */

/** @template V  @param {() => number} random  @param {readonly V[]} list  @returns {V} */
const oneOf = (random, list) => list[Math.floor(random() * list.length)]

/**
 * @param {readonly unknown[]} trees
 * @param {(tree: unknown) => Buffer} write
 * @returns {Generator}
 */
const ofTrees = (trees, write) => (random) => {
  const tree = oneOf(random, trees)
  return write(random() < 0.15 ? tree : strange(random, tree))
}

/** @param {readonly string[]} texts  @returns {Generator} */
const ofTexts = (texts) => (random) => Buffer.from(oneOf(random, texts))

/** One for each format. @type {Readonly<Record<string, Generator>>} */
export const GENERATORS = {
  json: ofTrees(OBJECTS, json),
  'json-object': ofTrees(NAMED, json),
  'line-protocol': ofTexts(LINES),
  'senml-json': ofTrees(PACKS, json),
  'senml-cbor': ofTrees(PACKS, (pack) => cbor(labelled(pack))),
  cbor: ofTrees(OBJECTS, cbor),
  'cbor-object': ofTrees(NAMED, cbor),
  messagepack: ofTrees(OBJECTS, messagePack),
  'messagepack-object': ofTrees(NAMED, messagePack),
  zigbee2mqtt: ofTrees([{ last_seen: '2026-01-01T00:00:00Z', ...DEVICE }], json),
  tasmota: ofTrees([TASMOTA, { StatusSNS: TASMOTA }], json),
  shelly: ofTrees(NOTIFICATIONS, json),
  'the-things-stack': ofTrees([UPLINK], json),
  esphome: ofTexts(PLAIN),
  statestream: ofTexts(PLAIN),
  'sparkplug-b': sparkplug,
  expression: ofTrees(OWN, json),
}

/**
 * Payloads of a format, which a seed repeats.
 *
 * @param {string} name
 * @param {number} seed
 * @param {number} count
 */
export function generated(name, seed, count) {
  const random = seeded(seed)
  return Array.from({ length: count }, () => {
    const payload = GENERATORS[name](random)
    return random() * 10 < BROKEN_OF_TEN ? mutated(random, payload) : payload
  })
}
