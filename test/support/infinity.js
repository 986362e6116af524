// What Grafana's data source Infinity makes of a question to our api: its backend parses the
// answer, takes the items below a root, and of each the columns that the question names.

/**
 * @typedef {object} Question  As it stands in a dashboard.
 * @property {string} url
 * @property {{ params: { key: string, value: string }[] }} url_options
 * @property {string} root_selector
 * @property {{ selector: string, text: string, type: string }[]} columns
 *
 * @typedef {Record<string, unknown>} Row  By the columns' texts.
 */

/** @param {string} text  @param {Record<string, string>} variables */
function interpolate(text, variables) {
  return text.replace(/\$\{(\w+)\}/g, (whole, name) => {
    if (!(name in variables)) throw new Error(`${whole} has no value`)
    return variables[name]
  })
}

/**
 * @param {string} apiUrl
 * @param {Question} question
 * @param {Record<string, string>} variables  Values of the dashboard's variables.
 * @returns {Promise<Row[]>}
 */
export async function askApi(apiUrl, question, variables) {
  const { url: path, url_options: options, root_selector: root, columns } = question
  const url = new URL(apiUrl + interpolate(path, variables))
  for (const { key, value } of options.params) {
    url.searchParams.append(key, interpolate(value, variables))
  }
  const response = await fetch(url)
  const body = await response.json()
  if (!response.ok) throw new Error(`${url}: ${response.status} ${JSON.stringify(body)}`)
  return body[root].map((/** @type {Row} */ item) =>
    Object.fromEntries(columns.map(({ text, selector }) => [text, item[selector]])),
  )
}

/** Whether a column can hold a value. @param {string} type  @param {unknown} value */
export function suits(type, value) {
  if (type === 'timestamp_epoch') return Number.isInteger(value)
  if (type === 'number') return Number.isFinite(value)
  return ['string', 'number', 'boolean'].includes(typeof value)
}
