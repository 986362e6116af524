/** Decoders of people's own, and what they would make of a payload: as ingest does it. */

import {
  bodyFault,
  DECODERS_MAX,
  followed,
  isDecoderName,
  NAME_RULE,
  refusalBy,
  SET_BYTES_MAX,
  setText,
} from '@sandglass/common/expressions/decoder'
import { withDecoder } from '@sandglass/common/expressions/decoder-store'
import {
  bareEnvelope,
  EXPRESSION_FORMAT,
  goneEnvelope,
  OUTCOME,
  refusedEnvelope,
  writeEnvelope,
} from '@sandglass/common/expressions/envelope'
import { SettingError } from '@sandglass/common/options'
import { PayloadError } from '@sandglass/common/payload'
import { invalid, Problem } from '@sandglass/common/problem'
import { parseOwnTemplate, Topics } from '@sandglass/common/topics'

/** How old what is known of decoders may be where somebody asks what ingest would do, in ms. */
const KNOWN_MS = 500

/** Most payloads that wait for their expression. */
const WAITING_MAX = 64

/** Who asks whether an expression can be read at all. */
const CHECK = 'check'

/** @typedef {import('@sandglass/common/expressions/decoder').Decoder} Decoder */
/** @typedef {import('@sandglass/common/expressions/decoder').DecoderBody} DecoderBody */
/** @typedef {import('@sandglass/common/expressions/decoder').DecoderSet} DecoderSet */
/** @typedef {import('@sandglass/common/expressions/envelope').Envelope} Envelope */
/** @typedef {import('@sandglass/common/bodies').Item} Item */
/** @typedef {{ expression: string, reads: Decoder['reads'] }} Reader */

export class Decoders {
  #store
  #evaluator
  #topics
  #lineTopic
  /** @type {DecoderSet} */
  #set = []
  #knownMs = Number.NEGATIVE_INFINITY

  /**
   * @param {object} parts
   * @param {import('@sandglass/common/expressions/decoder-store').DecoderStore} parts.store
   * @param {import('@sandglass/common/expressions/evaluator').Evaluator} parts.evaluator
   * @param {Topics} parts.topics  Get the templates of what is stored.
   * @param {string} parts.lineTopic
   */
  constructor({ store, evaluator, topics, lineTopic }) {
    this.#store = store
    this.#evaluator = evaluator
    this.#topics = topics
    this.#lineTopic = lineTopic
  }

