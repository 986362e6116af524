/**
 * Writes the dashboards' JSON, which Grafana reads and nobody edits, and removes what the code does
 * not make any more. With `--check` it writes nothing and ends with 1 if the files are not what the
 * code would write.
 */

import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { buildDashboards } from './dashboards.js'

const FOLDER = new URL('../grafana/dashboards/', import.meta.url)

const built = new Map(
  buildDashboards().map((dashboard) => [
    `${dashboard.uid}.json`,
    `${JSON.stringify(dashboard, undefined, 2)}\n`,
  ]),
)
const there = readdirSync(FOLDER)
const surplus = there.filter((name) => !built.has(name))
const stale = [...built].filter(
  ([name, text]) => !there.includes(name) || readFileSync(new URL(name, FOLDER), 'utf8') !== text,
)
if (!process.argv.includes('--check')) {
  for (const name of surplus) rmSync(new URL(name, FOLDER))
  for (const [name, text] of stale) writeFileSync(new URL(name, FOLDER), text)
} else if (surplus.length + stale.length > 0) {
  const names = [...surplus, ...stale.map(([name]) => name)].join(', ')
  process.stderr.write(`not what the code says: ${names}: run npm run dashboards\n`)
  process.exitCode = 1
}
