/**
 * Has messages in formats of people's own evaluated before anything else is decided about them, in
 * another process. From then on what was said is in their payload (`envelope.js`), and they are
 * like all others: neither the spool nor a restart evaluates them again.
 */

import { refusalBy } from '@sandglass/common/expressions/decoder'
import {
  bareEnvelope,
  goneEnvelope,
  NOTHING_SAID,
  OUTCOME,
  readEnvelope,
  refusedEnvelope,
  writeEnvelope,
} from '@sandglass/common/expressions/envelope'
import { expression as format } from '@sandglass/common/formats/expression'
import { PayloadError } from '@sandglass/common/payload'
import { sensorId } from '@sandglass/common/sensor'

/** @typedef {import('@sandglass/common/expressions/decoder').Decoder} Decoder */
/** @typedef {import('@sandglass/common/expressions/envelope').Envelope} Envelope */
/** @typedef {import('../message/message.js').Message} Message */

/** What becomes of a message. @typedef {{ enter: () => void, drop: () => void }} Ways */

/** @typedef {Ways & { isWrapped: boolean }} Taking  Whether it names its decoder itself. */

export class DecoderStage {
  #known
  #topics
  #evaluator
  #inFlight
  /** How many messages it holds. */
  waiting = 0

  /**
   * @param {object} parts
   * @param {import('./known.js').KnownDecoders} parts.known
   * @param {import('@sandglass/common/topics').Topics} parts.topics
   * @param {import('@sandglass/common/expressions/evaluator').Evaluator} parts.evaluator
   * @param {import('../message/in-flight.js').InFlight} parts.inFlight
   */
  constructor({ known, topics, evaluator, inFlight }) {
    this.#known = known
    this.#topics = topics
    this.#evaluator = evaluator
    this.#inFlight = inFlight
  }

  /** Whether it is known which topics have such a format. */
  get isReady() {
    return this.#known.isKnown
  }

  /**
   * Holds a message that could be one until that is known.
   *
   * @param {Message} message
   * @param {Ways} ways
   */
  hold(message, { enter, drop }) {
    if (!this.#inFlight.reserve(message)) {
      drop()
      return
    }
    this.waiting++
    this.#known.whenKnown(() => this.#release(message, enter))
  }

  /**
   * Gives a message a payload that says what it means.
   *
   * @param {Message} message  Of the format.
   * @param {Taking} ways
   */
  take(message, ways) {
    if (!this.isReady) {
      this.hold(message, { ...ways, enter: () => this.take(message, ways) })
      return
    }
    const { envelope, decoder } = this.#begin(message, ways)
    if (!decoder || envelope.outcome !== OUTCOME.none || isForbidden(message, envelope)) {
      message.complete(writeEnvelope(envelope))
      ways.enter()
      return
    }
    if (!this.#inFlight.reserve(message)) {
      ways.drop()
      return
    }
    this.waiting++
    const { topic } = message
    const { sensor, metric, original } = envelope
    const question = {
      expression: decoder.expression,
      reading: decoder.reads,
      payload: Buffer.from(original),
      place: { topic, sensor, metric },
      client: senderOf(message),
    }
    this.#evaluator.ask(question, ({ outcome, said }) => {
      const text = outcome === OUTCOME.refused ? refusalBy(decoder, said) : said
      // The payload may be a copy by now.
      const own = ways.isWrapped ? original : message.payload
      const whole = { ...envelope, original: own, outcome, said: Buffer.from(text) }
      this.#release(message, () => {
        message.complete(writeEnvelope(whole))
        ways.enter()
      })
    })
  }

  /** @param {Message} message  @param {() => void} enter */
  #release(message, enter) {
    this.#inFlight.unreserve(message)
    this.waiting--
    enter()
  }

  /**
   * What is to be asked about a message.
   *
   * @param {Message} message
   * @param {Taking} ways
   * @returns {{ envelope: Envelope, decoder?: Decoder }}
   */
  #begin({ topic, payload }, { isWrapped }) {
    try {
      if (isWrapped) return this.#again(topic, readEnvelope(payload))
      const decoder = this.#topics.decoderOf(topic)
      const { name = '', version = 0 } = decoder ?? {}
      const envelope = bareEnvelope({ decoder: name, version, original: payload })
      return decoder ? this.#placed(topic, envelope, decoder) : { envelope: goneEnvelope(envelope) }
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error
      const bare = bareEnvelope({ decoder: '', version: 0, original: payload })
      return { envelope: refusedEnvelope(bare, error.message) }
    }
  }

  /**
   * One that names its decoder: a dead letter, or what came without a topic. It is for the decoder
   * as it is now; what its topic meant when it came counts where no template of that fits any more.
   *
   * @param {string} topic
   * @param {Envelope} before
   */
  #again(topic, before) {
    const decoder = this.#known.named(before.decoder)
    if (!decoder) return { envelope: goneEnvelope(before) }
    const { version } = decoder
    const envelope = { ...before, version, outcome: OUTCOME.none, said: NOTHING_SAID }
    const isStillIts = this.#topics.decoderOf(topic)?.name === decoder.name
    return isStillIts ? this.#placed(topic, envelope, decoder) : { envelope, decoder }
  }

  /** @param {string} topic  @param {Envelope} envelope  @param {Decoder} decoder */
  #placed(topic, envelope, decoder) {
    try {
      const { sensor, metric } = this.#topics.place(topic, format.number)
      return { envelope: { ...envelope, sensor, metric }, decoder }
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error
      return { envelope: refusedEnvelope(envelope, error.message) }
    }
  }
}

/** Whether it is refused whatever it says. @param {Message} message  @param {Envelope} envelope */
function isForbidden({ rights }, { sensor }) {
  if (rights.kind === 'all') return false
  return rights.kind === 'none' || (sensor !== undefined && !rights.mayWrite(sensorId(sensor)))
}

/**
 * Whose time it takes: a broker that exists already says nothing of its clients.
 *
 * @param {Message} message
 */
function senderOf({ sender, senderName, topic }) {
  return sender ? senderName : `${senderName} ${topic}`
}
