// Decoders over HTTP: what is taken and refused, and what `/v1/decode` says of payloads that are
// for them.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { bareEnvelope, writeEnvelope } from '@sandglass/common/expressions/envelope'
import { parseTopics } from '@sandglass/common/topics'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { fakeDecoders } from './support/fake-decoders.js'
import { createFakeStore, NO_KEYS } from './support/fake-store.js'

const ID = 'f6f2b5e0-c8a1-11f0-8000-000000000001'
const letters = [
  {
    id: ID,
    receivedMs: Date.now(),
    topic: 'plant/a/b',
    client: 'c',
    reason: 'why',
    payload: writeEnvelope(
      bareEnvelope({ decoder: 'plant', version: 3, original: Buffer.from('{"x":1}') }),
    ),
    format: 40,
    replayedMs: undefined,
  },
]
const decoders = fakeDecoders()
const store = { ...createFakeStore({ letters }), decoders }

/** @type {import('fastify').FastifyInstance} */
let app
beforeAll(async () => {
  app = await buildApp({
    store,
    isDatabaseUp: () => true,
    ingest: /** @type {any} */ ({}),
    registry: new Registry(),
    topics: parseTopics('zigbee2mqtt/{sensor} in zigbee2mqtt'),
    lineTopic: 'telegraf',
    limits: { requestsPerS: 0, bodyBytesMax: 1_048_576, importBytesMax: 1e6, streamsMax: 2 },
    isLoopback: true,
    ...NO_KEYS,
  })
})
afterAll(() => app.close())

/** @param {any} method  @param {string} url  @param {any} [body]  @param {string} [type] */
async function send(method, url, body, type) {
  const headers = { host: '127.0.0.1:8080', ...(type && { 'content-type': type }) }
  const response = await app.inject({ method, url, headers, payload: body })
  return { status: response.statusCode, body: response.body === '' ? undefined : response.json() }
}

const PLANT = {
  template: 'plant/{area}/{sensor}',
  expression: '{"t": at, "temperature": temp / 10}',
}

test('a decoder is made, changed with another version, listed and deleted', async () => {
  const made = await send('PUT', '/v1/decoders/plant', PLANT)
  expect([made.status, made.body]).toEqual([
    201,
    {
      name: 'plant',
      ...PLANT,
      reads: 'json',
      version: 1,
      changed: expect.any(Number),
      refused: null,
    },
  ])
  const put = await send('PUT', '/v1/decoders/plant', { ...PLANT, reads: 'cbor' })
  expect([put.status, put.body]).toMatchObject([200, { reads: 'cbor', version: 2 }])
  expect((await send('GET', '/v1/decoders')).body.items).toEqual([put.body])
  expect((await send('GET', '/v1/decoders/plant')).body).toEqual(put.body)
  expect((await send('DELETE', '/v1/decoders/plant')).status).toBe(204)
  for (const method of ['GET', 'DELETE']) {
    const { status, body } = await send(method, '/v1/decoders/plant')
    expect([method, status, body.type]).toEqual([
      method,
      404,
      'urn:sandglass:problem:unknown-decoder',
    ])
  }
  // What is made anew under its name is of no version that there was.
  expect((await send('PUT', '/v1/decoders/plant', PLANT)).body.version).toBe(4)
})

test('what is wrong is named, and nothing of it is kept', async () => {
  await send('PUT', '/v1/decoders/plant', PLANT)
  /** @type {[object, string, string][]} */
  const table = [
    [{ expression: '{"a": ' }, 'expression', 'at character'],
    [{ expression: '$now()' }, 'expression', '$now is refused'],
    [{ expression: '$match(a, /(?=b)/)' }, 'expression', '(?='],
    [{ expression: `"${'ü'.repeat(8_200)}"` }, 'expression', '16384 bytes'],
    [{ template: '{a}/b' }, 'template', 'first level'],
    [{ template: 'other/{sensor} in json' }, 'template', 'no format'],
    [{ template: 'sensors/{sensor}' }, 'template', 'means something already'],
    [{ template: 'telegraf/{sensor}' }, 'template', 'telegraf'],
    [{ template: 'desired/{sensor}' }, 'template', 'desired'],
    [{ template: 'zigbee2mqtt/{sensor}' }, 'template', 'zigbee2mqtt/{sensor}'],
    [{ template: 'plant/hall/{sensor}' }, 'template', 'plant/{area}/{sensor}'],
    [{ reads: 'xml' }, 'reads', ''],
    [{ surprise: 1 }, 'surprise', ''],
  ]
  for (const [change, parameter, text] of table) {
    const { status, body } = await send('PUT', '/v1/decoders/other', {
      ...PLANT,
      template: 'other/{sensor}',
      ...change,
    })
    expect([change, status, body.parameter]).toEqual([change, 400, parameter])
    expect(body.detail).toContain(text)
  }
  expect((await send('PUT', '/v1/decoders/-x', PLANT)).status).toBe(400)
  expect(
    (await send('GET', '/v1/decoders')).body.items.map((/** @type {any} */ d) => d.name),
  ).toEqual(['plant'])
})

