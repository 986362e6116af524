import { readFileSync } from 'node:fs'
import {
  decode,
  decodeWhole,
  FORMATS,
  formatName,
  formatNamed,
} from '@sandglass/common/formats/registry'

const PLACE = { topic: 'sensors/s/m', sensor: 's', metric: 'm' }

describe('the registry of formats', () => {
  test('has one name and one number for each, which a tinyint holds', () => {
    expect(new Set(FORMATS.map(({ name }) => name)).size).toBe(FORMATS.length)
    expect(new Set(FORMATS.map(({ number }) => number)).size).toBe(FORMATS.length)
    for (const format of FORMATS) {
      expect(format.name).toMatch(/^[a-z][a-z0-9-]*$/)
      expect([format.number >= 0, format.number <= 127]).toEqual([true, true])
      expect(formatNamed(format.name)).toBe(format)
      expect(formatName(format.number)).toBe(format.name)
    }
  })

  test('is what the documentation lists', () => {
    const path = new URL('../../../docs/data-model.md', import.meta.url)
    const listed = readFileSync(path, 'utf8').split('### Formats\n')[1].split('\n\n`POST')[0]
    const rows = FORMATS.map(
      ({ name, help, namesSensor }) =>
        `| \`${name}\` | ${help}${namesSensor ? '; names the sensor' : ''} |`,
    )
    expect(listed.split('\n').filter((row) => row.startsWith('| `'))).toEqual(rows)
  })

  test('keeps the numbers that are stored', () => {
    const stored = Object.fromEntries(FORMATS.map(({ name, number }) => [name, number]))
    expect(stored).toMatchObject({ json: 0, 'json-object': 1, 'line-protocol': 2 })
    expect(stored).toMatchObject({ 'senml-json': 10, 'senml-cbor': 11, cbor: 12, messagepack: 13 })
    expect(stored).toMatchObject({ 'cbor-object': 14, 'messagepack-object': 15 })
    expect(stored).toMatchObject({ zigbee2mqtt: 20, tasmota: 21, shelly: 22 })
    expect(stored).toMatchObject({ 'the-things-stack': 23, esphome: 24, statestream: 25 })
    expect(stored).toMatchObject({ 'sparkplug-b': 30 })
  })

  test('refuses what it does not know, and guesses nothing', () => {
    expect(() => decode(255, PLACE, Buffer.from('1'))).toThrow(
      expect.objectContaining({ fault: 'format', message: expect.stringContaining('255') }),
    )
    expect(formatNamed('nothing-of-this-name')).toBeUndefined()
    expect(formatName(255)).toBe('255')
  })

  test('takes the sensor of the topic where the payload names none, and needs one of them', () => {
    expect(decode(0, PLACE, Buffer.from('1')).sensor).toBe('s')
    expect(decode(1, PLACE, Buffer.from('{"sensor":"own","a":1}')).sensor).toBe('own')
    const nowhere = { topic: 'x', sensor: undefined, metric: 'm' }
    expect(() => decode(0, nowhere, Buffer.from('1'))).toThrow('neither the topic nor the payload')
  })

  test('decodes as a whole for whom a part would not do', () => {
    expect(() => decodeWhole(0, PLACE, Buffer.from('[1,[]]'))).toThrow('[1]: the value of m')
    expect(decodeWhole(0, PLACE, Buffer.from('[1]')).measurements).toHaveLength(1)
  })

  test('refuses payloads that are too large to be decoded at once', () => {
    for (const format of FORMATS.filter(({ name }) => name !== 'json')) {
      const { number, bytesMax = 2 ** 20 } = format
      const large = Buffer.alloc(bytesMax + 1, ' ')
      expect(() => decode(number, PLACE, large)).toThrow(`more than ${bytesMax} bytes`)
      expect(() => decode(number, PLACE, large.subarray(1))).not.toThrow('more than')
    }
  })

  test('lets no decoder throw anything but what it refuses, whatever the bytes are', () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
    let state = seed
    const random = (/** @type {number} */ below) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
    for (const { name, number } of FORMATS) {
      for (let round = 0; round < 2_000; round++) {
        const payload = Buffer.from(Array.from({ length: random(40) }, () => random(256)))
        const said = () => decode(number, PLACE, payload)
        const text = `${name} seed ${seed} ${payload.toString('hex')}`
        try {
          const { measurements, isSilent } = said()
          expect([text, measurements.length > 0 || isSilent]).toEqual([text, true])
        } catch (error) {
          expect([text, /** @type {Error} */ (error).name]).toEqual([text, 'PayloadError'])
        }
      }
    }
  })
})
