// The tests that the tables of statements of MQTT name exist; what tests name is in the tables.
import { describe, expect, test } from '@jest/globals'
import { files, read } from './files.js'

/** @param {string} table */
const rowsOf = (table) =>
  read(table)
    .split('\n')
    .filter((line) => line.startsWith('| MQTT-'))
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .map(([, statement, says, shownBy]) => ({ statement, says, shownBy }))

/** Titles of tests, and of the cases of their tables. @param {string} path */
const titles = (path) =>
  [...read(path).matchAll(/(['`])((?:(?!\1)[^\\\n]|\\.)+)\1/g)].map(([, , text]) => text)

describe.each([
  ['docs/mqtt-conformance.md', 'ingest/test/mqtt5', 200],
  ['docs/mqtt-3.1.1-conformance.md', 'ingest/test/mqtt3', 120],
])('%s', (table, folder, statementsMin) => {
  const rows = rowsOf(table)

  test('each statement is there once, in its order', () => {
    const names = rows.map(({ statement }) => statement)
    const numbers = (/** @type {string} */ name) => name.match(/\d+/g)?.map(Number) ?? []
    const sorted = [...names].sort((a, b) => {
      const [left, right] = [numbers(a), numbers(b)]
      const at = left.findIndex((number, index) => number !== right[index])
      return at < 0 ? 0 : left[at] - right[at]
    })
    expect(names).toEqual(sorted)
    expect(new Set(names).size).toBe(names.length)
    expect(names.length).toBeGreaterThan(statementsMin)
  })

  test('each is shown by a test that exists, or says why not', () => {
    const wrong = rows.flatMap(({ statement, shownBy }) => {
      if (shownBy.startsWith('— ')) return []
      const [, file, title] = /(\w+): “(.+)”$/.exec(shownBy) ?? []
      const path = `${folder}/${file}.test.js`
      const isThere = file && titles(path).some((text) => text.startsWith(title))
      return isThere ? [] : [`${statement}: ${shownBy}`]
    })
    expect(wrong).toEqual([])
  })

  test('what a test names is in the table', () => {
    const known = new Set(rows.map(({ statement }) => statement))
    const named = files(`${folder}/*.js`).flatMap((path) =>
      [...read(path).matchAll(/\[MQTT-([\d., -]+)\]/g)].flatMap(([, list]) =>
        list.split(',').map((one) => `MQTT-${one.trim()}`),
      ),
    )
    expect(named.length).toBeGreaterThan(50)
    expect(named.filter((name) => !known.has(name))).toEqual([])
  })
})
