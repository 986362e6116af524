// Feeds a decoder with anything: whatever comes, it says what is wrong or gives what can be stored.
import { isUtf8 } from 'node:buffer'
import { describe, test } from '@jest/globals'
import { isInt64, KIND } from '../../src/measurement.js'
import { PayloadError, TEXT_BYTES_MAX } from '../../src/payload.js'
import { isMetricName, isSensorName } from '../../src/sensor.js'

/** @typedef {import('../../src/formats/types.js').Format} Format */
/** @typedef {import('../../src/formats/types.js').Place} Place */
/** @typedef {() => number} Random */

const ROUNDS = 1_000

/** Far above what any of these payloads takes, so that only runaway work fails. */
const ROUND_MS_MAX = 2_000

/** Ten fields with their reasons, and more than enough for each. */
const REASON_LENGTH_MAX = 4_000

/** Random numbers from 0 to 1 that a seed repeats (mulberry32). @param {number} seed */
export function seeded(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** @param {Random} random  @param {number} below */
const upTo = (random, below) => Math.floor(random() * below)

/** @template T  @param {Random} random  @param {readonly T[]} list  @returns {T} */
const oneOf = (random, list) => list[upTo(random, list.length)]

/** @param {Random} random  @param {number} length */
function noise(random, length) {
  return Buffer.from(Array.from({ length }, () => upTo(random, 256)))
}

/** @param {Random} random  @param {Buffer} bytes */
export function mutated(random, bytes) {
  let out = Buffer.from(bytes)
  for (let times = 1 + upTo(random, 4); times > 0; times--) {
    const at = upTo(random, out.length + 1)
    const [before, after] = [out.subarray(0, at), out.subarray(at)]
    const length = upTo(random, 12)
    switch (upTo(random, 5)) {
      case 0:
        out = Buffer.concat([before, noise(random, 1), after.subarray(1)])
        break
      case 1:
        out = Buffer.concat([before, after.subarray(length)])
        break
      case 2:
        out = Buffer.concat([before, noise(random, length), after])
        break
      case 3:
        out = Buffer.concat([before, after.subarray(0, length), after])
        break
      default:
        out = Buffer.from(before)
    }
  }
  return out
}

const STRANGE = [
  ...[0, -0, 1, -1, 255, 2 ** 31, 2 ** 53, -(2 ** 53), 1e21, 1e308, 5e-324, NaN, Infinity],
  ...[-Infinity, 2n ** 63n, -(2n ** 63n), 2n ** 63n - 1n, 2n ** 64n - 1n, true, false, null],
  ...['', ' ', 'ON', 'nan', 'x'.repeat(TEXT_BYTES_MAX + 1), '\u202e', '\ud800', '\0', '🌡', '1e999'],
  ...['2026-01-01T00:00:00', '2026-01-01T00:00:00Z', '9999-99-99', '1767225600', 1767225600],
  ...[1767225600000, 1767225600123456, [], {}, [[]], { lat: 1, lon: 2 }, { lat: 91, lon: 'x' }],
]

const NAMES = [
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length', '', ' ', '\u0007', '.'],
  ...['t', 'ts', 'v', 'kind', 'values', 'lat', 'lon', 'n', 'bn', 'bt', 'x_', 'x'.repeat(200)],
]

/** @param {Random} random  @param {number} level  @returns {unknown} */
function strangeTree(random, level) {
  const kind = random()
  if (level > 12 || kind < 0.6) return oneOf(random, STRANGE)
  const length = upTo(random, 4)
  if (kind < 0.75) return Array.from({ length }, () => strangeTree(random, level + 1))
  return withMembers(
    Array.from({ length }, () => [oneOf(random, NAMES), strangeTree(random, level + 1)]),
  )
}

/** Own members, whatever they are called. @param {[string, unknown][]} entries */
function withMembers(entries) {
  const object = {}
  for (const [name, value] of entries) {
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true })
  }
  return object
}

/**
 * A tree with one of its values, or one more, strange.
 *
 * @param {Random} random
 * @param {unknown} tree
 * @returns {unknown}
 */
export function strange(random, tree) {
  if (typeof tree !== 'object' || tree === null || random() < 0.15) return strangeTree(random, 0)
  if (Array.isArray(tree)) {
    const at = upTo(random, tree.length + 1)
    return [...tree.slice(0, at), strange(random, tree[at]), ...tree.slice(at + 1)]
  }
  const entries = Object.entries(tree)
  const at = upTo(random, entries.length + 1)
  const [name, value] = entries[at] ?? [oneOf(random, NAMES), null]
  const named = random() < 0.1 ? oneOf(random, NAMES) : name
  entries.splice(at, 1, [named, strange(random, value)])
  return withMembers(entries)
}

