import { describe, expect, test } from '@jest/globals'
import { SettingError } from '../src/options.js'
import { parseTopics, Topics } from '../src/topics.js'

describe('a template', () => {
  test.each([
    ['plant/{area}/{sensor}/{metric}', 'plant/hall/s1/heat', 's1', 'heat'],
    ['plant/{area}/{sensor}', 'plant/hall/s1', 's1', undefined],
    ['plant/{sensor}', 'sensors/s1/heat', 's1', 'heat'],
    ['plant/{line}/{unit}/{metric} as {line}.{unit}', 'plant/a/b/heat', 'a.b', 'heat'],
    ['plant/{a}/{b}/up as {b}-of-{a}', 'plant/1/2/up', '2-of-1', undefined],
    ['shellies/{sensor}/{metric...}', 'shellies/s1/emeter/0/power', 's1', 'emeter.0.power'],
    ['shellies/{sensor}/{metric...}', 'shellies/s1/power', 's1', 'power'],
    ['shellies/{sensor}/{metric...}', 'shellies/s1', 's1', undefined],
    ['a/{metric}/{sensor}', 'a/heat/s1', 's1', 'heat'],
    ['tele/{sensor}/SENSOR', 'tele/s1/SENSOR', 's1', undefined],
  ])('%s makes %s say what it should', (template, topic, sensor, metric) => {
    const topics = parseTopics(template)
    expect(topics.carry(topic)).toBe(true)
    expect(topics.parse(topic)).toEqual({ sensor, metric })
  })

  test.each([
    ['plant/{area}/{sensor}/{metric}', 'plant/hall/s1'],
    ['plant/{area}/{sensor}', 'plant/hall/s1/heat'],
    ['tele/{sensor}/SENSOR', 'tele/s1/STATE'],
    ['shellies/{sensor}/{metric...}', 'shellies'],
    ['shellies/{sensor}/{metric...}', 'other/s1/power'],
  ])('%s does not fit %s', (template, topic) => {
    expect(parseTopics(template).carry(topic)).toBe(false)
    expect(() => parseTopics(template).parse(topic)).toThrow('topic is not sensors/')
  })

  test.each([
    ['plant/{sensor}', 'plant/'],
    ['plant/{sensor}', 'plant/..'],
    ['plant/{a}/{b} as {a}{b}', 'plant/./.'],
    ['plant/{sensor}', `plant/${'x'.repeat(200)}`],
    ['plant/{a}/{b} as {a}.{b}', `plant/${'x'.repeat(70)}/${'y'.repeat(70)}`],
    ['plant/{sensor}/{metric}', 'plant/s1/'],
    ['plant/{sensor}/{metric...}', 'plant/s1/'],
  ])('%s fits %s, which is a dead letter for its names', (template, topic) => {
    const topics = parseTopics(template)
    expect(topics.carry(topic)).toBe(true)
    expect(() => topics.parse(topic)).toThrow(expect.objectContaining({ fault: 'topic' }))
  })

  test.each([
    ['plant/+/{sensor}', 'each level'],
    ['plant/#', 'each level'],
    ['plant//{sensor}', 'each level'],
    ['plant/dev-{sensor}', 'each level'],
    ['plant/{sensor}x', 'each level'],
    ['plant/{metric...}/{sensor}', 'each level'],
    ['{site}/{sensor}', 'the first level'],
    ['$SYS/{sensor}', 'the first level'],
    ['plant/{sensor}/{sensor}', 'once'],
    ['plant/{sensor}/{metric}/{metric...}', 'give {metric} or'],
    ['plant/{area}/{metric}', 'needs {sensor}'],
    ['plant/{area} as {line}', 'needs {line}'],
    ['plant/{metric} as {metric}', 'needs {metric}'],
    ['plant/{area} as hall', 'is made of'],
    ['plant/{area} as {area}/x', 'is made of'],
    ['plant/{area} as {area}\u202ex', 'is made of'],
    ['plant/{a} as {a} as b', 'one name'],
    ['sensors/{sensor}/x/{metric}', 'below sensors'],
    ['plant/{sensor}/a,plant/b/{sensor}', 'could fit it and plant/{sensor}/a'],
    ['plant/{sensor}/{metric...},plant/b/{sensor}/c/d', 'could fit it'],
  ])('%s is refused with its remedy: %s', (text, remedy) => {
    expect(() => parseTopics(text)).toThrow(SettingError)
    expect(() => parseTopics(text)).toThrow(remedy)
  })

  test.each([
    ['plant/{sensor}', 'plant/s', 0, 's'],
    ['plant/{sensor} in json', 'plant/s', 0, 's'],
    ['plant/{sensor} in json-object', 'plant/s', 1, 's'],
    ['plant/{a}/{b} as {a}.{b} in json-object', 'plant/x/y', 1, 'x.y'],
    ['plant/{a} as in {a} in json', 'plant/x', 0, 'in x'],
    ['plant/up in json-object', 'plant/up', 1, undefined],
    ['plant/{area}/{metric...} in json-object', 'plant/x/y', 1, undefined],
    ['plant/{sensor} in json-object', 'sensors/s', 0, 's'],
  ])('%s gives %s its format and sensor', (template, topic, format, sensor) => {
    const topics = parseTopics(template)
    expect(topics.formatOf(topic)).toBe(format)
    expect(topics.place(topic, format).sensor).toBe(sensor)
    expect(topics.sensorOf(topic)).toBe(sensor)
    expect(topics.formatOf('other/s')).toBeUndefined()
  })

  test.each([
    ['plant/{sensor} in jsno', 'Template plant/{sensor} in jsno: there is no format jsno'],
    ['plant/{sensor} in jsno', 'give one of json, json-object'],
    ['plant/{sensor} in line-protocol', 'there is no format line-protocol'],
    ['plant/{sensor} in JSON', 'there is no format JSON'],
    ['plant/up in json', 'needs {sensor}'],
    ['plant/up as hall in json-object', 'is made of'],
    ['plant/{area} as {line} in json-object', 'needs {line}'],
    ['plant/{sensor} in json,plant/up in json-object', 'fit it and plant/{sensor} in json:'],
  ])('%s is refused: %s', (text, remedy) => {
    expect(() => parseTopics(text)).toThrow(SettingError)
    expect(() => parseTopics(text)).toThrow(remedy)
  })

  test('need not fit the topic of a message that is older, or came without a topic', () => {
    const topics = parseTopics('plant/{sensor}')
    expect(topics.place('gone/s', 1)).toEqual({ topic: 'gone/s' })
    expect(() => topics.place('gone/s', 0)).toThrow('topic is not sensors/')
    expect(() => topics.place('plant/..', 1)).toThrow('the sensor must have')
  })

  test('there are not too many to be tried', () => {
    const some = Array.from({ length: 33 }, (_, at) => `plant${at}/{sensor}`)
    expect(parseTopics(some.slice(1).join()).carry('plant32/s')).toBe(true)
    expect(() => parseTopics(some.join())).toThrow('at most 32')
  })
})