test('two that are made at once for the same topics do not both come about', async () => {
  const made = await Promise.all(
    ['one', 'two'].map((name) =>
      send('PUT', `/v1/decoders/${name}`, { ...PLANT, template: 'same/{sensor}' }),
    ),
  )
  expect(made.map(({ status }) => status).sort()).toEqual([201, 400])
  // Both had read the same before one of them wrote.
  let isFirst = true
  decoders.hook.beforeWrite = async () => {
    if (!isFirst) return
    isFirst = false
    await send('PUT', '/v1/decoders/third', { ...PLANT, template: 'again/{sensor}' })
  }
  const late = await send('PUT', '/v1/decoders/fourth', {
    ...PLANT,
    template: 'again/{x}/{sensor}',
  })
  const clash = await send('PUT', '/v1/decoders/fifth', { ...PLANT, template: 'again/{sensor}' })
  expect([isFirst, late.status, clash.status]).toEqual([false, 201, 400])
  const names = (await send('GET', '/v1/decoders')).body.items.map((/** @type {any} */ d) => d.name)
  expect(names.slice(-2)).toEqual(['third', 'fourth'])
})

test('an expression is tried on a payload before it is saved', async () => {
  const draft = { ...PLANT, topic: 'plant/hall/boiler', payload: '{"at":1767225600000,"temp":215}' }
  const { status, body } = await send('POST', '/v1/decode/expression', draft)
  expect([status, body.items]).toMatchObject([
    200,
    [{ sensor: 'boiler', metric: 'temperature', t: 1767225600000, kind: 'number', v: 21.5 }],
  ])
  const refusal = async (/** @type {object} */ change) =>
    (await send('POST', '/v1/decode/expression', { ...draft, ...change })).body
  expect((await refusal({ payload: '{' })).refused[0].reason).toContain('this is not JSON')
  expect((await refusal({ expression: '{' })).refused[0].reason).toContain('at character')
  expect((await refusal({ expression: 'nothing' })).refused[0].reason).toContain('gives nothing')
  expect((await refusal({ expression: '{"a": 1, "b": []}' })).refused_fields).toMatchObject([
    { item: 0, field: 'b' },
  ])
  expect((await refusal({ topic: 'other/a' })).parameter).toBe('topic')
  expect((await refusal({ template: '{a}' })).parameter).toBe('template')
  expect(await refusal({ expression: 'null' })).toEqual({
    items: [],
    refused: [],
    refused_fields: [],
    item_count: 0,
    refused_count: 0,
    refused_field_count: 0,
  })
  const bytes = { encoding: 'base64', payload: 'CGY=', reads: 'bytes' }
  const word = await refusal({ ...bytes, expression: '{"v": ($[0] * 256 + $[1]) / 100}' })
  expect(word.items).toMatchObject([{ metric: 'v', v: 21.5 }])
  const named = { topic: undefined, template: undefined, expression: '{"sensor": "x", "a": 1}' }
  expect((await refusal(named)).items).toMatchObject([{ sensor: 'x', metric: 'a', v: 1 }])
})

test('what is saved is what its topic, and its name, are decoded by', async () => {
  await send('PUT', '/v1/decoders/plant', PLANT)
  const byTopic = await send('POST', '/v1/decode?topic=plant/hall/b', '{"temp": 200}', 'text/plain')
  expect(byTopic.body.items).toMatchObject([{ sensor: 'b', metric: 'temperature', t: null, v: 20 }])
  const failed = await send('POST', '/v1/decode?topic=plant/hall/b', '{"temp": "x"}', 'text/plain')
  expect(failed.body.refused[0].reason).toMatch(/^decoder plant, version \d+: the expression fails/)
  const byName = await send('POST', '/v1/decode?decoder=plant', '{"temp": 200}', 'text/plain')
  expect(byName.body.refused[0].reason).toContain('names a sensor')
  const unknown = await send('POST', '/v1/decode?decoder=nobody', '{}', 'text/plain')
  expect(unknown.body.refused[0]).toMatchObject({
    reason: expect.stringContaining('there is no decoder nobody'),
    advice: 'Make a decoder named nobody, then replay the message.',
  })
  const comma = await send('POST', '/v1/decode?topic=sensors/a/b', '21,5', 'text/plain')
  expect(comma.body.refused[0].advice).toBe('Write the decimal with a point: 21.5 instead of 21,5.')
})

test('a dead letter shows what arrived, and who decoded it', async () => {
  const { body } = await send('GET', '/v1/dead-letters')
  expect(body.items).toMatchObject([
    { payload: '{"x":1}', encoding: 'utf8', format: 'expression', decoder: 'plant' },
  ])
})
