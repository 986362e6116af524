/** Who else needs to know which topics carry measurements hears of decoders. */

import { RemoteBroker } from './processes/remote-broker.js'

/**
 * @param {Pick<import('./decoders/known.js').KnownDecoders, 'onChange'>} known
 * @param {Pick<import('./source.js').Source, 'broker' | 'external'>} source
 */
export function followDecoders(known, { broker, external }) {
  known.onChange.push(() => external?.follow())
  if (broker instanceof RemoteBroker) {
    known.onChange.push((set, revision) => broker.tellDecoders({ set, revision }))
  }
}
