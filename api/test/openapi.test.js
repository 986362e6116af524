// The description of the interface, from which programs are generated.
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { CODES } from '@sandglass/common/problem'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { createFakeStore, NO_KEYS } from './support/fake-store.js'

/** @typedef {Record<string, any>} Json */

/** What needs no key; a claim key is none. */
const KEYLESS = new Set(['get /health', 'get /ready', 'post /v1/claim'])

/** What a key of whatever scope may ask. */
const ANY_SCOPE = new Set(['get /v1/access'])

/** What says all by its address. */
const BODILESS = new Set([
  'post /v1/claim',
  'post /v1/claims/{id}/reset',
  'post /v1/receivers/{receiver}/test',
  'post /v1/rules/{rule}/test',
])

/** @param {boolean} requireKeys */
const build = (requireKeys) =>
  buildApp({
    store: createFakeStore(),
    isDatabaseUp: () => true,
    ingest: /** @type {any} */ ({}),
    registry: new Registry(),
    limits: { requestsPerS: 0, bodyBytesMax: 1e6, importBytesMax: 1e6, streamsMax: 1 },
    isLoopback: true,
    ...NO_KEYS,
    requireKeys,
  })

describe.each([true, false])('the description (keys are asked for: %p)', (requireKeys) => {
  /** @type {Awaited<ReturnType<typeof build>>} */
  let app
  /** @type {Json} */
  let document
  /** @type {(Json & { name: string })[]} */
  let operations

  beforeAll(async () => {
    app = await build(requireKeys)
    document = (await app.inject({ url: '/openapi.json', headers: { host: 'localhost' } })).json()
    operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(/** @type {Json} */ (methods)).map(([method, operation]) => ({
        name: `${method} ${path}`,
        ...operation,
      })),
    )
  })
  afterAll(() => app.close())

  test('leads from what makes a thing to all that is done with it, by its id', () => {
    const byId = new Map(operations.map((one) => [one.operationId, one]))
    const of = (/** @type {string} */ id) => byId.get(id)?.responses['201'].links
    expect(of('createRule')).toEqual(
      Object.fromEntries(
        ['getRule', 'replaceRule', 'deleteRule', 'silenceRule', 'testRule'].map((operationId) => [
          operationId,
          { operationId, parameters: { 'path.rule': '$response.body#/id' } },
        ]),
      ),
    )
    expect(Object.keys(of('createReceiver'))).toContain('testReceiver')
    expect(Object.keys(of('createSensor'))).toContain('listMeasurements')
    expect(Object.keys(of('createKey'))).toEqual(['revokeKey'])
  })

  test('is OpenAPI 3.1, where null is a type', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(JSON.stringify(document)).not.toContain('"nullable"')
    const { created, type } = document.components.schemas.Sensor.properties
    expect([created.type, type.type]).toEqual([
      ['integer', 'null'],
      ['string', 'null'],
    ])
  })

  test('names every operation, and no two alike', () => {
    expect(operations.length).toBeGreaterThan(35)
    expect(operations.filter(({ operationId, summary }) => !operationId || !summary)).toEqual([])
    const ids = operations.map(({ operationId }) => operationId)
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([])
    const known = document.tags.map((/** @type {Json} */ { name }) => name)
    expect(operations.filter(({ tags }) => !known.includes(tags[0]))).toEqual([])
  })

  test('says what each takes and answers, also when it fails', () => {
    for (const { name, requestBody, responses } of operations) {
      const good = Object.keys(responses).filter((status) => status.startsWith('2'))
      expect([name, good.length > 0]).toEqual([name, true])
      expect([name, Object.keys(responses)]).toEqual([name, expect.arrayContaining(['4XX', '5XX'])])
      expect([name, JSON.stringify(responses).includes('Default Response')]).toEqual([name, false])
      const takesBody = /^(post|put|patch) /.test(name) && !BODILESS.has(name)
      expect([name, requestBody !== undefined]).toEqual([name, takesBody])
    }
  })

  test('says which scope of a key each needs', () => {
    for (const { name, security } of operations) {
      const scopes = security.flatMap((/** @type {Json} */ { key }) => key ?? [])
      const isOpen = KEYLESS.has(name)
      expect([name, scopes.length]).toEqual([name, isOpen || ANY_SCOPE.has(name) ? 0 : 1])
      expect([name, security.some((/** @type {Json} */ one) => 'key' in one)]).toEqual([
        name,
        !isOpen,
      ])
      const mayBeAnybody = security.some((/** @type {Json} */ one) => Object.keys(one).length === 0)
      expect([name, mayBeAnybody]).toEqual([name, !isOpen && !requireKeys])
    }
    const keys = operations.find(({ name }) => name === 'post /v1/keys')
    expect(keys?.security).toContainEqual({ key: ['admin'] })
  })

  test('has each thing once, and uses it', () => {
    const text = JSON.stringify(document.paths)
    for (const name of Object.keys(document.components.schemas)) {
      expect([name, text.includes(`"#/components/schemas/${name}"`)]).toEqual([name, true])
    }
    const types = document.components.schemas.Problem.properties.type.enum
    expect(types).toEqual(Object.keys(CODES).map((code) => `urn:sandglass:problem:${code}`))
  })
})

test('the description is written once, and packed once', async () => {
  const app = await build(false)
  const swagger = jest.spyOn(app, 'swagger')
  const ask = async (/** @type {Record<string, string>} */ headers) => {
    const { rawPayload, headers: answered } = await app.inject({
      url: '/openapi.json',
      headers: { host: 'localhost', ...headers },
    })
    return { rawPayload, encoding: answered['content-encoding'] }
  }
  const plain = await ask({})
  const packed = await ask({ 'accept-encoding': 'deflate, gzip' })
  expect([plain.encoding, packed.encoding]).toEqual([undefined, 'gzip'])
  expect(gunzipSync(packed.rawPayload)).toEqual(plain.rawPayload)
  for (const other of ['gzip;q=0', 'deflate']) {
    expect((await ask({ 'accept-encoding': other })).encoding).toBeUndefined()
  }
  expect(swagger).toHaveBeenCalledTimes(1)
  await app.close()
})
