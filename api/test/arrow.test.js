import { parseJson } from '@sandglass/common/json'
import { KIND } from '@sandglass/common/measurement'
import { sensorId } from '@sandglass/common/sensor'
import { RecordBatchReader, tableFromIPC } from 'apache-arrow'
import { ArrowStream } from '../src/arrow.js'
import { FORMATS } from '../src/export.js'
import { createFakeStore } from './support/fake-store.js'
import { inject } from './support/inject.js'

const T = 1_767_225_600_000
const SENSOR = { id: sensorId('s'), name: 's' }

/** @typedef {import('../src/merge.js').Row} Row */

/** @param {number} index  @returns {Row} */
function row(index) {
  const kinds = [
    { kind: KIND.number, value: index / 4 },
    { kind: KIND.integer, value: index % 2 === 0 ? index : 2n ** 62n + BigInt(index) },
    { kind: KIND.boolean, value: index % 3 === 0 },
    { kind: KIND.text, value: `„${index}“` },
    { kind: KIND.location, value: { lat: index / 1_000, lon: -index / 1_000 } },
    { kind: undefined, value: null },
  ]
  const which = index % kinds.length
  return { metric: `m${which}`, t: T + index, seq: index % 2, ...kinds[which] }
}

const many = Array.from({ length: 12_000 }, (_, index) => row(index))

/** What a row of the table says, as a line of NDJSON has it. @param {any} from */
function essence(from) {
  const { name, metric, t, number, integer, boolean, text, lat, lon } = from
  const place = lat === null ? null : { lat, lon }
  const one = { sensor: name, metric, t: Number(t), v: number ?? boolean ?? text ?? place }
  return integer === null ? one : { ...one, v: integer, kind: 'integer' }
}

test('an Arrow export says what the NDJSON export says, in batches of a limited size', async () => {
  const store = createFakeStore({ rows: many })
  const response = await inject(store, '/v1/export?sensor=s&format=arrow')
  expect(response.headers['content-type']).toBe(FORMATS.arrow.type)
  expect(response.headers['content-disposition']).toBe('attachment; filename="s.arrows"')
  const reader = RecordBatchReader.from(response.rawPayload)
  const sizes = [...reader].map(({ numRows }) => numRows)
  expect(Math.max(...sizes)).toBeLessThanOrEqual(5_000)
  expect(sizes.length).toBeGreaterThan(2)

  const table = tableFromIPC(response.rawPayload)
  const { body } = await inject(store, '/v1/export?sensor=s&format=ndjson')
  const [told, ...lines] = /** @type {any[]} */ (body.trimEnd().split('\n').map(parseJson))
  const abouts = new Set(table.toArray().map(({ about }) => about))
  expect(abouts).toEqual(new Set([JSON.stringify(told.about)]))
  const exact = lines.map((one) => (one.kind === 'integer' ? { ...one, v: BigInt(one.v) } : one))
  expect(table.toArray().map(essence)).toEqual(exact)
  expect(table.toArray().map(({ seq }) => Number(seq))).toEqual(many.map(({ seq }) => seq))
  expect(new Set(table.toArray().map(({ sensor }) => sensor))).toEqual(new Set([SENSOR.id]))
})

test('the columns have types of their own, and only that of the kind is set', async () => {
  const stream = new ArrowStream()
  const bytes = [stream.head(), stream.rows(SENSOR, many.slice(0, 6)), stream.tail()]
  const table = tableFromIPC(Buffer.concat(bytes))
  expect(table.schema.fields.map(({ name, type }) => `${name} ${type}`)).toEqual([
    ...['sensor', 'name', 'metric', 'about'].map((name) => `${name} Dictionary<Int32, Utf8>`),
    ...['t Timestamp<MILLISECOND, UTC>', 'seq Int64', 'number Float64', 'integer Int64'],
    ...['boolean Bool', 'text Utf8', 'lat Float64', 'lon Float64'],
  ])
  const set = table
    .toArray()
    .map((one) =>
      ['number', 'integer', 'boolean', 'text', 'lat', 'lon'].filter((name) => one[name] !== null),
    )
  expect(set).toEqual([['number'], ['integer'], ['boolean'], ['text'], ['lat', 'lon'], []])
})

test('each sensor has its own name in every batch', () => {
  const other = { id: sensorId('other'), name: 'other' }
  const stream = new ArrowStream()
  const bytes = [
    stream.head(),
    stream.rows(SENSOR, [row(0), row(1)]),
    stream.rows(other, [row(2)]),
    stream.rows(SENSOR, [row(3)]),
    stream.tail(),
  ]
  const found = [...RecordBatchReader.from(Buffer.concat(bytes))].flatMap((batch) =>
    Array.from({ length: batch.numRows }, (_, at) => {
      const one = /** @type {any} */ (batch.get(at))
      return [one.sensor, one.name, one.metric]
    }),
  )
  expect(found).toEqual([
    [SENSOR.id, 's', 'm0'],
    [SENSOR.id, 's', 'm1'],
    [other.id, 'other', 'm2'],
    [SENSOR.id, 's', 'm3'],
  ])
})

test('an export of nothing is a table without rows', async () => {
  const { rawPayload } = await inject(createFakeStore(), '/v1/export?sensor=s&format=arrow')
  expect(tableFromIPC(rawPayload).numRows).toBe(0)
  expect(tableFromIPC(rawPayload).schema.fields).toHaveLength(12)
})
