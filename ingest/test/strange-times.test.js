// A strange time means the same at each door of ingest: MQTT, HTTP, the spool, and a dead letter
// that is replayed.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MEDIA_TYPES } from '@sandglass/common/bodies'
import { createRegistry } from '@sandglass/common/metrics'
import { sensorId } from '@sandglass/common/sensor'
import { STRANGE, strangeTimes, T } from '@sandglass/common/test/formats/strange-times'
import { parseTopics } from '@sandglass/common/topics'
import { buildHttp } from '../src/http/app.js'
import { replay } from '../src/http/replay.js'
import { openSpool } from '../src/ingest.js'
import { until } from './support/ingest.js'
import { build } from './support/pipeline.js'

/**
 * Births make Sparkplug a matter of the connection, and expressions are evaluated on receipt: their
 * times are tested where they are decoded, in `common/test/formats`, and over the whole platform.
 */
const ELSEWHERE = ['sparkplug-b', 'expression']
const TABLE = strangeTimes().filter(({ format }) => !ELSEWHERE.includes(format.name))
const NAMES = [...new Set(TABLE.map(({ format }) => format.name))]
const TEMPLATES = NAMES.filter((name) => name !== 'line-protocol')
const TOPICS = parseTopics(
  TEMPLATES.map((name) => `of-${name}/{sensor}/{metric...} in ${name}`).join(),
)
/** Those that name their sensor all name this one. */
const NAMED = sensorId('named')

/** @typedef {typeof TABLE[number]} Row */
/** @typedef {ReturnType<typeof build>} Ingest */

/** @param {Row} row */
const topicOf = ({ format, metric }) =>
  format.name === 'line-protocol'
    ? 'telegraf/x'
    : `of-${format.name}/named/${metric ?? ''}`.replace(/\/$/, '')

/**
 * What the table says: values with their times, and how many dead letters.
 *
 * @param {Row} row
 */
function expected({ fate, rest }) {
  const value = fate === 'refused' ? [] : [`x=2@${fate === 'T' ? 'T' : 'receipt'}`]
  const letters = fate === 'lost' || fate === 'refused' ? 1 : 0
  return { stored: [...(rest ? [`${rest}=1@T`] : []), ...value].sort(), letters }
}

/** The same of what is there. @param {Ingest} ingest */
function found({ storage }) {
  const rows = storage.rowsOf('measurement_30d').map(({ sensor_id: id, metric, ts, v }) => {
    expect(String(id)).toBe(NAMED)
    const isNow = Math.abs(Number(ts) - Date.now()) < 60_000
    return `${metric}=${v}@${Number(ts) === T ? 'T' : isNow ? 'receipt' : ts}`
  })
  const letters = storage.rowsOf('dead_letter')
  for (const { format, payload } of letters)
    expect([typeof format, payload.length > 0]).toEqual(['number', true])
  return { stored: [...new Set(rows)].sort(), letters: letters.length }
}

/** @type {Record<string, (row: Row) => Promise<object | undefined>>} */
const DOORS = {
  async mqtt(row) {
    const ingest = build({ topicTemplates: TOPICS })
    await ingest.settle(topicOf(row), '', { payload: row.payload })
    return found(ingest)
  },
  async http(row) {
    const [type] = [...MEDIA_TYPES].find(([, name]) => MEDIA_OF[row.format.name] === name) ?? []
    if (type === undefined) return undefined
    const ingest = build()
    const app = http(ingest)
    const headers = { host: '127.0.0.1', 'content-type': type }
    const { payload } = row
    await app.inject({ method: 'POST', url: '/v1/measurements', headers, payload })
    await app.close()
    return found(ingest)
  },
  async spool(row) {
    const spoolDir = mkdtempSync(join(tmpdir(), 'strange-times-'))
    const limits = { topicTemplates: TOPICS, spoolDir, spoolBytesMax: 1e8, spoolAfterMs: 0 }
    const first = build(limits)
    first.storage.isDown = true
    await first.spool?.open()
    const message = first.accept(topicOf(row), '', { payload: row.payload })
    await until(() => {
      first.diversion?.look(first.inFlight, performance.now())
      return message.isSettled
    })
    await first.spool?.close()
    const next = build(limits)
    if (next.spool) await openSpool(next.spool, next.counts)
    void next.drain?.run()
    await until(() => next.counts.spooled === 0)
    await next.spool?.close()
    rmSync(spoolDir, { recursive: true })
    return found(next)
  },
  async replay(row) {
    const ingest = build({ topicTemplates: TOPICS })
    await ingest.settle(topicOf(row), '', { payload: row.payload })
    const ids = ingest.storage.rowsOf('dead_letter').map(({ id }) => String(id))
    const { storage: reader, pipeline } = ingest
    if (ids.length > 0) {
      const again = await replay(ids, { ...ingest, reader, accept: (one) => pipeline.accept(one) })
      expect([again.replayed, again.refused.length]).toEqual([0, 1])
    }
    return found(ingest)
  },
}

/** By which media type a body is of a format. @type {Record<string, string>} */
const MEDIA_OF = {
  'json-object': 'json',
  'cbor-object': 'cbor',
  'messagepack-object': 'messagepack',
  'line-protocol': 'line',
}

/** @param {Ingest} ingest */
const http = (ingest) =>
  buildHttp({
    bodies: ingest.memory.shares.bodies,
    bodyBytesMax: 100_000,
    sink: ingest.pipeline,
    registry: createRegistry('sandglass_test_'),
    health: () => ({ ok: true }),
    stats: () => ({}),
    replay: async () => ({ replayed: 0, refused: [], unknown: [] }),
    isLoopback: true,
  })

describe.each(NAMES)('a time of %s', (name) => {
  const rows = TABLE.filter(({ format }) => format.name === name)

  test.each(Object.keys(DOORS))('means what the table says: %s', async (door) => {
    const said = await Promise.all(rows.map(async (row) => [row.name, await DOORS[door](row)]))
    const known = said.filter(([, what]) => what !== undefined)
    expect(known).toEqual(known.length > 0 ? rows.map((row) => [row.name, expected(row)]) : [])
    if (door !== 'http' || name in MEDIA_OF) expect(known.length).toBeGreaterThan(0)
  })
})

test('the table has a row for every strange time', () => {
  expect(new Set(TABLE.map(({ name }) => name))).toEqual(new Set(Object.keys(STRANGE)))
})
