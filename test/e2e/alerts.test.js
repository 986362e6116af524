// Alerts are told once, whatever is killed or away: values become alerts, alerts reach a receiver.
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals'
import mqtt from 'mqtt'
import { startReceiver } from '../support/receiver.js'
import { publishAll } from '../support/rest.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

/** @type {import('../support/stack.js').Stack} */
let stack
/** @type {Awaited<ReturnType<typeof startReceiver>>} */
let receiver
let receiverId = ''
let topicId = ''
/** @type {import('mqtt').MqttClient} */
let subscriber
/** @type {any[]} */
const published = []

/** How long the receiver is away at least, in seconds: an hour takes `OUTAGE_S=3600`. */
const OUTAGE_S = Number(process.env.OUTAGE_S ?? 0)

jest.setTimeout(180_000 + OUTAGE_S * 1000)

/** Longer than a process that was killed counts as alive. */
const WAIT = { deadlineMs: 90_000, everyMs: 100 }

beforeAll(async () => {
  receiver = await startReceiver()
  // Two processes that share sensors: requests over HTTP go to either.
  stack = await startStack({ ingestEnv: { SPOOL_AFTER_MS: '4000', INGEST_PROCESSES: '2' } })
  const made = await send('POST', '/v1/receivers', {
    name: 'duty',
    kind: 'webhook',
    url: receiver.url,
  })
  receiverId = made.id
  const topic = { name: 'panel', kind: 'mqtt', topic: 'alerts/panel' }
  topicId = (await send('POST', '/v1/receivers', topic)).id
  subscriber = await mqtt.connectAsync(stack.mqttUrl)
  subscriber.on('message', (_, payload) => published.push(JSON.parse(payload.toString())))
  await subscriber.subscribeAsync('alerts/#', { qos: 1 })
  receiver.answers.secret = made.secret
}, 60_000)
afterAll(async () => {
  await subscriber?.endAsync(true)
  await stack?.end()
  await receiver?.away()
})

