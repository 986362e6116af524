/** What is measured of decoders of people's own. */

/**
 * @typedef {object} MeasuredDecoders
 * @property {Pick<import('./known.js').KnownDecoders, 'size' | 'refused' | 'failures'>
 *   } knownDecoders
 * @property {Pick<import('./stage.js').DecoderStage, 'waiting'>} decoders
 * @property {Pick<import('@sandglass/common/expressions/evaluator').Evaluator, 'counts'>} evaluator
 */

/** @typedef {(name: string, help: string, value: () => number) => unknown} Define */

/**
 * @param {MeasuredDecoders} measured
 * @param {Define} counter
 * @param {Define} gauge
 */
export function registerDecoders({ knownDecoders, decoders, evaluator }, counter, gauge) {
  const { counts } = evaluator
  gauge('decoders', "decoders of people's own", () => knownDecoders.size)
  gauge('decoders_refused', 'decoders that are not followed: others have their topics', () => {
    return knownDecoders.refused.size
  })
  counter('decoder_failures_total', 'times that decoders could not be read or kept', () => {
    return knownDecoders.failures
  })
  gauge('expressions_waiting', 'messages that wait for their expression', () => decoders.waiting)
  counter('expressions_total', 'payloads that were given to an expression', () => counts.evaluated)
  counter('expressions_slow_total', 'payloads whose expression took too long', () => counts.slow)
  counter('expressions_large_total', 'payloads whose expression took too much memory', () => {
    return counts.large
  })
  counter('expressions_unasked_total', 'payloads refused because others of the client were', () => {
    return counts.unasked
  })
  counter('expression_starts_total', 'processes for expressions that were started', () => {
    return counts.starts
  })
}
