/**
 * The driver's control connection, kept alive.
 *
 * cassandra-driver 4.10: when a connection is lost while the control connection reads the topology,
 * its `_refresh` looks at the connection that is gone and throws a TypeError. Nobody catches it,
 * which would end the process, and nobody tries again, which would leave the driver without news of
 * the cluster. This is the only place that touches that private method.
 */

/** Pause before the control connection is refreshed again, in milliseconds. */
const RETRY_MS = 200

/**
 * @typedef {object} ControlConnection  The part of the driver's class that is used.
 * @property {(hostIterator?: unknown) => Promise<void>} _refresh
 * @property {boolean} [_isShuttingDown]
 */

/**
 * Makes a client's control connection try again where it would give up with an exception.
 *
 * @param {object} client  The driver's, before it is connected.
 * @param {(error: Error) => void} report  Called for each exception.
 */
export function guardControlConnection(client, report) {
  const { controlConnection: control } = /** @type {{ controlConnection: ControlConnection }} */ (
    client
  )
  const refresh = control._refresh
  control._refresh = async (hostIterator) => {
    try {
      await refresh.call(control, hostIterator)
    } catch (error) {
      report(/** @type {Error} */ (error))
      if (control._isShuttingDown) return
      setTimeout(() => void control._refresh(), RETRY_MS).unref()
    }
  }
}
