/** What is wrong with a text that should have been JSON, told by how devices get it wrong. Pure. */

import { shortened } from '../text.js'

/** Longest beginning of a payload that is looked at, in bytes. */
const LOOKED_AT_BYTES = 1_024

/** Longest number or word that is said again, in characters. */
const SAID_LENGTH_MAX = 32

const NUMBER = /^[-+]?(\d+(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?$/

/**
 * Each slip: what it looks like, and what to do. The first that fits is told. A device chooses the
 * text, so none of them may need time that grows with the square of its length.
 *
 * @type {readonly { looks: RegExp, advice: (found: RegExpExecArray) => string }[]}
 */
const SLIPS = [
  {
    looks: /^([-+]?\d+),(\d+)$/,
    advice: ([, whole, part]) =>
      `Write the decimal with a point: ${said(`${whole}.${part}`)} instead of ${said(`${whole},${part}`)}.`,
  },
  {
    looks: /[:]\s*(-?\d+),(\d+)\s*[,}\]]/,
    advice: ([, whole, part]) =>
      `Write decimals with a point: ${said(`${whole}.${part}`)} instead of ${said(`${whole},${part}`)}.`,
  },
  {
    looks: /^[^\0]+\0+$/,
    advice: () => 'Send the text without the zero byte at its end: its length is one too many.',
  },
  {
    looks: /(?:^|[\s:,[])([-+]?(?:nan|inf(?:inity)?))(?=$|[\s,}\]])/i,
    advice: ([, word]) =>
      `Send nothing, or null within an object, where nothing was measured: JSON has no ${said(word)}.`,
  },
  {
    looks: /^([-+]?\d+(?:\.\d+)?)\s*([°%a-zµΩ][^\s{[",:=]{0,7})$/i,
    advice: ([, number, unit]) =>
      `Send the number alone, ${said(String(Number(number)))}, and give ${said(unit)} as the unit of the metric.`,
  },
  {
    looks: /^[{[][^"]*'/,
    advice: () => 'Put names and texts in double quotes: JSON has no single ones.',
  },
  {
    looks: /(?:^|[\s:,[])(True|False|TRUE|FALSE|None)(?=$|[\s,}\]])/,
    advice: ([, word]) =>
      `Write ${word === 'None' ? 'null' : word.toLowerCase()} instead of ${word}: JSON has it in small letters.`,
  },
  {
    looks: /,\s*[}\]]/,
    advice: () => 'Take away the comma before the closing bracket.',
  },
  {
    looks: /[{,]\s*[A-Za-z_]\w*\s*:/,
    advice: () => 'Put the names of members in double quotes: {"temperature": 21.5}.',
  },
  {
    looks: /^[\w.-]+(?:,[\w.-]+=[^\s,]+)*\s+[\w.-]+=\S/,
    advice: () =>
      'This looks like line protocol: send it to the topic of --line-topic, or over HTTP as text/plain.',
  },
  {
    looks: /^(?:\{[^}]*|\[[^\]]*)$/,
    advice: () => 'The payload has an opening bracket without its closing one: send all of it.',
  },
  {
    looks: /^([\p{L}_][\p{L}\d _-]*)$/u,
    advice: ([, word]) => `Put a text in double quotes: "${said(word)}".`,
  },
]

const OTHERWISE =
  'Send JSON, such as 21.5 or {"temperature": 21.5}. If the device cannot, name its format in the ' +
  'template of its topic, or write a decoder for it.'

/**
 * @param {Buffer} payload
 * @returns {string}  What would make it right.
 */
export function adviceOnNotJson(payload) {
  if (payload.length === 0) {
    return 'Send a value, such as 21.5: an empty payload measures nothing.'
  }
  const text = payload.toString('utf8', 0, LOOKED_AT_BYTES).trim()
  if (isBinary(text)) {
    return (
      'These bytes are no text: name their format, such as cbor or messagepack, in the template of ' +
      'the topic, or write a decoder for them.'
    )
  }
  if (NUMBER.test(text) && Number.isFinite(Number(text))) {
    return `Write the number as JSON does, without a leading plus or zero and with digits on both sides of the point: ${said(String(Number(text)))}.`
  }
  for (const { looks, advice } of SLIPS) {
    const found = looks.exec(text)
    if (found) return advice(found)
  }
  return OTHERWISE
}

/** A zero byte at the end alone is a slip of its own. @param {string} text */
function isBinary(text) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return /[\x00-\x08\x0e-\x1f\ufffd]/.test(text.replace(/\0+$/, ''))
}

/** @param {string} text */
function said(text) {
  return shortened(text, SAID_LENGTH_MAX)
}
