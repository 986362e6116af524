import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { FORMATS } from '@sandglass/common/formats/registry'
import { hexDump, printPayload } from '../../web/payload.js'

describe('payloads', () => {
  test('are shown as text, with signs for what cannot be seen', () => {
    expect(printPayload('21,5\0\x7f\n', 'utf8')).toEqual({
      text: '21,5\u2400\u2421\n',
      about: 'Payload, 7 characters',
    })
  })

  test('that are no text are shown in hex, with their ASCII', () => {
    const bytes = Buffer.from([0, 1, 0x7f, 0x80, 0xff, 0x41, 0x20, 0x7e, 0x0a])
    expect(printPayload(bytes.toString('base64'), 'base64')).toEqual({
      text: '0000  00 01 7f 80 ff 41 20 7e  .....A ~\n0008  0a                       .',
      about: 'Payload, no text: 9 bytes in hex',
    })
  })

  test('that are long are cut, and say so', () => {
    expect(printPayload('x'.repeat(5_000), 'utf8').text).toBe(`${'x'.repeat(4_000)}\n…`)
    const long = printPayload(Buffer.alloc(2_000).toString('base64'), 'base64')
    expect(long.text.split('\n')).toHaveLength(129)
    expect(long.text.endsWith('\n…')).toBe(true)
    expect(long.about).toContain('2000 bytes')
  })

  test('of no bytes are no lines', () => expect(hexDump('')).toBe(''))
})

test('each format can be chosen among dead letters', () => {
  const html = readFileSync(new URL('../../web/letters.html', import.meta.url), 'utf8')
  const [select] = /<select name="format">[\s\S]*?<\/select>/.exec(html) ?? ['']
  const offered = [...select.matchAll(/<option value="([^"]+)"/g)].map(([, name]) => name)
  expect(offered).toEqual(FORMATS.map(({ name }) => name))
})
