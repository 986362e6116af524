/**
 * Writes the dashboard's JSON, which Grafana reads and nobody edits. With `--check` it writes
 * nothing and ends with 1 if the file is not what the code would write.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { buildDashboard } from './sandglass.js'

const FILE = new URL('../grafana/dashboards/sandglass.json', import.meta.url)

const text = `${JSON.stringify(buildDashboard(), undefined, 2)}\n`
if (!process.argv.includes('--check')) {
  writeFileSync(FILE, text)
} else if (readIfThere() !== text) {
  process.stderr.write('the dashboard is not what its code says: run npm run dashboards\n')
  process.exitCode = 1
}

function readIfThere() {
  try {
    return readFileSync(FILE, 'utf8')
  } catch {
    return undefined
  }
}