/** JSON of what JSON cannot say, too. @param {unknown} tree  @returns {string} */
export function strangeJson(tree) {
  if (typeof tree === 'bigint') return `${tree}`
  if (typeof tree === 'number') {
    if (Number.isNaN(tree)) return 'NaN'
    return Number.isFinite(tree) ? JSON.stringify(tree) : tree > 0 ? '1e999' : '-1e999'
  }
  if (typeof tree !== 'object' || tree === null) return JSON.stringify(tree)
  if (Array.isArray(tree)) return `[${tree.map(strangeJson)}]`
  return `{${Object.entries(tree).map(([name, one]) => `${JSON.stringify(name)}:${strangeJson(one)}`)}}`
}

/**
 * What is wrong with a result.
 *
 * @param {import('../../src/formats/types.js').DecodedPayload} result
 */
function faultsOf({ sensor, measurements, refused, units }) {
  const faults = []
  if (sensor !== undefined && !isSensorName(sensor)) faults.push(`the sensor ${sensor}`)
  if (measurements.length === 0) faults.push('no measurement')
  for (const measurement of measurements) {
    const { metric, timeMs, kind, value } = measurement
    const isKind =
      (kind === KIND.number && Number.isFinite(value)) ||
      (kind === KIND.integer &&
        (Number.isSafeInteger(value) || isInt64(/** @type {bigint} */ (value)))) ||
      (kind === KIND.boolean && typeof value === 'boolean') ||
      (kind === KIND.text && typeof value === 'string' && isUtf8(Buffer.from(value))) ||
      (kind === KIND.location && typeof value === 'object')
    const isTime = timeMs === undefined || Number.isInteger(timeMs)
    if (!isMetricName(metric) || !isKind || !isTime)
      faults.push(`${metric} ${kind} ${value} ${timeMs}`)
  }
  for (const { field, reason } of refused) {
    if (!isMetricName(field) || reason === '' || reason.length > REASON_LENGTH_MAX) {
      faults.push(`refused: ${field}: ${reason}`)
    }
  }
  for (const [metric, unit] of units ?? []) {
    if (!isMetricName(metric) || typeof unit !== 'string') faults.push(`unit of ${metric}`)
  }
  return faults
}

/**
 * @param {Format} format
 * @param {Place} place
 * @param {Buffer} payload
 */
function requireSense(format, place, payload) {
  const began = performance.now()
  const faults = faultsOfDecoding(format, place, payload)
  const tookMs = performance.now() - began
  if (tookMs > ROUND_MS_MAX) faults.push(`it took ${tookMs} ms`)
  if (faults.length > 0)
    throw new Error(`${payload.toString('base64').slice(0, 1_000)}: ${faults.join('; ')}`)
}

/**
 * @param {Format} format
 * @param {Place} place
 * @param {Buffer} payload
 */
function faultsOfDecoding(format, place, payload) {
  try {
    return faultsOf(format.decode(place, payload))
  } catch (error) {
    if (!(error instanceof PayloadError)) return [String(error)]
    return error.message.length > REASON_LENGTH_MAX ? [error.message] : []
  }
}

/**
 * @param {Format} format
 * @param {object} of
 * @param {Place[]} of.places
 * @param {Buffer[]} of.examples  Payloads that are right.
 * @param {unknown[]} [of.trees]  What payloads say.
 * @param {(tree: unknown) => Buffer} [of.encode]  A tree as a payload.
 */
export function fuzz(format, { places, examples, trees = [], encode }) {
  describe(`${format.name}, whatever comes`, () => {
    test('reads any bytes as measurements, or says what is wrong', () => {
      const random = seeded(format.number)
      for (let round = 0; round < ROUNDS; round++) {
        requireSense(format, oneOf(random, places), noise(random, upTo(random, 80)))
        const payload = mutated(random, oneOf(random, examples))
        requireSense(format, oneOf(random, places), payload)
      }
    })

    const writes = encode ?? ((tree) => Buffer.from(strangeJson(tree)))
    test('reads strange values as measurements, or says what is wrong', () => {
      const random = seeded(1_000 + format.number)
      for (let round = 0; round < ROUNDS && trees.length > 0; round++) {
        const tree = strange(random, strange(random, oneOf(random, trees)))
        requireSense(format, oneOf(random, places), writes(tree))
      }
    })

    test('stands deep nesting', () => {
      for (const piece of ['[', '{"a":', '\x81', '\x9f', '\xc1', '\xdc\xff\xff', '\x81\x61a']) {
        const payload = Buffer.from(piece.repeat(100_000), 'latin1')
        requireSense(format, places[0], payload)
      }
    })
  })
}
