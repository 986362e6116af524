/**
 * Decoders of people's own: which topics, and an expression of JSONata that says what a payload on
 * them means. All of them are one value, which is changed as a whole. Pure.
 */

import { DESIRED_LEVEL } from '../desired.js'
import { SettingError } from '../options.js'
import { overlap, parseOwnTemplate } from '../topics.js'

/** How the payload is read that the expression is given. */
export const READINGS = /** @type {const} */ (['json', 'text', 'bytes', 'cbor', 'messagepack'])

/** Most decoders: each is tried for a topic that was not seen before. */
export const DECODERS_MAX = 64

/** Longest texts of a decoder, in bytes. */
export const NAME_BYTES_MAX = 64
export const TEMPLATE_BYTES_MAX = 512
export const EXPRESSION_BYTES_MAX = 16 * 1024

/** Largest set of decoders, in bytes of JSON: each process reads all when one has changed. */
export const SET_BYTES_MAX = 512 * 1024

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/
export const NAME_RULE = `has 1 to ${NAME_BYTES_MAX} letters, digits, dots, dashes or underscores`

/** @typedef {import('./evaluate.js').Reading} Reading */
/** @typedef {import('../topics.js').Template} Template */

/**
 * @typedef {object} DecoderBody  As a person says it.
 * @property {string} template  Of its topics.
 * @property {string} expression
 * @property {Reading} reads  How payloads are read that the expression is given.
 */

/**
 * @typedef {DecoderBody & { name: string, version: number, changedMs: number }} Decoder
 */

/** In the order in which they were made. @typedef {readonly Decoder[]} DecoderSet */

/** @param {string} name */
export function isDecoderName(name) {
  return NAME.test(name) && name.length <= NAME_BYTES_MAX
}

/**
 * What is wrong with a decoder before its expression is looked at.
 *
 * @param {DecoderBody} body
 * @returns {{ parameter: string, fault: string } | undefined}
 */
export function bodyFault({ template, expression, reads }) {
  if (Buffer.byteLength(template) > TEMPLATE_BYTES_MAX) {
    return { parameter: 'template', fault: `has at most ${TEMPLATE_BYTES_MAX} bytes` }
  }
  if (Buffer.byteLength(expression) > EXPRESSION_BYTES_MAX) {
    return { parameter: 'expression', fault: `has at most ${EXPRESSION_BYTES_MAX} bytes` }
  }
  if (!READINGS.includes(reads)) {
    return { parameter: 'reads', fault: `is one of ${READINGS.join(', ')}` }
  }
  return undefined
}

/**
 * Which decoders of a set are followed: those whose topics are nobody else's. Configured templates
 * come first, then who was made first.
 *
 * @param {DecoderSet} set
 * @param {import('../topics.js').Topics} topics  That are configured.
 * @param {string} lineTopic
 * @returns {{ templates: Template[], refused: Map<string, string> }}  Why not the others, by name.
 */
export function followed(set, topics, lineTopic) {
  /** @type {Template[]} */
  const templates = []
  /** @type {Map<string, string>} */
  const refused = new Map()
  const taken = [lineTopic, DESIRED_LEVEL].map((text) => ({
    text: `${text}/…`,
    levels: text.split('/'),
    hasRest: true,
  }))
  for (const decoder of set) {
    try {
      const template = { ...parseOwnTemplate(decoder.template), decoder }
      const clash =
        topics.clashOf(template) ??
        [...taken, ...templates].find((one) => overlap(one, template))?.text
      if (clash === undefined) templates.push(template)
      else refused.set(decoder.name, `a topic could fit it and ${clash}`)
    } catch (error) {
      if (!(error instanceof SettingError)) throw error
      refused.set(decoder.name, error.message)
    }
  }
  return { templates, refused }
}

/** Why a payload was refused, and by whom. @param {Decoder} decoder  @param {string} reason */
export function refusalBy({ name, version }, reason) {
  return `decoder ${name}, version ${version}: ${reason}`
}

/** @param {DecoderSet} set */
export const setText = (set) => JSON.stringify(set)

/**
 * @param {string | null | undefined} text
 * @returns {DecoderSet}
 */
export function setOfText(text) {
  const value = text ? JSON.parse(text) : []
  if (!Array.isArray(value)) throw new Error('the decoders are not a list')
  return value
}
