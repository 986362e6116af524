/** What a host says to an edge node of Sparkplug B. Pure. */

import { DATATYPE } from './value.js'
import { writePayload } from './write.js'

/** The metric by which an edge node is asked for all its births. It never has an alias. */
const REBIRTH = 'Node Control/Rebirth'

/**
 * The payload of an NCMD that asks for a rebirth. A command has no `seq`.
 *
 * @param {number} timeMs  Of now, milliseconds since the Unix epoch.
 */
export function rebirthCommand(timeMs) {
  const datatype = DATATYPE.Boolean
  return writePayload({ timeMs, metrics: [{ name: REBIRTH, timeMs, datatype, boolean: true }] })
}
