import { addField, emptyPayload, refuse } from '@sandglass/common/formats/fields'
import { PayloadError } from '@sandglass/common/payload'

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
})
