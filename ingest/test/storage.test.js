import cassandra from 'cassandra-driver'
import { remedyOf } from '../src/write/storage.js'

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
