// Who else needs to know which topics carry measurements hears of decoders: the broker that exists
// already, which is asked for them. (That of several processes: `processes.test.js`.)
import { parseTopics } from '@sandglass/common/topics'
import pino from 'pino'
import { Sessions } from '../src/broker/sessions.js'
import { followDecoders } from '../src/decoder-followers.js'
import { KnownDecoders } from '../src/decoders/known.js'
import { External } from '../src/external/external.js'
import { MemoryBudget } from '../src/memory.js'
import { until } from './support/ingest.js'
import { RawBroker } from './support/raw-broker.js'

const logger = pino({ level: 'silent' })
const OWN = { name: 'own', version: 1, template: 'hall/{sensor}', expression: '$', changedMs: 0 }

/** @type {RawBroker} */
let broker
/** @type {External} */
let external
/** @type {KnownDecoders} */
let known

beforeEach(async () => {
  broker = new RawBroker()
  await broker.start()
  const topics = parseTopics('')
  known = new KnownDecoders({ topics, lineTopic: 'lines', logger })
  const { sessions } = new MemoryBudget().shares
  external = new External({
    sink: { accept() {}, idle: async () => {}, isFull: false, senderBytesMax: 1, onRoom() {} },
    session: new Sessions({ share: sessions }).create(undefined, 'broker', 0),
    client: broker.clientOptions,
    options: { share: 'group', topics, lineTopic: 'lines' },
    logger,
  })
  followDecoders(known, { external })
})
afterEach(async () => {
  await external.stop(0)
  broker.stop()
})

/** Filters of a packet. @param {any} packet @returns {string[]} */
const filtersOf = ({ subscriptions }) =>
  subscriptions.map((/** @type {{ topic: string }} */ { topic }) => topic)

test('a broker is asked for the topics of a decoder once there is one, and then no more', async () => {
  external.start()
  const connection = await broker.subscribed()
  await until(() => external.isConnected)
  known.take({ revision: 1, set: [{ ...OWN, reads: 'json' }] })
  await until(() => connection.of('subscribe').length === 2)
  expect(filtersOf(connection.of('subscribe')[0])).not.toContain('$share/group/hall/+')
  expect(filtersOf(connection.of('subscribe')[1])).toContain('$share/group/hall/+')
  expect(connection.of('unsubscribe')).toEqual([])
  known.take({ revision: 2, set: [] })
  await until(() => connection.of('unsubscribe').length === 1)
  expect(connection.of('unsubscribe')[0].unsubscriptions).toEqual(['$share/group/hall/+'])
})

test('those that are known before there is a connection are asked for with it', async () => {
  known.take({ revision: 1, set: [{ ...OWN, reads: 'json' }] })
  external.start()
  const connection = await broker.subscribed()
  expect(filtersOf(connection.of('subscribe')[0])).toContain('$share/group/hall/+')
})
