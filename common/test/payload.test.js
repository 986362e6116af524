import { isMeasurementTopic, parseTopic } from '@sandglass/common/payload'
import { NAME_LENGTH_MAX } from '@sandglass/common/sensor'

describe('topics', () => {
  test('only sensors and what is below it carries measurements', () => {
    const topics = ['sensors', 'sensors/a', 'sensors/a/b', 'sensors/a/b/c', 'sensors/']
    expect(topics.filter((topic) => !isMeasurementTopic(topic))).toEqual([])
    expect(['sensor/a', 'sensorsx/a', '/sensors/a', 'x'].filter(isMeasurementTopic)).toEqual([])
  })

  test('a topic names a sensor, and a metric unless the payload does', () => {
    expect(parseTopic('sensors/s-17/temperature')).toEqual({
      sensor: 's-17',
      metric: 'temperature',
    })
    expect(parseTopic('sensors/s-17')).toEqual({ sensor: 's-17', metric: undefined })
  })

  test.each([
    'sensors',
    'sensors/',
    'sensors//temperature',
    'sensors/a/',
    'sensors/a/b/c',
    `sensors/${'a'.repeat(129)}/b`,
    `sensors/a/${'b'.repeat(NAME_LENGTH_MAX + 1)}`,
  ])('%s is refused', (topic) => {
    expect(() => parseTopic(topic)).toThrow(expect.objectContaining({ fault: 'topic' }))
  })
})
