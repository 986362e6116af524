import cassandra from 'cassandra-driver'
import { guardControlConnection } from '../src/control-connection.js'

/** A client whose control connection fails a number of times. @param {number} failures */
function failingClient(failures) {
  const control = {
    calls: 0,
    _isShuttingDown: false,
    async _refresh() {
      if (control.calls++ < failures) throw new TypeError('connection is null')
    },
  }
  return { controlConnection: control }
}

describe('guardControlConnection', () => {
  test('an exception is reported and the control connection tries again', async () => {
    const client = failingClient(2)
    /** @type {string[]} */
    const reported = []
    guardControlConnection(client, ({ message }) => reported.push(message))
    await client.controlConnection._refresh()
    while (client.controlConnection.calls < 3) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await new Promise((resolve) => setTimeout(resolve, 400))
    expect(client.controlConnection.calls).toBe(3)
    expect(reported).toEqual(['connection is null', 'connection is null'])
  })

  test('a client that is shut down does not try again', async () => {
    const client = failingClient(9)
    client.controlConnection._isShuttingDown = true
    guardControlConnection(client, () => {})
    await client.controlConnection._refresh()
    await new Promise((resolve) => setTimeout(resolve, 400))
    expect(client.controlConnection.calls).toBe(1)
  })

  test('the method it guards is one of the driver that is installed', () => {
    const client = new cassandra.Client({ contactPoints: ['127.0.0.1'], localDataCenter: 'd' })
    const before = /** @type {any} */ (client).controlConnection._refresh
    guardControlConnection(client, () => {})
    expect(typeof before).toBe('function')
    expect(/** @type {any} */ (client).controlConnection._refresh).not.toBe(before)
  })
})
