/**
 * What would make a message right that could not be stored, in a sentence for people. It is decided
 * from what a dead letter keeps, so letters of earlier versions are advised as well, and the api,
 * the page and `/v1/decode` say the same. Pure.
 */

import { EXPRESSION_FORMAT } from '../expressions/envelope.js'
import { formatAt, formatName } from '../formats/registry.js'
import { isMeasurementTopic } from '../payload.js'
import { shortened } from '../text.js'
import { adviceOnNotJson } from './not-json.js'

/**
 * @typedef {object} Refused
 * @property {string} reason  Why it is refused, as its dead letter has it.
 * @property {string} topic  Empty where there is none.
 * @property {number | undefined} format  Its number.
 * @property {string | null} [decoder]  Of the format `expression`: whose expression was asked.
 * @property {Buffer} payload  As it arrived, perhaps cut.
 */

/** @typedef {(refused: Refused, found: RegExpExecArray) => string} Saying */
/** @typedef {{ when: RegExp, say: string | Saying }} Rule */

const LINE = 2

/** A time so close to 1970 is of a clock never set, or of another unit, in milliseconds. */
const UNSET_MS = 365 * 86_400_000

/**
 * Faults of what there is around a message. The first that fits the reason is told.
 *
 * @type {readonly Rule[]}
 */
const AROUND = [
  {
    when: /may not publish here/,
    say: ({ topic }) =>
      `Give the client a key that may send measurements to ${quote(topic)}: a key of one sensor sends to the topics of that one alone.`,
  },
  {
    when: /^the sensor was deleted/,
    say: 'Register the sensor again, then replay the message. If the sensor is gone for good, stop the device.',
  },
  {
    when: /^there are (\d+) sensors already/,
    say: 'Delete sensors that are not needed, or raise --sensors-max of ingest. Then replay the message.',
  },
  {
    when: /^a sensor has at most \d+ metrics/,
    say: 'Take what changes, such as a date or a serial number, out of the names of metrics: each name is another metric.',
  },
  {
    when: /^the database refuses it/,
    say: 'See in the log of the database why it refuses the row, mend that, and replay the message.',
  },
  {
    when: /^its format has the number/,
    say: 'A later version of Sandglass received this message: update this one, then replay it.',
  },
  {
    when: /^there is no decoder (.+?):/,
    say: (_, [, name]) => `Make a decoder named ${name}, then replay the message.`,
  },
  {
    when: /no payload that a decoder of your own has read|cut before its content/,
    say: 'The payload is not whole any more: have the device send it again.',
  },
]

