import { rowsJson, valueJson } from '../src/value.js'

const places = [
  { metric: 'a "b"', t: 5, seq: 0 },
  { metric: 'c', t: -1, seq: 3 },
]

test.each([
  [21.5, '21.5'],
  [-0.1, '-0.1'],
  [1e300, '1e+300'],
  [Number.NaN, 'null'],
  [true, 'true'],
  ['say "hi"\n', '"say \\"hi\\"\\n"'],
  [{ lat: 1.5, lon: -2 }, '{"lat":1.5,"lon":-2}'],
  [9_007_199_254_740_993n, '9007199254740993'],
  [null, 'null'],
])('a value of %p is %s, alone and beside others', (value, text) => {
  expect(valueJson(value)).toBe(text)
  for (const other of [1, 2n ** 62n]) {
    const otherText = String(other)
    expect(
      rowsJson([
        { ...places[0], value },
        { ...places[1], value: other },
      ]),
    ).toBe(
      `[{"metric":"a \\"b\\"","t":5,"v":${text}},{"metric":"c","t":-1,"seq":3,"v":${otherText}}]`,
    )
  }
  expect(rowsJson([])).toBe('[]')
})