/** @param {string} method  @param {string} path  @param {unknown} [body] */
async function send(method, path, body) {
  const response = await fetch(`${stack.apiUrl}${path}`, {
    method,
    headers: body === undefined ? {} : { 'content-type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}

/** A rule that every process knows when this resolves. @param {Record<string, unknown>} rule */
async function makeRule(rule) {
  const made = await send('POST', '/v1/rules', { receivers: [receiverId], ...rule })
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  return made
}

/** No process knows it any more when this resolves. @param {{ id: string }} rule */
async function dropRule({ id }) {
  await send('DELETE', `/v1/rules/${id}`)
  await new Promise((resolve) => setTimeout(resolve, 1_500))
}

/** @param {string} sensor  @param {number} v  @param {number} [t] */
const publish = (sensor, v, t = Date.now()) =>
  publishAll(stack.apiUrl, [{ sensor, metric: 'heat', t, v }])

/** @param {string} sensor */
const toldOf = (sensor) =>
  receiver.taken
    .filter(({ data }) => data.sensor.name === sensor)
    .map(({ type, id }) => ({ type: type.replace('alert.', ''), id }))

/** @param {string} sensor  @param {string} query */
const alertsOf = async (sensor, query = '') =>
  (await getJson(`${stack.apiUrl}/v1/alerts?sensor=${sensor}${query}`)).items

/** @param {string} sensor  @param {string[]} types */
async function told(sensor, types) {
  await until(
    `${sensor} is told: ${types}`,
    () => {
      const list = toldOf(sensor).map(({ type }) => type)
      return JSON.stringify(list) === JSON.stringify(types)
    },
    WAIT,
  )
}

const halfAnOutage = () => new Promise((resolve) => setTimeout(resolve, (OUTAGE_S * 1000) / 2))

test('a value above the limit is told, and that it is right again, once each', async () => {
  const rule = await makeRule({
    name: 'too hot',
    kind: 'threshold',
    metric: 'heat',
    above: 80,
    clear: 75,
    receivers: [receiverId, topicId],
  })
  const t = Date.now()
  await publish('boiler', 70, t)
  await send('PATCH', '/v1/sensors/boiler', { unit: 'Cel' })
  await publish('boiler', 91, t + 1)
  await told('boiler', ['fired'])
  await publish('boiler', 78, t + 2)
  await publish('boiler', 92, t + 3)
  await publish('boiler', 74, t + 4)
  await told('boiler', ['fired', 'resolved'])
  await until('the subscriber heard', () => published.length === 2)
  // Late values change nothing.
  await publish('boiler', 99, t + 2)
  await publish('boiler', 99, t - 5_000)
  await publish('boiler', 60, Date.now())
  const [alert, ...more] = await alertsOf('boiler')
  expect(more).toEqual([])
  expect(alert).toMatchObject({
    state: 'resolved',
    rule: { id: rule.id, name: 'too hot', kind: 'threshold', severity: 'warning' },
    value: 91,
    text: 'heat of boiler is 91 °C, above 80 °C',
    fired: t + 1,
    resolved: t + 4,
    why: 'values',
  })
  const toldTo = (/** @type {string} */ id) =>
    alert.told
      .filter((/** @type {any} */ one) => one.receiver === id)
      .map((/** @type {any} */ one) => [one.change, one.state])
  for (const id of [receiverId, topicId]) {
    expect(toldTo(id)).toEqual([
      ['fired', 'delivered'],
      ['resolved', 'delivered'],
    ])
  }
  const types = published.map(({ type, data }) => [type, data.sensor.name])
  expect(types).toEqual([
    ['alert.fired', 'boiler'],
    ['alert.resolved', 'boiler'],
  ])
  await dropRule(rule)
}, 60_000)

test('a test reaches the receivers of a rule', async () => {
  const rule = { name: 'tested', kind: 'silence', for_s: 3_600, sensors: ['none'] }
  const { id } = await send('POST', '/v1/rules', { ...rule, receivers: [receiverId, topicId] })
  const { notifications } = await send('POST', `/v1/rules/${id}/test`)
  const heard = () => [...receiver.taken, ...published].filter(({ type }) => type === 'alert.test')
  await until('both heard it', () => heard().length === 2)
  expect(new Set(heard().map((one) => one.id))).toEqual(
    new Set(notifications.map((/** @type {any} */ one) => one.id)),
  )
})

test('a rule about a type judges the values that were there before it', async () => {
  await send('POST', '/v1/sensors', { name: 'pump-1', type: 'pump', tags: { site: 'A' } })
  await send('POST', '/v1/sensors', { name: 'pump-2', type: 'pump', tags: { site: 'B' } })
  await publish('pump-1', 99)
  await publish('pump-2', 99)
  const selection = { type: 'pump', tags: { site: 'A' } }
  const rule = await makeRule({
    name: 'pumps',
    kind: 'threshold',
    metric: 'heat',
    above: 80,
    ...selection,
  })
  await told('pump-1', ['fired'])
  expect(await alertsOf('pump-2')).toEqual([])
  // Silenced, an alert is listed and told to nobody; what ends is told to who heard it begin.
  const until = new Date(Date.now() + 3_600_000).toISOString()
  await send('POST', `/v1/rules/${rule.id}/silence`, { until })
  await dropRule(rule)
  await told('pump-1', ['fired', 'resolved'])
  expect((await alertsOf('pump-1'))[0]).toMatchObject({
    state: 'resolved',
    why: 'the rule was deleted',
  })
}, 60_000)

test('the past wakes nobody', async () => {
  const rule = await makeRule({ name: 'past', kind: 'threshold', metric: 'heat', above: 80 })
  const items = Array.from(
    { length: 50 },
    (_, n) => `archive,heat,${Date.now() - (n + 1) * 3_600_000},99`,
  )
  const response = await fetch(`${stack.apiUrl}/v1/import?format=csv`, {
    method: 'POST',
    body: ['sensor,metric,t,v', ...items].join('\n'),
  })
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  await publish('fresh', 99)
  await told('fresh', ['fired'])
  expect(await alertsOf('archive')).toEqual([])
  await dropRule(rule)
}, 60_000)

test('with the receiver away and each part killed meanwhile, every alert is told once', async () => {
  const hot = { kind: 'threshold', metric: 'heat', above: 80 }
  const machines = Array.from({ length: 10 }, (_, n) => `machine-${n}`)
  await makeRule({ ...hot, name: 'hot', sensors: machines })
  await makeRule({ ...hot, name: 'lasting', sensors: ['oven'], for_s: 15 })
  const quiet = { name: 'quiet', kind: 'silence', sensors: ['clock'], for_s: 12 }
  await publish('clock', 1)
  await makeRule(quiet)
  await receiver.away()
  for (const machine of machines) await publish(machine, 91)
  await publish('oven', 95)
  await until(
    'the alerts are there',
    async () => (await getJson(`${stack.apiUrl}/v1/alerts?state=firing`)).items.length >= 10,
    WAIT,
  )
  await halfAnOutage()
  await stack.part('ingest').kill9()
  await stack.databaseAway()
  await stack.part('api').kill9()
  await stack.databaseBack()
  await stack.part('ingest').start()
  await stack.part('api').start()
  await stack.readable()
  for (const machine of machines.slice(0, 5)) await publish(machine, 60)
  await halfAnOutage()
  await receiver.back()
  for (const machine of machines.slice(0, 5)) await told(machine, ['fired', 'resolved'])
  for (const machine of machines.slice(5)) await told(machine, ['fired'])
  await told('oven', ['fired'])
  await told('clock', ['fired'])
  await publish('clock', 2)
  await told('clock', ['fired', 'resolved'])
  const ids = receiver.taken.map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  for (const machine of machines) {
    const [alert, ...more] = await alertsOf(machine)
    const isOver = machines.indexOf(machine) < 5
    expect([machine, more, alert.state]).toEqual([machine, [], isOver ? 'resolved' : 'firing'])
  }
  const { items } = await getJson(`${stack.apiUrl}/v1/receivers`)
  expect(items[0].told).toBeGreaterThan(0)
})
