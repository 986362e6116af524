// Figures of one run as a table of Markdown.
import { reached } from './figure.js'

/** @typedef {Record<'name' | 'value' | 'unit' | 'bound' | 'floor', string>} Line  As in the CSV. */

/** @param {Line[]} lines */
export function table(lines) {
  const rows = lines.map((line) => {
    const { name, value, unit, bound, floor } = line
    const promise = bound === '' ? '' : `${bound} ${floor}`
    return `| ${name} | ${value} ${unit} | ${promise} | ${verdict(line)} |`
  })
  return ['| figure | measured | floor | |', '|---|---:|---:|---|', ...rows].join('\n')
}

/**
 * A column for each of those that were measured alike: a figure is named `COLUMN: ROW`.
 *
 * @param {Line[]} lines
 */
export function sideBySide(lines) {
  /** @type {Map<string, Map<string, string>>} */
  const rows = new Map()
  /** @type {Set<string>} */
  const columns = new Set()
  for (const line of lines) {
    const at = line.name.indexOf(': ')
    const [column, row] = [line.name.slice(0, at), line.name.slice(at + 2)]
    columns.add(column)
    if (!rows.has(row)) rows.set(row, new Map())
    rows.get(row)?.set(column, cell(line))
  }
  const cells = (/** @type {Map<string, string>} */ row) =>
    [...columns].map((column) => row.get(column) ?? '').join(' | ')
  return [
    `| | ${[...columns].join(' | ')} |`,
    `|---|${'---:|'.repeat(columns.size)}`,
    ...[...rows].map(([name, row]) => `| ${name} | ${cells(row)} |`),
  ].join('\n')
}

/** @param {Line} line */
function cell(line) {
  const { value, unit, bound, floor } = line
  const measured = `${value} ${unit}`.trim()
  return bound === '' ? measured : `${measured} (${bound} ${floor}: ${verdict(line)})`
}

/** @param {Line} line */
function verdict({ value, bound, floor }) {
  const figure = { benchmark: '', name: '', unit: '', value: Number(value), floor: Number(floor) }
  const passed = reached({
    ...figure,
    bound: /** @type {import('./figure.js').Figure['bound']} */ (bound),
  })
  if (passed === undefined) return ''
  return passed ? 'pass' : '**fail**'
}
