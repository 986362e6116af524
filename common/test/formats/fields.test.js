import { addField, emptyPayload, refuse } from '@sandglass/common/formats/fields'
import { json } from '@sandglass/common/formats/json'
import { PayloadError, quoted } from '@sandglass/common/payload'
import { expectLinear } from '../support/growth.js'

describe('fields', () => {
  test('become measurements, or are refused under the name that the payload has for them', () => {
    const into = emptyPayload()
    addField(into, 'temperature', 5, 21.5, 'ambTemp')
    addField(into, 'humidity', 5, [], 'ambHumi')
    expect(into.measurements).toMatchObject([{ metric: 'temperature', timeMs: 5, value: 21.5 }])
    expect(into.refused).toMatchObject([{ field: 'ambHumi', fault: 'value' }])
  })

  test('of one payload are not those of another', () => {
    refuse(emptyPayload(), 'a', new PayloadError('value', 'why'))
    expect(emptyPayload()).toEqual({ measurements: [], refused: [] })
  })

  test('do not hide a fault of ours', () => {
    expect(() => refuse(emptyPayload(), 'a', new TypeError('ours'))).toThrow(TypeError)
  })

  test('of a very long name are refused in time in proportion to the payload', () => {
    expectLinear(524_288, (size) => {
      const members = Array.from({ length: size / 1_024 }, (_, at) => `"k${at}":1`)
      const payload = Buffer.from(`{"${'é'.repeat(size / 2)}":{${members.join()}},"b":1}`)
      const place = { topic: 'sensors/s', sensor: 's', metric: undefined }
      return () => expect(json.decode(place, payload).refused).toHaveLength(size / 1_024)
    })
  })
})

test('what an error quotes is spelled out as far as it is shown', () => {
  expect(quoted('a"\u202e')).toBe('"a\\"\\u202e"')
  expect(quoted('x'.repeat(78))).toBe(`"${'x'.repeat(78)}"`)
  expect(quoted('x'.repeat(79))).toBe(`"${'x'.repeat(79)}…`)
  expect(quoted('🌡'.repeat(10_000))).toBe(`${`"${'\\ud83c\\udf21'.repeat(10)}`.slice(0, 80)}…`)
  expect(quoted(`${'x'.repeat(80)}🌡`)).toBe(`"${'x'.repeat(79)}…`)
})
