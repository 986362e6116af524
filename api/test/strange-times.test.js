// A strange time means at `/v1/decode` what it means where messages are stored. An import, which is
// strict, refuses for the same reason what ingest would not store whole.
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { strangeTimes, T } from '@sandglass/common/test/formats/strange-times'
import { parseTopics } from '@sandglass/common/topics'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { ndjsonRecords } from '../src/import/records.js'
import { understand } from '../src/import/understand.js'
import { createFakeStore, NO_KEYS } from './support/fake-store.js'

// `/v1/decode` takes no payloads that were evaluated already.
const TABLE = strangeTimes().filter(({ format }) => !format.isEvaluated)
const NAMES = [...new Set(TABLE.map(({ format }) => format.name))]
const HOST = { host: '127.0.0.1:8080' }

/** @type {import('fastify').FastifyInstance} */
let app
beforeAll(async () => {
  const templates = NAMES.filter((name) => name !== 'line-protocol').map((name) =>
    name === 'sparkplug-b'
      ? `of-${name}/{group}/{type}/{node}[/{device}] in ${name}`
      : `of-${name}/{sensor}/{metric...} in ${name}`,
  )
  app = await buildApp({
    store: createFakeStore(),
    isDatabaseUp: () => true,
    ingest: /** @type {any} */ ({}),
    registry: new Registry(),
    limits: { requestsPerS: 0, bodyBytesMax: 1e7, importBytesMax: 1e7, streamsMax: 2 },
    isLoopback: true,
    topics: parseTopics(templates.join()),
    ...NO_KEYS,
  })
})
afterAll(() => app.close())

/** @typedef {typeof TABLE[number]} Row */

/** @param {Row} row */
function topicOf({ format: { name }, metric }) {
  if (name === 'line-protocol') return 'telegraf/x'
  if (name === 'sparkplug-b') return `of-${name}/g/DDATA/n/d`
  return `of-${name}/s/${metric ?? ''}`.replace(/\/$/, '')
}

/** @param {Row} row */
async function decoded(row) {
  const url = `/v1/decode?topic=${encodeURIComponent(topicOf(row))}`
  const headers = { ...HOST, 'content-type': 'application/octet-stream' }
  const answer = await app.inject({ method: 'POST', url, headers, payload: row.payload })
  return answer.json()
}

describe.each(NAMES)('a time of %s', (name) => {
  const rows = TABLE.filter(({ format }) => format.name === name)

  test.each(rows)('$name is $fate', async (row) => {
    const { fate } = row
    const { items, refused, refused_fields: fields } = await decoded(row)
    const times = items.map((/** @type {any} */ { metric, t }) => {
      const isNow = t === null || Math.abs(t - Date.now()) < 60_000
      return [metric, t === T ? 'T' : isNow ? 'receipt' : t]
    })
    const value = fate === 'refused' ? [] : [['x', fate === 'T' ? 'T' : 'receipt']]
    expect(times).toEqual([...(row.rest ? [[row.rest, 'T']] : []), ...value])
    expect(refused.length + fields.length).toBe(fate === 'refused' || fate === 'lost' ? 1 : 0)
  })
})

test('an import refuses for the same reason, and wants a time', async () => {
  const rows = TABLE.filter(({ format }) => format.name === 'json-object')
  for (const row of rows) {
    const [said] = (await decoded(row)).refused
    expect([row.name, await importReason(row.payload)]).toEqual([
      row.name,
      row.fate === 'receipt' ? expect.stringContaining('it has no time') : said?.reason,
    ])
  }
})

/** @param {Buffer} payload */
async function importReason(payload) {
  for await (const { object, fault } of ndjsonRecords(Readable.from([payload]))) {
    if (!object) return fault
    try {
      understand(object, undefined, Date.now())
    } catch (error) {
      return /** @type {Error} */ (error).message
    }
  }
  return undefined
}
