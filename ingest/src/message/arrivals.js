/**
 * What arrives: which of it are measurements, what has to be found out before they can be taken,
 * and whether there is room for them.
 */

import { expression } from '@sandglass/common/formats/expression'
import { takeLines } from './lines.js'

/** What a message of several lines costs while they are taken one by one, times its bytes. */
const LINES_FACTOR = 4

/** @typedef {import('./message.js').Message} Message */

export class Arrivals {
  #edgeNodes
  #decoder
  #decoders
  #counts
  #inFlight
  #take
  #settle

  /**
   * @param {Pick<import('./pipeline.js').PipelineParts,
   *   'edgeNodes' | 'decoder' | 'decoders' | 'counts' | 'inFlight'>} parts
   * @param {object} then
   * @param {(message: Message) => void} then.take  It is a measurement, and counted.
   * @param {(message: Message) => void} then.settle  It is none, or dropped.
   */
  constructor({ edgeNodes, decoder, decoders, counts, inFlight }, { take, settle }) {
    this.#edgeNodes = edgeNodes
    this.#decoder = decoder
    this.#decoders = decoders
    this.#counts = counts
    this.#inFlight = inFlight
    this.#take = take
    this.#settle = settle
  }

  /** @param {Message} message */
  accept(message) {
    // A dead letter, or an item of a body, names its decoder itself.
    const isWrapped = message.format === expression.number
    if (!this.#decoder.receive(message)) {
      this.#pass(message)
    } else if (message.format === expression.number) {
      const enter = () => this.#enter(message)
      this.#decoders.take(message, { isWrapped, enter, drop: () => this.#drop(message) })
    } else {
      this.#enter(message)
    }
  }

  /** @param {Message} message */
  #enter(message) {
    this.#edgeNodes.take(message)
    this.#counts.received++
    if (this.#inFlight.add(message)) {
      this.#take(message)
    } else {
      this.#counts.droppedQos0++
      this.#settle(message)
    }
  }

  /** There is no room to find out what it means. @param {Message} message */
  #drop(message) {
    this.#counts.received++
    this.#counts.droppedQos0++
    this.#settle(message)
  }

  /** A message that is no measurement: lines of them, or nothing of ours. */
  /** @param {Message} message */
  #pass(message) {
    if (this.#decoder.isOfLines(message) && this.#takeLines(message)) return
    if (!this.#decoders.isReady) {
      const enter = () => this.accept(message)
      this.#decoders.hold(message, { enter, drop: () => this.#drop(message) })
      return
    }
    this.#counts.passed++
    message.isPassed = true
    this.#settle(message)
  }

  /** @param {Message} message  @returns {boolean}  False where it has no line. */
  #takeLines(message) {
    const bytes = LINES_FACTOR * message.payload.length
    const isTaken = takeLines(
      message,
      (line) => this.accept(line),
      () => {
        this.#inFlight.release(bytes)
        this.#settle(message)
      },
    )
    if (isTaken) this.#inFlight.hold(bytes)
    return isTaken
  }
}
