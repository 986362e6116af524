// Edge nodes of Sparkplug at a broker that exists already, whose messages two processes hear: each
// of them, the broker and the edge nodes are killed; each value that is stored has its name, once.
import mqtt from 'mqtt'
import { areFollowed, EdgeClient, metricOf, publishData, storedOf } from '../support/edge-client.js'
import { Ledger } from '../support/ledger.js'
import { openMosquitto } from '../support/mosquitto.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack, UNSPOOLED } from '../support/stack.js'
import { until } from '../support/until.js'

const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const TEMPLATE = 'spBv1.0/{group}/{type}/{node}[/{device}] in sparkplug-b'

/** Numbers from 0 to 1 that a seed repeats. @param {number} seed */
function seeded(seed) {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

describeWith(missingPrograms(['mosquitto']), 'edge nodes at mosquitto', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {import('../support/mosquitto.js').Mosquitto} */
  let broker
  /** @type {import('../support/part.js').Part[]} */
  let processes
  /** @type {string[]} */
  let urls
  /** @type {EdgeClient[]} */
  let nodes
  const ledger = new Ledger()

  beforeAll(async () => {
    stack = await startStack({ parts: ['engine'] })
    broker = await openMosquitto(stack.directory)
    await broker.start()
    const url = `mqtt://${broker.host}:${broker.port}`
    const own = { TOPIC_TEMPLATES: TEMPLATE, SPARKPLUG_HOST: 'sandglass' }
    const env = { MQTT_URL: url, ...own, ...UNSPOOLED }
    processes = [await stack.addIngest('one', env), await stack.addIngest('two', env)]
    urls = processes.map(({ options }) => new URL('/', options.healthUrl).origin)
    await Promise.all(processes.map((part) => part.start()))
    const random = seeded(SEED)
    nodes = ['line1', 'line2', 'line3'].map((name, at) => {
      const devices = ['press', 'oven'].slice(0, at)
      return new EdgeClient({ url, name, devices, ledger, random })
    })
    await areAllFollowed()
  })
  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.end()))
    await stack?.end()
    await broker?.stop()
  })

  /** By each process that runs. */
  const areAllFollowed = () => Promise.all(urls.map((url) => areFollowed(url, nodes.length)))

  /** Those whose births a process has not heard are asked for them: by their data it knows them. */
  const areAsked = () =>
    until('all are followed', async () => {
      await publishData(nodes, 1, false)
      const online = urls.map((url) => metricOf(url, 'sparkplug_edge_nodes', 'state="online"'))
      return (await Promise.all(online)).every((count) => count === nodes.length)
    })

  async function expectStored() {
    const report = await storedOf(await stack.client(), stack.keyspace, ledger)
    expect({ SEED, ...report }).toMatchObject({ SEED, lost: [], doubled: [], foreign: [] })
  }

  test('are heard by each process, and stored once', async () => {
    await publishData(nodes, 50, true)
    await expectStored()
    const births = await Promise.all(urls.map((url) => metricOf(url, 'sparkplug_births_total')))
    expect(births).toEqual([6, 6])
  })

  test('are asked for their births by a process that was killed', async () => {
    const [one] = processes
    const asked = nodes.map(({ rebirths }) => rebirths)
    await one.kill9()
    await publishData(nodes, 20, true)
    await one.start()
    // It hears data of edge nodes of which it knows nothing.
    await until('all were asked', async () => {
      await publishData(nodes, 1, true)
      return nodes.every(({ rebirths }, at) => rebirths > asked[at])
    })
    await areAllFollowed()
    await publishData(nodes, 20, true)
    await expectStored()
    expect(await metricOf(urls[1], 'sparkplug_gaps_total')).toBe(0)
  })

  test('come again with their births when the broker was killed', async () => {
    const connects = nodes.map((node) => node.connects)
    await broker.kill9()
    await publishData(nodes, 5, false)
    await broker.start()
    await until('all are connected', () => nodes.every((node, at) => node.connects > connects[at]))
    // One that was first to connect may have said its births before we listened: then it is asked.
    await areAsked()
    await publishData(nodes, 20, true)
    await expectStored()
  })

  test('hear that their host is there, whichever process of it dies', async () => {
    const watcher = await mqtt.connectAsync(`mqtt://${broker.host}:${broker.port}`)
    /** @type {boolean[]} */
    const heard = []
    watcher.on('message', (_topic, payload) => heard.push(JSON.parse(payload.toString()).online))
    await watcher.subscribeAsync('spBv1.0/STATE/sandglass', { qos: 1 })
    await until('it is online', () => heard.at(-1) === true)
    const [one, two] = processes
    await one.kill9()
    await until('its will is contradicted', () => heard.includes(false) && heard.at(-1))
    await two.kill9()
    await until('nobody is there', () => heard.at(-1) === false)
    await Promise.all(processes.map((part) => part.start()))
    await until('it is online again', () => heard.at(-1) === true)
    await watcher.endAsync()
    await areAsked()
    await publishData(nodes, 20, true)
    await expectStored()
  })

  test('die and come again, and are followed by their deaths and births', async () => {
    for (const node of nodes) {
      const { connects } = node
      node.cut()
      await until('it is back', () => node.isConnected && node.connects > connects)
      await publishData(nodes, 3, false)
    }
    await areAllFollowed()
    await publishData(nodes, 20, true)
    await expectStored()
  })
})
