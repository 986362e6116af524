// Formats of people's own, over the whole platform with two processes of ingest: what `/v1/decode`
// says is what is stored, whichever process took it; and what was acknowledged is decoded by the
// decoder that there was then, whoever is killed and whatever is changed or deleted meanwhile.
import { readFileSync } from 'node:fs'
import { sensorId } from '@sandglass/common/sensor'
import mqtt from 'mqtt'
import { SPOOLED_LATE, startStack } from '../support/stack.js'
import { getJson, scanMeasurements } from '../support/stored.js'
import { until } from '../support/until.js'

const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const T = 1_767_225_600_000
const JSON_TYPE = { 'content-type': 'application/json' }
/** Longer than any process takes to hear of a change. */
const HEARD_MS = 2_500

/** @param {number} seed */
function randomOf(seed) {
  let state = seed
  return (/** @type {number} */ below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const EXPRESSIONS = [
  '{"t": t, "heat": heat / 10, "on": on, "name": name}',
  '$merge([{"t": t}, d.{k: r}])',
  '$exists(id) ? {"sensor": id, "t": t, "heat": heat} : {"t": t, "heat": heat}',
  'heat > 100 ? null : {"t": t, "v": {"deep": {"er": heat}}, "list": d.r}',
  '{"t": t, "a": $number(name), "b": $sum(d.r), "c": $string($), "z": 1/0}',
  '{"t": t, "n": $number($match(name, /(\\d+)/)[0].match)}',
]

const PAYLOADS = [
  { t: T, heat: 215, on: true, name: '12x34' },
  {
    t: T,
    heat: 21,
    d: [
      { k: 'a', r: 1 },
      { k: 'b', r: 2.5 },
    ],
  },
  {
    t: T,
    heat: 9,
    d: [
      { k: 'a', r: [1] },
      { k: '', r: 2 },
    ],
    id: 'named',
  },
  { heat: 'hot', id: 'a/b' },
  { t: 'never', heat: 1, name: '7' },
  [1, 2, 3],
  'text',
  {},
].map((payload) => Buffer.from(JSON.stringify(payload)))

describe('formats of your own', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {mqtt.MqttClient[]} */
  const clients = []

  beforeAll(async () => {
    stack = await startStack({ ingestEnv: { INGEST_PROCESSES: '2', ...SPOOLED_LATE } })
  })
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.endAsync(true)))
    await stack?.end()
  })

  /** @param {string} clientId */
  async function connect(clientId) {
    const client = mqtt.connect(stack.mqttUrl, { clientId, reconnectPeriod: 100, clean: false })
    clients.push(client)
    await until('it is connected', () => client.connected)
    return client
  }

  /** @param {string} name  @param {string} template  @param {string} expression */
  async function put(name, template, expression) {
    const response = await fetch(`${stack.apiUrl}/v1/decoders/${name}`, {
      method: 'PUT',
      headers: JSON_TYPE,
      body: JSON.stringify({ template, expression }),
    })
    if (!response.ok) throw new Error(await response.text())
  }

  const heard = () => new Promise((resolve) => setTimeout(resolve, HEARD_MS))

  /** @param {string} name  @param {number} [count] */
  async function rowsOf(name, count) {
    const id = sensorId(name)
    const read = async () =>
      (await scanMeasurements(await stack.client(), stack.keyspace)).filter(
        (row) => row.sensorId === id,
      )
    if (count !== undefined) {
      await until(`${count} rows of ${name}`, async () => (await read()).length >= count)
    }
    return (await read()).map(({ metric, timeMs, value }) => [metric, timeMs, value]).sort()
  }

  /** @param {string} topic */
  const lettersOf = async (topic) =>
    (await getJson(`${stack.apiUrl}/v1/dead-letters?limit=1000`)).items.filter(
      (/** @type {any} */ letter) => letter.topic === topic,
    )

  /** @param {string[]} ids */
  async function replay(ids) {
    const response = await fetch(`${stack.apiUrl}/v1/dead-letters/replay`, {
      method: 'POST',
      headers: JSON_TYPE,
      body: JSON.stringify({ ids }),
    })
    return /** @type {Promise<any>} */ (response.json())
  }

  test('become what /v1/decode says, saved or not, in every process', async () => {
    const random = randomOf(SEED)
    for (const [at, expression] of EXPRESSIONS.entries()) {
      await put(`own${at}`, `own${at}/{sensor}`, expression)
    }
    await heard()
    const publishers = await Promise.all(['a', 'b', 'c', 'd'].map(connect))
    /** @type {Map<string, any>} */
    const said = new Map()
    for (const [at, expression] of EXPRESSIONS.entries()) {
      for (const [which, whole] of PAYLOADS.entries()) {
        const broken = Buffer.from(whole)
        broken[random(broken.length)] = random(256)
        for (const [variant, payload] of [whole, broken].entries()) {
          const topic = `own${at}/s${at}-${which}-${variant}`
          const response = await fetch(
            `${stack.apiUrl}/v1/decode?topic=${encodeURIComponent(topic)}`,
            {
              method: 'POST',
              headers: { 'content-type': 'application/octet-stream' },
              body: new Uint8Array(payload),
            },
          )
          const saved = /** @type {any} */ (await response.json())
          const tried = await fetch(`${stack.apiUrl}/v1/decode/expression`, {
            method: 'POST',
            headers: JSON_TYPE,
            body: JSON.stringify({
              template: `own${at}/{sensor}`,
              expression,
              topic,
              payload: payload.toString('base64'),
              encoding: 'base64',
            }),
          })
          const draft = /** @type {any} */ (await tried.json())
          expect([SEED, topic, draft.items]).toEqual([SEED, topic, saved.items])
          const own = /^decoder own\d, version \d+: /
          expect([SEED, topic, draft.refused]).toEqual([
            SEED,
            topic,
            saved.refused.map((/** @type {any} */ { item, reason }) => ({
              item,
              reason: reason.replace(own, ''),
              // A draft is no decoder that could be opened.
              advice: null,
            })),
          ])
          said.set(topic, saved)
          await publishers[random(4)].publishAsync(topic, payload, { qos: 1 })
        }
      }
    }
    await stack.emptied()
    const rows = await scanMeasurements(await stack.client(), stack.keyspace)
    const line = (/** @type {any} */ id, /** @type {any} */ metric, /** @type {any} */ value) =>
      JSON.stringify([id, metric, String(value)])
    const expected = [...said.values()].flatMap(({ items }) =>
      items.map((/** @type {any} */ { id, metric, v }) => line(id, metric, v)),
    )
    expect(expected.length).toBeGreaterThan(20)
    const stored = rows.map(({ sensorId: id, metric, value }) => line(id, metric, value))
    expect([SEED, [...new Set(stored)].sort()]).toEqual([SEED, [...new Set(expected)].sort()])
    for (const [topic, { refused, refused_fields: fields }] of said) {
      const [letter] = await lettersOf(topic)
      const isExpected = refused.length > 0 || fields.length > 0
      expect([SEED, topic, letter !== undefined]).toEqual([SEED, topic, isExpected])
      if (refused.length > 0) expect([topic, letter.reason]).toEqual([topic, refused[0].reason])
    }
  })

  test('are what they were when the message came, without the database, after kills and deletion', async () => {
    await put('kept', 'kept/{sensor}', '{"t": t, "heat": $number(heat) / 10}')
    await heard()
    const publisher = await connect('kept')
    await publisher.publishAsync('kept/k', `{"t": ${T}, "heat": 1}`, { qos: 1 })
    await stack.databaseAway()
    const count = 200
    for (let at = 1; at <= count; at++) {
      const heat = at === 7 ? '"hot"' : at
      await publisher.publishAsync('kept/k', `{"t": ${T + at}, "heat": ${heat}}`, { qos: 1 })
    }
    // It starts again without the database, and knows its decoders from the file.
    await stack.part('ingest').kill9()
    const file = readFileSync(`${stack.directory}/spool/DECODERS`, 'utf8')
    expect(file).toContain('kept/{sensor}')
    const started = stack.part('ingest').start()
    await until('it takes messages', () => publisher.connected)
    await publisher.publishAsync('kept/k', `{"t": ${T + count + 1}, "heat": 5}`, { qos: 1 })
    await stack.databaseBack()
    await started
    await stack.readable()
    await fetch(`${stack.apiUrl}/v1/decoders/kept`, { method: 'DELETE' })
    await stack.emptied()
    await heard()
    const rows = await rowsOf('k', count + 1)
    expect(rows).toEqual(
      Array.from({ length: count + 2 }, (_, at) => [
        'heat',
        T + at,
        at === count + 1 ? 0.5 : 0.1 * at,
      ])
        .map(([metric, t, v]) => [metric, t, t === T ? 0.1 : Number(v)])
        .filter(([, t]) => t !== T + 7)
        .map(([metric, t, v]) => [metric, t, expect.closeTo(Number(v), 9)])
        .sort(),
    )
    const [letter] = await lettersOf('kept/k')
    expect(letter).toMatchObject({
      decoder: 'kept',
      format: 'expression',
      payload: `{"t": ${T + 7}, "heat": "hot"}`,
    })
    expect((await replay([letter.id])).refused[0].reason).toContain('no decoder kept')
    await put('kept', 'kept/{sensor}', '{"t": t, "text": heat}')
    await heard()
    expect(await replay([letter.id])).toMatchObject({ replayed: 1, refused: [] })
    expect(await rowsOf('k', count + 2)).toContainEqual(['text', T + 7, 'hot'])
  })

  test('stop nobody: a payload that takes too long is a dead letter', async () => {
    // Seconds on any machine.
    const sum = Array(20).fill('$count($distinct(a))').join(' + ')
    await put('slow', 'slow/{sensor}', `{"n": ${sum}}`)
    await heard()
    const [attacker, other] = await Promise.all(['attacker', 'other'].map(connect))
    const a = JSON.stringify({ a: Array.from({ length: 40_000 }, (_, at) => at) })
    let isSlowDone = false
    const slow = Promise.all(
      [1, 2, 3, 4].map(() => attacker.publishAsync('slow/x', a, { qos: 1 })),
    ).then(() => {
      isSlowDone = true
    })
    await other.publishAsync('sensors/quick/v', '1', { qos: 1 })
    expect(isSlowDone).toBe(false)
    await slow
    const reasons = (await lettersOf('slow/x')).map((/** @type {any} */ { reason }) => reason)
    expect(reasons).toHaveLength(4)
    expect(reasons.filter((/** @type {string} */ reason) => /500 ms/.test(reason))).toHaveLength(3)
  })

  test('are taken over HTTP, too', async () => {
    await put('hook', 'hook/{sensor}', '{"sensor": device.name, "t": t, "heat": reading}')
    await heard()
    const body = JSON.stringify({ device: { name: 'webhook' }, t: T, reading: 3 })
    const response = await fetch(`${stack.apiUrl}/v1/measurements?decoder=hook`, {
      method: 'POST',
      headers: JSON_TYPE,
      body,
    })
    expect([response.status, await response.json()]).toMatchObject([200, { stored: 1 }])
    expect(await rowsOf('webhook', 1)).toEqual([['heat', T, 3]])
  })
})
