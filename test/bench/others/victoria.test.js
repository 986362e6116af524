import { samplesOf } from './victoria.js'

describe('what VictoriaMetrics answers', () => {
  const answer = (/** @type {unknown} */ result, resultType = 'vector') =>
    JSON.stringify({ status: 'success', data: { resultType, result } })

  test('is the number of samples', () => {
    const result = [{ metric: {}, value: [1_763_859_600, '650000'] }]
    expect(samplesOf(answer(result))).toBe(650_000)
  })

  test('is 0 where nothing is stored', () => {
    expect(samplesOf(answer([]))).toBe(0)
  })

  test('is no number where it is something else', () => {
    const two = [
      { metric: { a: '1' }, value: [1, '2'] },
      { metric: { a: '2' }, value: [1, '2'] },
    ]
    expect(() => samplesOf(answer(two))).toThrow('one number')
    expect(() => samplesOf(answer([], 'matrix'))).toThrow('one number')
    const error = JSON.stringify({ status: 'error', error: 'too many samples' })
    expect(() => samplesOf(error)).toThrow('too many samples')
  })
})