/** Faults of the message itself. @type {readonly Rule[]} */
const WITHIN = [
  {
    when: /level of the topic is empty|topic is not sensors\/|the (?:sensor|metric) must have/,
    say: adviceOnNames,
  },
  {
    when: /the sensor is missing|the sensor is not a text/,
    say: 'Name the sensor in each object: {"sensor": "kitchen", "temperature": 21.5}.',
  },
  {
    when: /names no column sensor/,
    say: 'Name the columns in the first line of the CSV: sensor,t,temperature.',
  },
  {
    when: /neither the topic nor the payload names a sensor/,
    say: 'Give the template of the topic a {sensor}, or name the sensor in the payload.',
  },
  {
    when: /no sensor is named: give a bn/,
    say: 'Begin the pack with a base name: {"bn": "kitchen/"}.',
  },
  {
    when: /the template needs \{metric/,
    say: 'Let the template of the topic end in {metric} or {metric...}.',
  },
  {
    when: /a topic of .* names /,
    say: 'Publish NDATA for the edge node and DDATA for a device, as Sparkplug has it.',
  },
  {
    when: /is a command to the device/,
    say: 'Nothing is wrong with the device: this topic tells it something, and measures nothing.',
  },
  { when: /before the year 2000/, say: adviceOnEarly },
  {
    when: /more than 24 hours ahead/,
    say: 'Set the clock of the device, or leave the time out: then the time of receipt counts.',
  },
  {
    when: /far ahead of our clock/,
    say: 'The clock of the server was wrong when this came. Replay the message now.',
  },
  {
    when: /too many values of one millisecond/,
    say: 'Give each value a time of its own: so many of one metric cannot be of the same millisecond.',
  },
  {
    when: /\b(?:t|ts|Time|received_at) is not a (?:time|text)|time of .* is no time|is historical, without/,
    say: ({ format }) =>
      format === LINE
        ? 'End the line with the time as a whole number, in the unit that precision= names, or leave it out.'
        : 'Write the time as 2026-01-31T12:00:00Z, or as a count since 1970, or leave it out: then the time of receipt counts.',
  },
  {
    when: /is not an object of metrics/,
    say: ({ topic }) =>
      isMeasurementTopic(topic)
        ? `Name the metric: send the value to ${quote(`${topic}/METRIC`)}, or send an object such as {"temperature": 21.5}.`
        : 'Send an object such as {"temperature": 21.5}, or let the template of the topic have a {metric}.',
  },
  {
    when: /v is missing/,
    say: 'Give the value as v: {"sensor": "kitchen", "metric": "temperature", "v": 21.5}.',
  },
  {
    when: /is not a place/,
    say: 'Give lat from -90 to 90 and lon from -180 to 180: perhaps the two are swapped.',
  },
  {
    when: /is a text of more than/,
    say: 'Send a shorter text, or what is large by another way than measurements.',
  },
  {
    when: /half of a surrogate pair/,
    say: 'Cut texts between characters: this one ends or begins within one.',
  },
  { when: /is too large for a double/, say: 'Send a number below 1.8e308.' },
  {
    when: /is not a whole number of at most 64 bits|is not of kind|the kind of .* is none of/,
    say: 'Let kind say what the value is, or leave kind out.',
  },
  {
    when: /is nested deeper than|it is nested too deep/,
    say: 'Send an object of fewer levels, or write a decoder that picks what matters.',
  },
  {
    when: /is not a number, a boolean, a text or \{"lat"/,
    say: 'Send a number, true or false, a text, or a place as {"lat": 52.5, "lon": 13.4}; the elements of an array one by one.',
  },
  {
    when: /holds no value|nothing was measured/,
    say: 'Nothing has to be done: the device said that it measured nothing.',
  },
  {
    when: /no birth that was received tells its name/,
    say: 'Have the edge node send its births again (Node Control/Rebirth). This message stays unreadable.',
  },
  { when: /^more than \d+ fields|has more than \d+ /, say: 'Send it in several smaller messages.' },
  {
    when: /is not one of line protocol|the line has no |is expected at character|has no value$|a quoted text has no end/,
    say: adviceOnLine,
  },
  {
    when: /this is not JSON|the payload is empty|is not UTF-8/,
    say: adviceOnBytes,
  },
  {
    when: /this is not (?:an object|CBOR|MessagePack|Sparkplug B)|uplink_message is missing|is neither time nor|method is not/,
    say: adviceOnOther,
  },
  {
    when: /decoded_payload is missing/,
    say: 'Give the application a payload formatter in The Things Stack, or write a decoder.',
  },
]

/**
 * @param {Refused} refused
 * @returns {string | null}  What would make it right; null where nobody can say.
 */
export function adviceOf(refused) {
  const { decoder, format } = refused
  const reason = refused.reason.replace(/^the other fields are stored, not these: /, '')
  const around = firstOf(AROUND, refused, reason)
  if (around !== undefined) return around
  // What an expression makes of a payload is mended in the expression.
  if (format === EXPRESSION_FORMAT) {
    if (!decoder) return null
    return `Open the decoder ${decoder}, try it on this message, and mend its expression. Then replay the message.`
  }
  return firstOf(WITHIN, refused, reason) ?? null
}

/**
 * @param {readonly Rule[]} rules
 * @param {Refused} refused
 * @param {string} reason
 * @returns {string | undefined}
 */
function firstOf(rules, refused, reason) {
  for (const { when: pattern, say } of rules) {
    const found = pattern.exec(reason)
    if (found) return typeof say === 'string' ? say : say(refused, found)
  }
  return undefined
}

/** @param {Refused} refused */
function adviceOnNames({ topic, reason }) {
  const levels = topic.split('/')
  if (levels.includes('')) {
    const mended = levels.filter((level) => level !== '').join('/')
    const known = mended.split('/').length > 1 ? `: ${quote(mended)}` : ''
    return `A level of the topic is empty. Publish without a slash at its end, and without two in a row${known}.`
  }
  if (reason.includes('topic is not')) {
    return 'Publish to sensors/SENSOR/METRIC, or say by a template what the levels of this topic mean.'
  }
  const what = reason.includes('the metric must have') ? 'metric' : 'sensor'
  return `Give the ${what} another name, of letters, digits and signs such as - and _.`
}

/** @param {Refused} refused */
function adviceOnEarly({ reason, format }) {
  const timeMs = Date.parse(/t is (\S+),/.exec(reason)?.[1] ?? '')
  if (format === LINE && timeMs > 0 && timeMs < UNSET_MS) {
    // It was read as nanoseconds; of the same count in another unit the year is a likely one.
    const unit = [
      { name: 's', factor: 1e9 },
      { name: 'ms', factor: 1e6 },
      { name: 'us', factor: 1e3 },
    ].find(({ factor }) => isLikely(timeMs * factor))
    if (unit) return `The time is not in nanoseconds: say its unit, with precision=${unit.name}.`
  }
  if (timeMs > 0 && isLikely(timeMs * 1_000)) {
    return 'Send the time in seconds or milliseconds since 1970: this one is a thousand times too small.'
  }
  return 'The clock of the device was not set: let it get the time before it measures, or leave the time out. Then the time of receipt counts.'
}

/** Whether devices were about then. @param {number} timeMs */
function isLikely(timeMs) {
  return timeMs > Date.UTC(2010, 0) && timeMs < Date.UTC(2100, 0)
}

/** @param {Refused} refused */
function adviceOnLine({ payload }) {
  const comma = /=(-?\d+),(\d+)(?=[\s,]|$)/.exec(payload.toString('utf8', 0, 4_096))
  if (comma) {
    return `Write decimals with a point: ${quote(`${comma[1]}.${comma[2]}`)} instead of ${quote(`${comma[1]},${comma[2]}`)}.`
  }
  return 'Write a line as kitchen temperature=21.5 1767225600000000000: a name, a space, fields, and perhaps the time. Texts are in double quotes.'
}

/** @param {Refused} refused */
function adviceOnBytes(refused) {
  const { format, payload } = refused
  if (format === LINE) return adviceOnLine(refused)
  if (format === undefined || format <= 1 || payload.length === 0) return adviceOnNotJson(payload)
  return adviceOnOther(refused)
}

/** @param {Refused} refused */
function adviceOnOther({ format }) {
  const name = format === undefined ? 'its format' : formatName(format)
  const help = format === undefined ? undefined : formatAt(format)?.help
  const like = help === undefined ? '' : ` (${help})`
  return `The topic is read as ${name}${like}, and this is something else: name the right format in the template of the topic, or send that one.`
}

/** Longest text of a message that is said again, in characters. */
const QUOTE_LENGTH_MAX = 120

/** @param {string} text */
function quote(text) {
  return shortened(text, QUOTE_LENGTH_MAX)
}
