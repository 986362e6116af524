/**
 * Why a message becomes a dead letter.
 */

/**
 * The kinds of reasons, for counting. `topic`, `json`, `line`, `value` and `time` are the sender's;
 * `sensors` is the limit of sensors, `hidden` a sensor that was deleted, `forbidden` a topic
 * that is not the client's, `database` a row that the
 * database refuses and would refuse again.
 *
 * @typedef {import('@sandglass/common/payload').PayloadFault | 'sensors' | 'hidden' | 'forbidden' |
 * 'database' } RefusalKind
 */

/** @type {readonly RefusalKind[]} */
export const REFUSAL_KINDS = [
  'topic',
  'json',
  'line',
  'value',
  'time',
  'sensors',
  'hidden',
  'forbidden',
  'database',
]

export class Refusal {
  /** @param {RefusalKind} kind  @param {string} reason  For people; names the field. */
  constructor(kind, reason) {
    this.kind = kind
    this.reason = reason
  }
}
