import cassandra from 'cassandra-driver'
import { remedyOf, Storage } from '../src/write/storage.js'

const { errors, types } = cassandra
const { responseErrorCodes: code } = types

describe('what is done about an error', () => {
  test.each([
    ['a node that is overloaded', new errors.ResponseError(code.overloaded, 'x'), 'retry'],
    ['too few replicas', new errors.ResponseError(code.unavailableException, 'x'), 'retry'],
    ['a write that timed out', new errors.ResponseError(code.writeTimeout, 'x'), 'retry'],
    ['no host', new errors.NoHostAvailableError({}, 'x'), 'retry'],
    ['no answer', new errors.OperationTimedOutError('x'), 'retry'],
    ['a busy connection', new errors.BusyConnectionError('a', 1, 1), 'retry'],
    ['a value it refuses', new errors.ResponseError(code.invalid, 'key too long'), 'refuse'],
    [
      'a table that is gone',
      new errors.ResponseError(code.invalid, 'unconfigured table x'),
      'retry',
    ],
    ['a value that cannot be encoded', new TypeError('not a number'), 'refuse'],
    ['a fault of the server', new errors.ResponseError(code.serverError, 'x'), 'split'],
    ['a failed write', new errors.ResponseError(code.writeFailure, 'x'), 'split'],
  ])('%s', (_name, error, remedy) => {
    expect(remedyOf(error)).toBe(remedy)
  })
})

describe('what is known of many sensors', () => {
  const ids = Array.from(
    { length: 32 },
    (_, at) => `00000000-0000-4000-8000-${`${at}`.padStart(12, '0')}`,
  )
  /** @type {{ query: string, params: any[] }[]} */
  let asked = []
  let underWay = 0
  let underWayMost = 0

  /** @param {boolean} isSandglass */
  function storageOf(isSandglass) {
    asked = []
    underWayMost = 0
    const client = {
      /** @param {string} query  @param {any[]} params */
      async execute(query, params) {
        asked.push({ query, params })
        underWayMost = Math.max(underWayMost, ++underWay)
        await new Promise((resolve) => setImmediate(resolve))
        underWay--
        const last = new Date(Number(String(params[0]).slice(-3)))
        const ofSeries = { last_ts: last, metric: 'm', told_unit: 'K', told_us: 5_000 }
        const row = { ...ofSeries, hidden: true, from_ts: last, class: '30d' }
        return { rows: params.flat().map((id) => ({ ...row, sensor_id: id })) }
      },
    }
    return new Storage(/** @type {any} */ ({ keyspace: 'k', isUp: true, isSandglass, client }))
  }

  test('is asked of our engine at once', async () => {
    const known = await storageOf(true).readSensors(ids)
    expect([...known.keys()]).toEqual(ids)
    expect(
      [...known.values()].every(({ isRegistered, isHidden }) => isRegistered && isHidden),
    ).toBe(true)
    expect(asked.map(({ params }) => params)).toEqual([[ids], [ids], [ids]])
  })

  test('is asked of a cluster sensor by sensor, where drivers know the node, one after the other', async () => {
    const known = await storageOf(false).readSensors(ids)
    expect(asked.map(({ params }) => params)).toEqual(ids.flatMap((id) => [[id], [id], [id]]))
    expect(asked.filter(({ query }) => !query.endsWith('sensor_id = ?'))).toEqual([])
    expect(underWayMost).toBe(3)
    const { lastTimes, units } = /** @type {any} */ (known.get(ids[7]))
    expect([...lastTimes]).toEqual([['m', 7]])
    expect([...units]).toEqual([['m', { unit: 'K', toldMs: 5 }]])
  })
})
