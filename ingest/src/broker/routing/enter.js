/** Lets a client in, once it has its session. */

import { connackOf } from '../frame.js'
import { Dialect, RECEIVE_MAX } from '../v5/dialect.js'
import { brokerTerms, toldExpiryS } from './terms.js'

/** @typedef {import('../connection.js').Connection} Connection */
/** @typedef {import('../behind.js').Behind} Behind */
/** @typedef {import('../entrance/connect-packet.js').Connect} Connect */
/** @typedef {import('../session.js').Session} Session */

/**
 * A client of MQTT 5.
 *
 * @param {Connection} connection
 * @param {Behind} behind
 * @param {Connect} connect
 * @param {Session} session
 * @returns {Dialect | undefined}  Nothing where it cannot take our answer.
 */
export function enter5(connection, behind, connect, session) {
  const { clientMessagesMax, packetBytesMax } = connection.server.limits
  const dialect = new Dialect(session, connect, Math.min(clientMessagesMax, RECEIVE_MAX))
  const connack = dialect.connack({
    isPresent: session.isPresent,
    assignedId: connect.clientId === '' ? session.clientId : undefined,
    sessionExpiryS: toldExpiryS(session, connect),
    packetBytesMax,
  })
  if (!connack) return undefined
  connection.send(connack)
  begin(connection, behind, connect, session)
  return dialect
}

/**
 * One of MQTT 3.1 or 3.1.1.
 *
 * @param {Connection} connection
 * @param {Behind} behind
 * @param {Connect} connect
 * @param {Session} session
 */
export function enter3(connection, behind, connect, session) {
  connection.send(connackOf(0, session.isPresent))
  begin(connection, behind, connect, session)
}

/**
 * @param {Connection} connection
 * @param {Behind} behind
 * @param {Connect} connect
 * @param {Session} session
 */
function begin({ server }, behind, connect, session) {
  const terms = brokerTerms(session, connect)
  session.isWillDelayed = (terms.will?.delayMs ?? 0) > 0
  // Nothing of it outlives the connection: the broker need not know it before it subscribes.
  if (terms.clean && !terms.isKept && !terms.will) server.broker.forget(session.name)
  else behind.open(terms)
}
