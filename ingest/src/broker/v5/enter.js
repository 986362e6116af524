/** Lets a client of MQTT 5 in, once it has its session. */

import { Dialect, RECEIVE_MAX } from './dialect.js'
import { brokerTerms, toldExpiryS } from './terms.js'

/**
 * @param {import('../connection.js').Connection} connection
 * @param {import('../behind.js').Behind} behind
 * @param {import('../entrance/connect-packet.js').Connect} connect
 * @param {import('../session.js').Session} session
 * @returns {Dialect | undefined}  Nothing where it cannot take our answer.
 */
export function enter5(connection, behind, connect, session) {
  const { server } = connection
  const { clientMessagesMax, packetBytesMax } = server.limits
  const dialect = new Dialect(session, connect, Math.min(clientMessagesMax, RECEIVE_MAX))
  const connack = dialect.connack({
    isPresent: session.isPresent,
    assignedId: connect.clientId === '' ? session.clientId : undefined,
    sessionExpiryS: toldExpiryS(session, connect),
    packetBytesMax,
  })
  if (!connack) return undefined
  connection.send(connack)
  const terms = brokerTerms(session, connect)
  session.isWillDelayed = (terms.will?.delayMs ?? 0) > 0
  // Nothing of it outlives the connection: the broker need not know it before it subscribes.
  if (terms.clean && !terms.isKept && !terms.will) server.broker.forget(session.name)
  else behind.open5(terms)
  return dialect
}
