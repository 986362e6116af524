/**
 * Why a message becomes a dead letter.
 */

import { reasonOf } from '@sandglass/common/formats/fields'

/** @typedef {import('@sandglass/common/formats/types').RefusedField} RefusedField */

/**
 * The kinds of reasons, for counting. `topic`, `format`, `json`, `line`, `value` and `time` are the
 * sender's; `expression` is a decoder of somebody's own; `sensors` is the limit of sensors,
 * `hidden` a sensor that was deleted, `forbidden` a topic that is not the client's, `database` a
 * row that the database refuses and would refuse again.
 *
 * @typedef {import('@sandglass/common/payload').PayloadFault | 'sensors' | 'hidden' | 'forbidden' |
 * 'database' } RefusalKind
 */

/** @type {readonly RefusalKind[]} */
export const REFUSAL_KINDS = [
  'topic',
  'format',
  'json',
  'line',
  'value',
  'time',
  'expression',
  'sensors',
  'hidden',
  'forbidden',
  'database',
]

/** Fields that a message loses; its other measurements are stored. */
export class PartialRefusal {
  /** @param {RefusedField[]} fields  At least one. */
  constructor(fields) {
    this.fields = fields
    /** Whether its dead letter is given to be written, or need not be. */
    this.isKept = false
  }

  /** For people. */
  get reason() {
    return `the other fields are stored, not these: ${reasonOf(this.fields)}`
  }
}

export class Refusal {
  /** @param {RefusalKind} kind  @param {string} reason  For people; names the field. */
  constructor(kind, reason) {
    this.kind = kind
    this.reason = reason
  }
}
