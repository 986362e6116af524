/** Whether a client is let in: what its key says, and whether it still wants to. */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import { rightsOf } from '../../message/rights.js'
import { sensorOf } from '../../sensors/statuses.js'
import { REASON } from '../v5/reason.js'
import { REFUSED } from './access.js'
import { willBytes } from './connect-packet.js'

/**
 * How long a client may not yet take over from a connection with its id, in milliseconds. A CONNECT
 * that waited for us in the kernel may be of a client that gave up and has come back since: the end
 * of its connection follows it, and it must not cost the client the connection that it has now.
 */
const TAKE_OVER_MS = 200

/** @typedef {import('../connection.js').Connection} Connection */
/** @typedef {import('./connect-packet.js').Connect} Connect */

/**
 * Gives a connection what its key allows, and the session of its client.
 *
 * @param {Connection} connection
 * @param {Connect} connect
 * @param {string} address  From where it comes.
 * @returns {Promise<{ code: number, reason: string } | undefined |
 *   { session: import('../session.js').Session, sensorId: string | undefined }>}  Why it is not let
 *   in, as one of `REFUSED`; nothing where the client has left.
 */
export async function letIn(connection, connect, address) {
  const { access, sessions, topics } = connection.server
  const { will, password } = connect
  const clientId = connect.clientId === '' ? `auto-${randomUUID()}` : connect.clientId
  if (!(await stillWantsIn(connection, 0))) return undefined
  if (access) {
    const answer = await access.admit({ password, willTopic: will?.topic }, address)
    if (connection.stage !== 'connecting') return undefined
    if (typeof answer === 'number') return { code: answer, reason: 'its key does not let it in' }
    connection.grant = answer
    connection.rights = rightsOf(answer)
  }
  const { grant } = connection
  const isThere = sessions.connectionOf(grant, clientId) !== undefined
  if (isThere && !(await stillWantsIn(connection, TAKE_OVER_MS))) return undefined
  const before = sessions.connectionOf(grant, clientId)
  const session = connection.server.enter(connection, clientId, connect)
  connection.session = session
  // [MQTT-3.1.4-2]
  before?.close('closed', REASON.takenOver)
  if (!session.setWill(willBytes(connect))) {
    return { code: REFUSED.unavailable, reason: 'its will takes too much memory' }
  }
  return { session, sensorId: sensorOf(grant, will?.topic, topics) }
}

/**
 * Whether the client has not left meanwhile. One whose CONNECT waited in the kernel until it gave
 * up is not worth the work of letting it in: where many come at once, those who still wait would
 * wait for that, and give up in their turn.
 *
 * @param {Connection} connection
 * @param {number} ms  How long it is given.
 */
async function stillWantsIn(connection, ms) {
  if (ms > 0) await delay(ms, undefined, { ref: false })
  // Timers are before what has arrived in a turn of the loop; this is after it. The end of a
  // connection is read in the turn after its last bytes.
  await turn()
  await turn()
  return connection.stage === 'connecting'
}
