import { once } from 'node:events'
import { createServer } from 'node:net'
import { parser } from 'mqtt-packet'
import { Publisher } from './publisher.js'
import { until } from './until.js'
import * as wire from './wire.js'

/**
 * A broker that accepts everybody, notes what it is sent and acknowledges when it is told to.
 */
async function fakeBroker() {
  /** @type {import('mqtt-packet').IPublishPacket[]} */
  const published = []
  /** @type {import('node:net').Socket[]} */
  const sockets = []
  const server = createServer((socket) => {
    sockets.push(socket)
    const packets = parser()
    packets.on('packet', (packet) => {
      if (packet.cmd === 'connect') socket.write(Buffer.from([0x20, 2, 0, 0]))
      if (packet.cmd === 'pingreq') socket.write(Buffer.from([0xd0, 0]))
      if (packet.cmd === 'publish') published.push(packet)
    })
    socket.on('data', (chunk) => packets.parse(chunk))
    socket.on('error', () => {})
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  return {
    port,
    published,
    sockets,
    /** @param {number} id */
    acknowledge: (id) =>
      sockets.at(-1)?.write(Buffer.from([wire.TYPE.puback << 4, 2, id >> 8, id])),
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

describe('Publisher', () => {
  /** @type {Awaited<ReturnType<typeof fakeBroker>>} */
  let broker
  /** @type {Publisher} */
  let publisher

  beforeEach(async () => {
    broker = await fakeBroker()
    publisher = new Publisher({
      host: '127.0.0.1',
      port: broker.port,
      clientId: 'p',
      inFlightMax: 2,
      keepAliveS: 1,
    })
    await publisher.open()
  })
  afterEach(async () => {
    await publisher.close()
    broker.close()
  })

  test('keeps to its limit of messages in flight, and keeps its promise at the PUBACK', async () => {
    const first = publisher.publish('t', '1')
    void publisher.publish('t', '2')
    void publisher.publish('t', '3')
    await until('two messages are sent', () => broker.published.length === 2)
    expect(publisher.pending).toBe(3)
    broker.acknowledge(1)
    await first
    await until('the third follows', () => broker.published.length === 3)
    expect(publisher.acknowledged).toBe(1)
  })

  test('sends again what was not acknowledged, marked as a duplicate', async () => {
    const first = publisher.publish('t', '1')
    const second = publisher.publish('t', '2')
    await until('two messages are sent', () => broker.published.length === 2)
    broker.acknowledge(1)
    await first
    broker.sockets[0].destroy()
    await until('the second is sent again', () => broker.published.length === 3)
    const { messageId, dup, payload } = broker.published[2]
    expect({ messageId, dup, payload: String(payload) }).toEqual({
      messageId: 2,
      dup: true,
      payload: '2',
    })
    expect(publisher.disconnects).toBe(1)
    broker.acknowledge(2)
    await second
  })

  test('is answered when it pings', async () => {
    await until('a PINGRESP', () => publisher.pongs > 0)
  })
})