  /** All, and why some of them are not followed, by name. */
  async list() {
    const { set } = await this.#store.read()
    return { set, refused: this.#follow(set) }
  }

  /**
   * Makes or changes one.
   *
   * @param {string} name
   * @param {DecoderBody} body
   * @returns {Promise<{ decoder: Decoder, isNew: boolean }>}
   * @throws {Problem}
   */
  async put(name, body) {
    if (!isDecoderName(name)) throw invalid('decoder', NAME_RULE)
    const wrong = bodyFault(body)
    if (wrong) throw invalid(wrong.parameter, wrong.fault)
    await this.#requireReadable(body)
    let isNew = false
    const { set } = await this.#store.change((before, version) => {
      isNew = !before.some((one) => one.name === name)
      const after = withDecoder(before, name, body, { version, nowMs: Date.now() })
      this.#requireFit(after, name)
      return after
    })
    this.#follow(set)
    return { decoder: /** @type {Decoder} */ (set.find((one) => one.name === name)), isNew }
  }

  /** @param {string} name  @returns {Promise<boolean>}  Whether there was such a one. */
  async remove(name) {
    let isKnown = false
    const { set } = await this.#store.change((before) => {
      isKnown = before.some((one) => one.name === name)
      return isKnown ? before.filter((one) => one.name !== name) : undefined
    })
    this.#follow(set)
    return isKnown
  }

  /** Has what is stored be known; where the database is away, what was known last. */
  async refresh() {
    if (performance.now() - this.#knownMs < KNOWN_MS) return
    try {
      await this.list()
    } catch (error) {
      if (!(error instanceof Problem)) throw error
    }
  }

  /**
   * A message on a topic, as ingest has it once its decoder was asked.
   *
   * @param {string} topic
   * @param {Buffer} original
   * @param {string} client  Who asks.
   * @returns {Promise<Item>}
   */
  async ofTopic(topic, original, client) {
    const decoder = /** @type {Decoder} */ (this.#topics.decoderOf(topic))
    return this.#item(decoder, this.#topics, { topic, original, client })
  }

  /**
   * @param {string} name
   * @param {Buffer} original
   * @param {string} client
   * @returns {Promise<Item>}
   */
  async ofName(name, original, client) {
    const decoder = this.#set.find((one) => one.name === name)
    if (decoder) {
      const envelope = bareEnvelope({ decoder: name, version: decoder.version, original })
      return this.#ask(decoder, envelope, { topic: '/v1/measurements', client })
    }
    return itemOf(goneEnvelope(bareEnvelope({ decoder: name, version: 0, original })))
  }

  /**
   * What is not stored yet.
   *
   * @param {Reader & { template?: string }} draft
   * @param {{ topic: string, original: Buffer, client: string }} message
   * @returns {Promise<Item>}
   * @throws {Problem}
   */
  async ofDraft({ template, ...reader }, message) {
    const decoder = { ...reader, template: template ?? '', name: '', version: 0, changedMs: 0 }
    const wrong = bodyFault(decoder)
    if (wrong) throw invalid(wrong.parameter, wrong.fault)
    if (template === undefined) {
      const envelope = bareEnvelope({ decoder: '', version: 0, original: message.original })
      return this.#ask(decoder, envelope, message)
    }
    const topics = new Topics()
    topics.own = [{ ...templateOf(template), decoder }]
    if (!topics.decoderOf(message.topic)) {
      throw invalid('topic', `does not fit the template ${template}`)
    }
    return this.#item(decoder, topics, message)
  }

  /**
   * @param {Decoder} decoder
   * @param {Topics} topics
   * @param {{ topic: string, original: Buffer, client: string }} message
   */
  async #item(decoder, topics, { topic, original, client }) {
    const envelope = bareEnvelope({ decoder: decoder.name, version: decoder.version, original })
    try {
      const { sensor, metric } = topics.place(topic, EXPRESSION_FORMAT)
      return await this.#ask(decoder, { ...envelope, sensor, metric }, { topic, client })
    } catch (error) {
      if (error instanceof PayloadError) return itemOf(refusedEnvelope(envelope, error.message))
      throw error
    }
  }

  /**
   * @param {Decoder} decoder
   * @param {Envelope} envelope
   * @param {{ topic: string, client: string }} from
   * @returns {Promise<Item>}
   */
  async #ask(decoder, envelope, { topic, client }) {
    const { sensor, metric, original } = envelope
    const { outcome, said } = await this.#evaluate({
      expression: decoder.expression,
      reading: decoder.reads,
      payload: original,
      place: { topic, sensor, metric },
      client,
    })
    const isRefused = outcome === OUTCOME.refused && decoder.name !== ''
    const text = isRefused ? refusalBy(decoder, said) : said
    return itemOf({ ...envelope, outcome, said: Buffer.from(text) })
  }

  /** @param {import('@sandglass/common/expressions/evaluator').Question} question */
  #evaluate(question) {
    if (this.#evaluator.waiting >= WAITING_MAX) {
      throw new Problem('too-many-requests', 'too many expressions are evaluated: try again', {
        retryAfterS: 1,
      })
    }
    return this.#evaluator.evaluate(question)
  }

  /** @param {Reader} reader  @throws {Problem} */
  async #requireReadable({ expression, reads: reading }) {
    const { outcome, said } = await this.#evaluate({
      expression,
      reading,
      payload: undefined,
      place: { topic: '' },
      client: CHECK,
    })
    if (outcome === OUTCOME.refused) throw invalid('expression', `is none: ${said}`)
  }

  /** @param {DecoderSet} set  @param {string} name  Of the one that is new. */
  #requireFit(set, name) {
    if (set.length > DECODERS_MAX) {
      throw new Problem('too-many-changes', `there are ${DECODERS_MAX} decoders, the limit`)
    }
    if (Buffer.byteLength(setText(set)) > SET_BYTES_MAX) {
      throw new Problem('too-many-changes', `all decoders have at most ${SET_BYTES_MAX} bytes`)
    }
    const template = set.find((one) => one.name === name)?.template ?? ''
    templateOf(template)
    // It may be older than the one that it stands in the way of.
    const without = followed(
      set.filter((one) => one.name !== name),
      this.#topics,
      this.#lineTopic,
    )
    const { refused } = followed(set, this.#topics, this.#lineTopic)
    for (const [other, reason] of refused) {
      if (other === name) throw invalid('template', `is taken: ${reason}`)
      if (!without.refused.has(other)) throw invalid('template', `is taken by ${other}: ${reason}`)
    }
  }

  /** @param {DecoderSet} set */
  #follow(set) {
    const { templates, refused } = followed(set, this.#topics, this.#lineTopic)
    this.#topics.own = templates
    this.#set = set
    this.#knownMs = performance.now()
    return refused
  }
}

/** @param {Envelope} envelope  @returns {Item} */
function itemOf(envelope) {
  return { format: EXPRESSION_FORMAT, payload: writeEnvelope(envelope) }
}

/** @param {string} text  @throws {Problem} */
function templateOf(text) {
  try {
    return parseOwnTemplate(text)
  } catch (error) {
    if (error instanceof SettingError) throw invalid('template', `is none. ${error.message}`)
    throw error
  }
}
