// Many clients at once: several are let in in each turn of the event loop, by as many doors.
import { EventEmitter } from 'node:events'
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { openDoors } from '../src/broker/entrance/doors.js'
import { createIdentity } from './support/identity.js'
import { pause, RawClient, startIngest, until } from './support/ingest.js'

const DOORS = 8
const MANY = 400

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
/** @type {{ destroy: () => void }[]} */
let sockets = []

/**
 * @param {Parameters<typeof startIngest>[0]} [limits]
 * @param {Parameters<typeof startIngest>[1]} [more]
 */
async function start(limits, more) {
  ingest = await startIngest(limits, { doors: DOORS, ...more })
  await until(() => ingest.server.newcomers.doors === DOORS)
}

/** @param {number} count  @returns {import('node:net').Socket[]} */
function connectAtOnce(count, port = ingest.port) {
  const some = Array.from({ length: count }, () => connect(port, '127.0.0.1'))
  for (const one of some) one.on('error', () => {})
  sockets.push(...some)
  return some
}

/** @param {() => boolean} holds  @returns {Promise<number>}  Turns until then. */
async function turnsUntil(holds) {
  let turns = 0
  for (; !holds() && turns < 100 * MANY; turns++)
    await new Promise((resolve) => setImmediate(resolve))
  return turns
}

afterEach(async () => {
  for (const one of sockets) one.destroy()
  sockets = []
  await ingest.stop()
})

test('of those who wait, each door lets in one in a turn', async () => {
  await start({ connectionsMax: 2 * MANY })
  connectAtOnce(MANY)
  const turns = await turnsUntil(() => ingest.server.connectionCount === MANY)
  expect(turns).toBeLessThan((2 * MANY) / DOORS)
})

test('who comes in by a door is served like others', async () => {
  await start({ connectionsMax: 2 * MANY })
  const clients = Array.from({ length: MANY }, () => new RawClient(ingest.port))
  sockets.push(...clients.map(({ socket }) => socket))
  clients.forEach((one, n) => {
    one.send({ cmd: 'connect', clientId: `c-${n}`, protocolVersion: 4, clean: true })
    one.publish(1, { topic: `sensors/s-${n}/m` })
  })
  await until(() => clients.every((one) => one.ids('puback').length === 1))
  expect(ingest.storage.rowsOf('measurement_30d')).toHaveLength(MANY)
})

test('by whichever door they come, there are no more connections than allowed', async () => {
  await start({ connectionsMax: 20 })
  const some = connectAtOnce(50)
  let closed = 0
  for (const one of some) one.on('close', () => closed++).resume()
  await until(() => closed === 30)
  expect(ingest.server.connectionCount).toBe(20)
  expect(ingest.server.refused).toBe(30)
})

test('there are doors for those who come with TLS', async () => {
  const identity = createIdentity()
  const listens = [{ kind: /** @type {const} */ ('mqtts'), listen: { host: '127.0.0.1', port: 0 } }]
  await start({}, { listens, identity })
  const { port } = ingest
  const some = Array.from({ length: 3 * DOORS }, () =>
    connectTls({ port, host: '127.0.0.1', ca: identity.cert }),
  )
  sockets.push(...some)
  await until(() => ingest.server.connectionCount === some.length)
  expect(some.every(({ authorized }) => authorized)).toBe(true)
})

test('when it stops, no door is left open', async () => {
  await start()
  await ingest.stop()
  const [late] = connectAtOnce(1)
  const error = await new Promise((resolve) => late.once('error', resolve).once('connect', resolve))
  expect(error).toMatchObject({ code: 'ECONNREFUSED' })
  await start()
})

test('it may stop whenever the doors are being opened, and nobody has the port then', async () => {
  for (const afterMs of [0, 30, 60, 90, 120, 150]) {
    ingest = await startIngest({}, { doors: DOORS })
    await pause(afterMs)
    await ingest.stop()
    const [late] = connectAtOnce(1)
    const error = await new Promise((resolve) =>
      late.once('error', resolve).once('connect', resolve),
    )
    expect(error).toMatchObject({ code: 'ECONNREFUSED' })
  }
  await start()
})

test('a handle that comes after the stop does not become a door', async () => {
  await start()
  const helper = Object.assign(new EventEmitter(), { send() {}, kill() {} })
  const server = /** @type {any} */ ({ _handle: undefined })
  const doors = openDoors(server, { count: 1, backlog: 1, helper: /** @type {any} */ (helper) })
  const late = { isClosed: false, close: () => Object.assign(late, { isClosed: true }) }
  const stopped = doors.stop()
  helper.emit('message', {}, late)
  helper.emit('close', null, 'SIGKILL')
  await stopped
  await doors.opened
  expect(late.isClosed).toBe(true)
  expect(doors.servers).toEqual([])
})

test('where no doors can be had, that is told', async () => {
  await start()
  const doors = openDoors(/** @type {any} */ ({ _handle: undefined }), { count: 2, backlog: 1 })
  await expect(doors.opened).rejects.toThrow('after 0')
})
