/**
 * CSV as measurements are sent and exported: the first line names the columns, each further one is
 * an object. Pure.
 *
 * ```text
 * sensor,t,<metric>,<metric>…      one column a metric; an empty cell is a metric not measured
 * sensor,metric,t,v[,kind]         one value a row
 * ```
 *
 * Spaces around a cell are none of it; those within quotes are. What a cell holds is told by its
 * spelling: a number, true, false, a place as JSON, else a text. Where the column `kind` says that
 * it is a text, it is one whatever it looks like, also an empty one.
 */

import { exactNumber, parseJson } from './json.js'
import { metricsFault } from './measurement.js'
import { PayloadError, shown } from './payload.js'
import { NAME_LENGTH_MAX } from './sensor.js'

/** @typedef {import('csv-parse').Options} Options */
/**
 * @typedef {object} Columns
 * @property {string[]} names
 * @property {boolean} isLong  Whether each row is one value, of the metric that it names.
 * @property {boolean} hasDecimalComma
 */

/** What may separate cells; the first line tells. */
const SEPARATORS = [',', ';', '\t', '|']

const NUMBER = /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?$/
const DECIMAL_COMMA = /^[-+]?\d+,\d+$/

/** Columns of a row that are no metrics: `sensor` and `t`. */
const OTHER_COLUMNS = 2

/** The separator that a first line has most of. @param {string} line */
export function separatorOf(line) {
  const counts = SEPARATORS.map((mark) => line.split(mark).length)
  return SEPARATORS[counts.indexOf(Math.max(...counts))]
}

/**
 * How `csv-parse` is to read a file.
 *
 * @param {string} separator
 * @returns {Options}
 */
export function csvOptions(separator) {
  return {
    delimiter: separator,
    bom: true,
    trim: true,
    relax_column_count: true,
    skip_empty_lines: true,
  }
}

/** What columns are called in the objects. @param {string[]} titles */
export function columnNames(titles) {
  return titles.map((title) => (title === 'time' || title === 'timestamp' ? 't' : title))
}

/**
 * @param {string[]} names  As {@link columnNames} gives them.
 * @param {string} separator
 * @returns {Columns}
 * @throws {PayloadError}  Two have one name, or no row could be stored: each row becomes an object
 *   with the names of all columns.
 */
export function columnsOf(names, separator) {
  const fault = metricsFault(names.length - OTHER_COLUMNS)
  if (fault !== undefined) {
    const remedy = 'send several, or one with the columns sensor, metric, t and v'
    throw new PayloadError('json', `the CSV has ${names.length} columns, but ${fault}: ${remedy}`)
  }
  const long = names.find(({ length }) => length > NAME_LENGTH_MAX)
  if (long !== undefined) {
    const rule = `its name has more than ${NAME_LENGTH_MAX} characters`
    throw new PayloadError('json', `the column "${shown(long)}" of the CSV is none: ${rule}`)
  }
  const seen = new Set()
  // It has not become larger by the second one.
  const twice = names.find((name) => seen.size === seen.add(name).size)
  if (twice !== undefined) {
    throw new PayloadError('json', `two columns of the CSV are called "${twice}"`)
  }
  return { names, isLong: names.includes('metric'), hasDecimalComma: separator === ';' }
}

/**
 * What a row says, as an object that names its sensor.
 *
 * @param {Columns} columns
 * @param {string[]} cells  Texts, as many as there are columns.
 * @returns {Record<string, unknown>}  As `parseRecord` of `payload.js` takes it.
 */
export function rowObject({ names, isLong, hasDecimalComma }, cells) {
  const isText = isLong && cells[names.indexOf('kind')] === 'text'
  /** @type {[string, unknown][]} */
  const members = []
  for (const [index, name] of names.entries()) {
    const cell = cells[index]
    const isValue = isLong ? name === 'v' : name !== 'sensor' && name !== 't'
    if (isValue && (isText || cell !== '')) {
      members.push([name, isText ? cell : cellValue(cell, hasDecimalComma)])
    } else if (!isValue && (name === 'metric' || cell !== '')) {
      members.push([name, cell])
    }
  }
  return Object.fromEntries(members)
}

/** A value by how it is spelled. @param {string} cell  @param {boolean} hasDecimalComma */
function cellValue(cell, hasDecimalComma) {
  if (cell === 'true' || cell === 'false') return cell === 'true'
  if (NUMBER.test(cell)) return exactNumber(cell)
  if (hasDecimalComma && DECIMAL_COMMA.test(cell)) return Number(cell.replace(',', '.'))
  return cell.startsWith('{') ? (placeOf(cell) ?? cell) : cell
}

/** A place, as JSON; nothing for any other text. @param {string} cell */
function placeOf(cell) {
  try {
    const place = /** @type {Record<string, unknown>} */ (parseJson(cell))
    const isPlace = typeof place.lat === 'number' && typeof place.lon === 'number'
    return isPlace && Object.keys(place).length === 2 ? place : undefined
  } catch {
    return undefined
  }
}
