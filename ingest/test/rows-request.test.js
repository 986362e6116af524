// A request of rows has the bytes that the driver's own batch has.
import cassandra from 'cassandra-driver'
import Encoder from 'cassandra-driver/lib/encoder.js'
import executionOptions from 'cassandra-driver/lib/execution-options.js'
import requests from 'cassandra-driver/lib/requests.js'
import { RowsRequest } from '../src/write/rows-request.js'

const { Long, TimeUuid, Uuid, dataTypes, unset } = cassandra.types
const { DefaultExecutionOptions } = executionOptions

const client = new cassandra.Client({ contactPoints: ['127.0.0.1'], localDataCenter: 'x' })
/** Types with values of them. @type {[number, unknown[], unknown?][]} */
const VALUES = [
  [dataTypes.double, [0, -0, 1.5, -1e308, Number.NaN, Number.POSITIVE_INFINITY, 5e-324]],
  [dataTypes.bigint, [Long.ZERO, Long.MIN_VALUE, Long.MAX_VALUE, Long.fromNumber(-1), 7]],
  [dataTypes.timestamp, [0, -1, 1_700_000_000_123, -(2 ** 32), 2 ** 53 - 1, new Date(5), 2 ** 32]],
  [dataTypes.uuid, [Uuid.random(), String(Uuid.random()), TimeUuid.now()]],
  [dataTypes.timeuuid, [TimeUuid.now()]],
  [
    dataTypes.text,
    ['', 'value', 'é', 'a€b', '\u{1f600}', '\ud800', 'x'.repeat(32), 'ü'.repeat(33)],
  ],
  [dataTypes.varchar, ['x'.repeat(33), 'long €'.repeat(40_000), 'ü'.repeat(40_000)]],
  [dataTypes.int, [0, -1, 2 ** 31 - 1, -(2 ** 31)]],
  [dataTypes.boolean, [true, false]],
  [dataTypes.blob, [Buffer.from('abc'), Buffer.alloc(0), Buffer.alloc(100_000, 7)]],
  [dataTypes.tinyint, [-128, 127]],
  [dataTypes.map, [{ a: 1 }], [{ code: dataTypes.text }, { code: dataTypes.int }]],
]

const statements = VALUES.flatMap(([code, values, info]) =>
  [...values, null, undefined, unset].map((value, at) => ({
    query: 'x',
    params: [value, value],
    queryId: Buffer.from(`id ${code} ${at}`),
    meta: { columns: [{ type: { code, info } }, { type: { code, info } }] },
  })),
)

/**
 * Both requests for the same statements.
 *
 * @param {typeof statements} queries
 * @param {{ version?: number } & import('cassandra-driver').QueryOptions} [more]
 */
function bothFor(queries, { version = 4, ...more } = {}) {
  const options = DefaultExecutionOptions.create({ logged: false, prepare: true, ...more }, client)
  const ours = new RowsRequest(queries, options)
  const theirs = new requests.BatchRequest(queries, options)
  theirs.timestamp = ours.timestamp
  const encoder = new Encoder(version, { encoding: {} })
  return { ours, theirs, encoder }
}

/** Both write the same, and know how long it is. @param {ReturnType<typeof bothFor>} both */
function expectSame({ ours, theirs, encoder }) {
  const bytes = ours.write(encoder, 300)
  expect(bytes.equals(theirs.write(encoder, 300))).toBe(true)
  expect(ours.length).toBe(theirs.length)
}

/** @param {() => unknown} call */
function errorOf(call) {
  try {
    return call()
  } catch (error) {
    const { constructor: type, message } = /** @type {Error} */ (error)
    return { type, message }
  }
}

describe('a request of rows', () => {
  test('is the batch that the driver would write, value for value', () => {
    for (const statement of statements) expectSame(bothFor([statement]))
    expectSame(bothFor(statements))
    // Nothing of a large request is left in the one after it.
    expectSame(bothFor(statements.slice(0, 2)))
  })

  test.each([
    ['a consistency', { consistency: 6 }],
    ['a timestamp', { timestamp: 12_345 }],
    ['a serial consistency', { serialConsistency: 8 }],
    ['tracing', { traceQuery: true }],
    ['an older protocol', { version: 3 }],
  ])('is so with %s', (_name, more) => {
    const plain = statements.filter(({ params }) => params[0] !== unset && params[0] !== undefined)
    expectSame(bothFor(plain, more))
  })

  test.each([
    ['a text for a number', dataTypes.double, 'x'],
    ['a number that is no int', dataTypes.int, 2 ** 31],
    ['a number for a text', dataTypes.text, 5],
    ['nonsense for an id', dataTypes.uuid, 'x'],
  ])('refuses what the driver refuses: %s', (_name, code, value) => {
    const meta = { columns: [{ type: { code, info: undefined } }] }
    const both = bothFor([{ query: 'x', params: [value], queryId: Buffer.from('id'), meta }])
    const { ours, theirs, encoder } = both
    expect(() => theirs.write(encoder, 1)).toThrow()
    expect(errorOf(() => ours.write(encoder, 1))).toEqual(errorOf(() => theirs.write(encoder, 1)))
    // And the next one is whole.
    expectSame(bothFor(statements.slice(0, 2)))
  })
})