test('each topic fits one filter at most, and one only if it carries measurements', () => {
  const text = 'a/{x}/{sensor},a/{sensor}, b/{sensor}/{metric...},a/{x}/{y}/c as {x}.{y}'
  const topics = parseTopics(text)
  expect(topics.filters).toEqual(['sensors/#', 'a/+/+', 'a/+', 'b/+/#', 'a/+/+/c'])
  const matches = (/** @type {string} */ filter, /** @type {string} */ topic) =>
    new RegExp(`^${filter.replace('/#', '(/.*)?').replaceAll('+', '[^/]*')}$`).test(topic)
  const levels = ['a', 'b', 'c', 'sensors']
  for (let n = 0; n < 4 ** 4; n++) {
    for (let length = 1; length <= 4; length++) {
      const topic = Array.from({ length }, (_, at) => levels[(n >> (2 * at)) & 3]).join('/')
      const fitting = topics.filters.filter((filter) => matches(filter, topic))
      expect([topic, fitting.length]).toEqual([topic, Number(topics.carry(topic))])
    }
  }
})

test('without templates there are the topics below sensors', () => {
  expect(new Topics().filters).toEqual(['sensors/#'])
  expect(new Topics().carry('plant/a')).toBe(false)
  expect(parseTopics('').parse('sensors/a/b')).toEqual({ sensor: 'a', metric: 'b' })
})

test('topics that line protocol has are noticed', () => {
  const topics = parseTopics('telegraf/{sensor}/{metric}')
  expect(
    ['telegraf', 'telegraf/x', 'other', 'telegraf/x/y/z'].map((one) => topics.touches(one)),
  ).toEqual([true, true, false, false])
})
