/**
 * Metadata as CSV: what persons said of metrics, to be edited in a spreadsheet and sent back.
 *
 * ```text
 * sensor,type,metric,unit,label,decimals,expected_min,expected_max
 * kitchen,,temperature,Cel,Kitchen,1,10,35       of a metric of one sensor
 * ,room,humidity,%RH,,0,0,100                    of all sensors of a type
 * ,room,door,,,,,                                nothing: what was said is taken back
 * ```
 *
 * The first line names the columns, in any order. A row replaces all that was said of its metric.
 * Pure.
 */

import { columnNames, columnsOf, csvOptions, separatorOf } from '@sandglass/common/csv'
import { METADATA_FIELDS, metadataFault, metadataOf } from '@sandglass/common/metadata'
import { PayloadError, textOf } from '@sandglass/common/payload'
import { Problem } from '@sandglass/common/problem'
import {
  isMetricName,
  isSensorName,
  METRIC_NAME_RULE,
  SENSOR_NAME_RULE,
} from '@sandglass/common/sensor'
import { parse } from 'csv-parse/sync'
import { stringify } from 'csv-stringify/sync'
import { isWord } from '../about.js'

/** @typedef {import('@sandglass/common/metadata').Metadata} Metadata */

/**
 * @typedef {object} Line
 * @property {number} line  In the file, from 1.
 * @property {string | undefined} sensor  Name or id; if there is none, `type` is there.
 * @property {string | undefined} type
 * @property {string} metric
 * @property {Metadata} said
 */

/** Most rows of a body: all are checked before the first is stored. */
const LINES_MAX = 10_000

const KEYS = ['sensor', 'type', 'metric']
const COLUMNS = [...KEYS, ...METADATA_FIELDS]
/** Columns that hold numbers. */
const NUMBERS = new Set(['decimals', 'expected_min', 'expected_max'])

export const HEAD = stringify([COLUMNS])

/**
 * Rows of a file, ended by a newline.
 *
 * @param {readonly { sensor?: string, type?: string, metric: string, said: Metadata }[]} all
 */
export function printLines(all) {
  return stringify(
    all.map(({ sensor, type, metric, said }) => [
      sensor ?? '',
      type ?? '',
      metric,
      ...METADATA_FIELDS.map((field) => said[field] ?? ''),
    ]),
  )
}

/**
 * @param {Buffer} body
 * @returns {Line[]}
 * @throws {Problem}  Names the line and the column that are wrong.
 */
export function parseLines(body) {
  const text = textIn(body)
  const separator = separatorOf(text.split('\n', 1)[0])
  const [head, ...rows] = rowsIn(text, separator)
  const names = columnsIn(head?.record ?? [], separator)
  if (rows.length > LINES_MAX) {
    throw new Problem('invalid-body', `the CSV has more than ${LINES_MAX} rows: send several`)
  }
  /** @type {Map<string, number>} */
  const seen = new Map()
  return rows.map(({ record, info }) => {
    const line = lineOf(info.lines, names, record, separator === ';')
    const key = JSON.stringify([line.sensor, line.type, line.metric])
    const before = seen.get(key)
    if (before !== undefined) {
      throw wrong(line.line, 'metric', `is told on line ${before}, too: a metric has one row`)
    }
    seen.set(key, line.line)
    return line
  })
}

/** @param {Buffer} body */
function textIn(body) {
  try {
    return textOf(body, 'json', 'the body')
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    throw new Problem('invalid-body', error.message)
  }
}

/**
 * @param {string} text
 * @param {string} separator
 * @returns {{ record: string[], info: { lines: number } }[]}
 */
function rowsIn(text, separator) {
  try {
    return /** @type {any} */ (
      parse(text, { ...csvOptions(separator), info: true, to: LINES_MAX + 2 })
    )
  } catch (error) {
    const { message } = /** @type {Error} */ (error)
    throw new Problem('invalid-body', `the body is not CSV: ${message}`)
  }
}

/** @param {string[]} head  @param {string} separator */
function columnsIn(head, separator) {
  const stranger = head.find((name) => !COLUMNS.includes(name))
  if (stranger !== undefined) {
    throw wrong(1, stranger, `is no column: they are ${COLUMNS.join(', ')}`)
  }
  if (!head.includes('metric')) throw wrong(1, 'metric', 'is missing')
  if (!head.includes('sensor') && !head.includes('type')) {
    throw wrong(1, 'sensor', 'is missing, and so is type')
  }
  try {
    return columnsOf(columnNames(head), separator).names
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    throw new Problem('invalid-body', error.message)
  }
}

/**
 * @param {number} line
 * @param {string[]} names
 * @param {string[]} cells
 * @param {boolean} hasDecimalComma
 * @returns {Line}
 */
function lineOf(line, names, cells, hasDecimalComma) {
  if (cells.length !== names.length) {
    const fault = `line ${line}: ${cells.length} cells, but ${names.length} columns`
    throw new Problem('invalid-body', fault)
  }
  /** @type {Record<string, string | undefined>} */
  const row = Object.fromEntries(names.map((name, at) => [name, cells[at] || undefined]))
  const { sensor, type, metric = '' } = row
  if ((sensor === undefined) === (type === undefined)) {
    throw wrong(line, 'sensor', 'or type must be given, one of them')
  }
  if (sensor !== undefined && !isSensorName(sensor)) throw wrong(line, 'sensor', SENSOR_NAME_RULE)
  if (type !== undefined && !isWord(type))
    throw wrong(line, 'type', 'must have 1 to 256 characters')
  if (!isMetricName(metric)) throw wrong(line, 'metric', METRIC_NAME_RULE)
  const said = metadataOf(
    Object.fromEntries(
      METADATA_FIELDS.map((field) => [
        field,
        NUMBERS.has(field) ? numberOf(row[field], hasDecimalComma) : row[field],
      ]),
    ),
  )
  const fault = metadataFault(said)
  if (fault) throw wrong(line, fault.field, fault.rule)
  return { line, sensor, type, metric, said }
}

/** @param {string | undefined} cell  @param {boolean} hasDecimalComma */
function numberOf(cell, hasDecimalComma) {
  if (cell === undefined) return undefined
  // Number('') is 0, and so are hexadecimal and other spellings that nobody means here.
  const text = hasDecimalComma ? cell.replace(',', '.') : cell
  return /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : Number.NaN
}

/** @param {number} line  @param {string} column  @param {string} rule */
export function wrong(line, column, rule) {
  return new Problem('invalid-body', `line ${line}: ${column} ${rule}`, { parameter: column })
}
