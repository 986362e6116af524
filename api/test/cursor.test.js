import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Problem } from '@sandglass/common/problem'
import { sensorId } from '@sandglass/common/sensor'
import { decodeCursor, encodeCursor } from '../src/cursor.js'
import { pageByText } from '../src/text-page.js'
import { createFakeStore } from './support/fake-store.js'
import { appOver } from './support/inject.js'

describe('a cursor', () => {
  const cursor = encodeCursor('measurements', ['id', null, 5], [1767225600000, 'größe', 3])

  test('gives back what was put in', () => {
    expect(decodeCursor('measurements', cursor)).toEqual({
      question: ['id', null, 5],
      position: [1767225600000, 'größe', 3],
    })
  })

  test('is refused when any character is another, or missing', () => {
    for (let at = 0; at < cursor.length; at += 1) {
      const other = cursor[at] === 'A' ? 'B' : 'A'
      for (const broken of [
        cursor.slice(0, at) + other + cursor.slice(at + 1),
        cursor.slice(0, at) + cursor.slice(at + 1),
        cursor.slice(0, at),
        `${cursor.slice(0, at)} ${cursor.slice(at)}`,
      ]) {
        expect(() => decodeCursor('measurements', broken)).toThrow('cursor is broken')
      }
    }
  })

  test.each([
    [null],
    [5],
    [{}],
    [['measurements', null, []]],
    [['measurements', [], {}]],
    [['measurements', [{}], []]],
    [['measurements', [], [true]]],
    [['measurements', []]],
  ])('that was forged and holds %j is refused', (parts) => {
    const json = JSON.stringify(parts)
    const sum = createHash('sha256').update(`sandglass cursor 1\n${json}`).digest().subarray(0, 6)
    const forged = Buffer.concat([sum, Buffer.from(json)]).toString('base64url')
    expect(() => decodeCursor('measurements', forged)).toThrow('cursor')
    expect(() => decodeCursor('measurements', forged)).toThrow(Problem)
  })

  test('of another list is refused', () => {
    expect(() => decodeCursor('sensors', cursor)).toThrow('cursor belongs to the list of')
  })
})

describe('a list asks for a cursor that was forged nothing that could not be asked in the open', () => {
  /** @type {Awaited<ReturnType<typeof appOver>>} */
  let app
  beforeAll(async () => {
    app = await appOver(createFakeStore())
  })
  afterAll(() => app.close())

  const ID = sensorId('s')
  const MANY = JSON.stringify(Array.from({ length: 65 }, (_, n) => `m${n}`))
  const NO_ALERTS = [null, null, null, null, null, null]
  const MEASUREMENTS = '/v1/sensors/s/measurements'

  test.each([
    ['/v1/dead-letters', 'dead letters', ['{'], [1, null]],
    ['/v1/dead-letters', 'dead letters', ['null'], [1, null]],
    ['/v1/dead-letters', 'dead letters', ['[]'], [1, null]],
    ['/v1/dead-letters', 'dead letters', [], [1, null]],
    ['/v1/dead-letters', 'dead letters', ['{"reason":1}'], [20_000, null]],
    ['/v1/dead-letters', 'dead letters', ['{"other":1}'], [20_000, null]],
    ['/v1/dead-letters', 'dead letters', ['{"toMs":1e300}'], [20_000, null]],
    ['/v1/dead-letters', 'dead letters', ['{"fromMs":"x"}'], [20_000, null]],
    ['/v1/dead-letters', 'dead letters', ['{}'], [1e300, null]],
    ['/v1/sensors', 'sensors', [null], ['a', 'b', '']],
    ['/v1/sensors', 'sensors', ['{"tags":5}'], ['a', 'b', '']],
    ['/v1/sensors', 'sensors', ['{"q":5}'], ['a', 'b', '']],
    ['/v1/sensors', 'sensors', ['{"sort":"other"}'], ['a', 'b', '']],
    ['/v1/sensors', 'sensors', ['{}'], [5, 'b', '']],
    ['/v1/sensors', 'sensors', ['{}'], []],
    ['/v1/latest', 'sensors', ['{"silentS":-1}'], ['a', 'b', '']],
    [MEASUREMENTS, 'measurements', [], [1, null, null]],
    [MEASUREMENTS, 'measurements', [ID, '{', null, null, 'asc'], [1, null, null]],
    [MEASUREMENTS, 'measurements', [ID, '"a"', null, null, 'asc'], [1, null, null]],
    [MEASUREMENTS, 'measurements', [ID, MANY, null, null, 'asc'], [1, null, null]],
    [MEASUREMENTS, 'measurements', [ID, '["a","a"]', null, null, 'asc'], [1, null, null]],
    [MEASUREMENTS, 'measurements', [ID, '["a"]', 'x', null, 'asc'], [1, null, null]],
    [MEASUREMENTS, 'measurements', [ID, '["a"]', null, 1e300, 'asc'], [1, null, null]],
    [MEASUREMENTS, 'measurements', [ID, '["a"]', null, null, 'up'], [1, null, null]],
    [MEASUREMENTS, 'measurements', [ID, '["a"]', null, null, 'asc'], []],
    [MEASUREMENTS, 'measurements', [ID, '["a"]', null, null, 'asc'], [null, null, null]],
    [MEASUREMENTS, 'measurements', [ID, '["a"]', null, null, 'asc'], [1, 'a', null]],
    [MEASUREMENTS, 'measurements', [ID, '["a"]', null, null, 'asc'], [1, 5, 5]],
    ['/v1/alerts', 'alerts', NO_ALERTS, []],
    ['/v1/alerts', 'alerts', NO_ALERTS, ['x', ID]],
    ['/v1/alerts', 'alerts', NO_ALERTS, [1e300, ID]],
    ['/v1/alerts', 'alerts', NO_ALERTS, [0, 'y']],
  ])('%s: %s %j after %j', async (path, kind, question, position) => {
    const cursor = encodeCursor(kind, question, position)
    const response = await app.inject({
      url: `${path}?cursor=${cursor}`,
      headers: { host: 'localhost' },
    })
    expect(response.json()).toMatchObject({ status: 400, parameter: 'cursor' })
  })
})

test('a list that goes by a text goes on after two texts, and after nothing else', () => {
  const cursor = encodeCursor('keys', [null], [5, 'b'])
  const parts = { kind: 'keys', keyOf: () => /** @type {[string, string]} */ (['a', 'b']) }
  expect(() => pageByText([], { limit: 1, cursor }, parts)).toThrow('cursor is broken')
})
