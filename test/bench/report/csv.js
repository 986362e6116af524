// Tables as comma-separated values, as RFC 4180 has them.

/** @typedef {Record<string, number>} Row */

/**
 * A table with a header; each row has the same columns.
 *
 * @param {Row[]} rows
 */
export function csvOf(rows) {
  const names = Object.keys(rows[0])
  const lines = rows.map((row) => csvLine(names.map((name) => Number(row[name].toPrecision(5)))))
  return `${[csvLine(names), ...lines].join('\n')}\n`
}

/** @param {(string | number)[]} fields */
export function csvLine(fields) {
  return fields.map(quoted).join(',')
}

/** @param {string | number} field */
function quoted(field) {
  const text = String(field)
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/**
 * @param {string} csv  With a header.
 * @returns {Record<string, string>[]}
 */
export function parseCsv(csv) {
  const [names, ...lines] = csv.trimEnd().split('\n').map(fieldsOf)
  return lines.map((fields) =>
    Object.fromEntries(names.map((name, index) => [name, fields[index] ?? ''])),
  )
}

/** @param {string} line */
function fieldsOf(line) {
  return [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
    ([, escaped, plain]) => escaped?.replaceAll('""', '"') ?? plain,
  )
}
