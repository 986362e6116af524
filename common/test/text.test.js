import { PayloadError } from '@sandglass/common/payload'
import { cut, shortened } from '@sandglass/common/text'

describe('a text that is cut', () => {
  test('ends between characters', () => {
    expect(cut('ab🌡c', 3)).toBe('ab')
    expect(cut('ab🌡c', 4)).toBe('ab🌡')
    expect(cut('ab', 3)).toBe('ab')
    expect(shortened('ab🌡c', 3)).toBe('ab…')
    expect(shortened('abc', 3)).toBe('abc')
  })
})

test('a reason is what a dead letter keeps of it, whatever it quotes', () => {
  const { message } = new PayloadError('time', 't is not a time but "\ud800"')
  expect(message).toBe(Buffer.from(message).toString())
})
