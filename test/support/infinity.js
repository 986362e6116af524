// What Grafana's data source Infinity makes of a question to our api: its backend parses the
// answer, takes the items below a root, or the rows that jq makes of it, and of each the columns
// that the question names.
import { spawn } from 'node:child_process'
import { text as textOf } from 'node:stream/consumers'

/**
 * @typedef {{ method: string, data: string, params: { key: string, value: string }[] }} Options
 *
 * @typedef {object} Question  As it stands in a dashboard.
 * @property {string} url
 * @property {Options} url_options
 * @property {string} parser
 * @property {string} root_selector
 * @property {{ selector: string, text: string, type: string }[]} columns
 *
 * @typedef {Record<string, unknown>} Row  By the columns' texts.
 * @typedef {Record<string, string | string[]>} Variables  A list where several can be chosen.
 */

/** How Grafana writes what was chosen of a variable, by the name of the format. */
const FORMATS = {
  /** @param {string[]} values */
  '': (values) => (values.length === 1 ? values[0] : `{${values.join()}}`),
  /** @param {string[]} values */
  doublequote: (values) => values.map((value) => `"${value.replaceAll('"', '\\"')}"`).join(),
  /** @param {string[]} values  @param {string} name */
  customqueryparam: (values, name) =>
    values.map((value) => `${name}=${encodeURIComponent(value)}`).join('&'),
}

/** @param {string} text  @param {Variables} variables */
function interpolate(text, variables) {
  return text.replace(
    /\$\{(\w+)(?::(\w+))?(?::(\w+))?\}/g,
    (whole, name, format = '', as = name) => {
      if (!(name in variables) || !(format in FORMATS)) throw new Error(`${whole} has no value`)
      return FORMATS[/** @type {keyof typeof FORMATS} */ (format)]([variables[name]].flat(), as)
    },
  )
}

/** @param {string} program  @param {string} input */
async function jq(program, input) {
  const child = spawn('jq', [program], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(input)
  return JSON.parse(await textOf(child.stdout))
}

/**
 * @param {string} apiUrl
 * @param {Question} question
 * @param {Variables} variables  Values of the dashboard's variables.
 * @returns {Promise<Row[]>}
 */
export async function askApi(apiUrl, question, variables) {
  const { url: path, url_options: options, parser, root_selector: root, columns } = question
  const url = new URL(apiUrl + interpolate(path, variables))
  for (const { key, value } of options.params) {
    url.searchParams.append(key, interpolate(value, variables))
  }
  const { method, data } = options
  const headers = { 'content-type': 'application/json' }
  const post = { method, headers, body: interpolate(data, variables) }
  const response = await fetch(url, method === 'POST' ? post : {})
  const text = await response.text()
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`)
  const rows = parser === 'jq-backend' ? await jq(root, text) : JSON.parse(text)[root]
  return rows.map((/** @type {Row} */ item) =>
    Object.fromEntries(columns.map(({ text, selector }) => [text, item[selector]])),
  )
}

/** Whether a column can hold a value. @param {string} type  @param {unknown} value */
export function suits(type, value) {
  if (type === 'timestamp_epoch') return Number.isInteger(value)
  if (type === 'number') return Number.isFinite(value)
  return ['string', 'number', 'boolean'].includes(typeof value)
}
