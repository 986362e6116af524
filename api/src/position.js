/**
 * Where a client is in a live stream: what it has been told of each series, as the text of an
 * event's id. It holds nothing of a process, so any api on any cluster can go on from it.
 *
 * ```text
 * position := "p" since sensor*      since: what is older is not told again
 * sensor   := "!" name series*
 * series   := "~" metric "~" floor "~" keys
 * floor    := "" | key               up to it, inclusive, all count as told
 * keys     := "" | key ("." key)*    told besides; the time of each counts from the one before
 * key      := time | time "-" seq
 * ```
 *
 * Numbers are written to the base of 36, names as in a URL.
 */

import { invalid } from '@sandglass/common/problem'
import { Told } from './told.js'

/** Longest position, in characters: it comes back as a header, for which proxies have 8 KiB. */
export const POSITION_LENGTH_MAX = 6_000

/** How many keys of each series are written, at first; fewer where the text becomes too long. */
const KEYS_MAX = [200, 50, 10, 2, 0]

/** @typedef {import('./told.js').Key} Key */
/** @typedef {Map<string, Map<string, Told>>} ToldBySensor  And by metric. */
/** @typedef {{ sinceMs: number, sensors: ToldBySensor }} Position */

/**
 * Where there are too many series or values for the length, older values count as told; then
 * series that are silent are left out.
 *
 * @param {Position} position
 */
export function encodePosition(position) {
  for (const keysMax of KEYS_MAX) {
    const text = encode(position, keysMax, () => true)
    if (text.length <= POSITION_LENGTH_MAX) return text
  }
  const isHeard = (/** @type {Told} */ told) => told.keys().length > 0
  const text = encode(position, 0, isHeard)
  return text.length <= POSITION_LENGTH_MAX ? text : `p${number(position.sinceMs)}`
}

/**
 * @param {Position} position
 * @param {number} keysMax
 * @param {(told: Told) => boolean} isWritten
 */
function encode({ sinceMs, sensors }, keysMax, isWritten) {
  let text = `p${number(sinceMs)}`
  for (const [name, metrics] of sensors) {
    text += `!${escaped(name)}`
    for (const [metric, told] of metrics) {
      if (!isWritten(told)) continue
      const all = told.keys()
      const keys = all.slice(Math.max(0, all.length - keysMax))
      const floor = all[all.length - keys.length - 1] ?? told.floor
      text += `~${escaped(metric)}~${floor ? key(floor, 0) : ''}~`
      text += keys.map((one, at) => key(one, at > 0 ? keys[at - 1].t : (floor?.t ?? 0))).join('.')
    }
  }
  return text
}

/** @param {number} value */
const number = (value) => value.toString(36)

/** @param {Key} key  @param {number} beforeMs */
function key({ t, seq }, beforeMs) {
  return seq === 0 ? number(t - beforeMs) : `${number(t - beforeMs)}-${number(seq)}`
}

/** @param {string} name */
function escaped(name) {
  return encodeURIComponent(name).replace(/[!~]/g, (mark) => (mark === '!' ? '%21' : '%7E'))
}

const NUMBER = /^-?[0-9a-z]{1,11}$/
const KEY = /^(-?[0-9a-z]{1,11})(?:-([0-9a-z]{1,11}))?$/

/** Whether a text is meant to be a position, and no time. @param {string} text */
export function isPosition(text) {
  return text.startsWith('p')
}

/**
 * @param {string} parameter  Where it came from, for the message.
 * @param {string} text
 * @returns {Position}
 * @throws {import('@sandglass/common/problem').Problem}
 */
export function decodePosition(parameter, text) {
  try {
    const [since, ...sensors] = text.slice(1).split('!')
    return {
      sinceMs: parseNumber(since),
      sensors: new Map(sensors.map((sensor) => decodeSensor(sensor))),
    }
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof URIError)) throw error
    throw invalid(parameter, 'must be the id of an event, as it came, or a time')
  }
}

/** @param {string} text  @returns {[string, Map<string, Told>]} */
function decodeSensor(text) {
  const [name, ...fields] = text.split('~')
  if (fields.length % 3 !== 0) throw new SyntaxError(text)
  /** @type {Map<string, Told>} */
  const metrics = new Map()
  for (let at = 0; at < fields.length; at += 3) {
    const [metric, floorText, keysText] = fields.slice(at, at + 3)
    const floor = floorText === '' ? undefined : parseKey(floorText, 0)
    let beforeMs = floor?.t ?? 0
    const keys = (keysText === '' ? [] : keysText.split('.')).map((one) => {
      const parsed = parseKey(one, beforeMs)
      beforeMs = parsed.t
      return parsed
    })
    metrics.set(decodeURIComponent(metric), new Told({ floor, keys }))
  }
  return [decodeURIComponent(name), metrics]
}

/** @param {string} text */
function parseNumber(text) {
  if (!NUMBER.test(text)) throw new SyntaxError(text)
  return Number.parseInt(text, 36)
}

/** @param {string} text  @param {number} beforeMs  @returns {Key} */
function parseKey(text, beforeMs) {
  const [, t, seq = '0'] = KEY.exec(text) ?? []
  if (t === undefined) throw new SyntaxError(text)
  return { t: beforeMs + Number.parseInt(t, 36), seq: Number.parseInt(seq, 36) }
}
