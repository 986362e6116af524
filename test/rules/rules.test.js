// Prometheus takes our files, alerts fire when they should, and each leads to what to do.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { parse } from 'yaml'
import { describeWith, missingPrograms } from '../support/requirement.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const DIRECTORY = join(ROOT, 'dashboards/prometheus')
const read = (/** @type {string} */ name) => readFileSync(join(DIRECTORY, name), 'utf8')

/**
 * @typedef {object} Rule
 * @property {string} [alert]
 * @property {string} [record]
 * @property {string} expr
 * @property {{ severity: string }} labels
 * @property {Record<string, string>} annotations
 */

/** @param {string} name  @returns {Rule[]} */
const rulesOf = (name) => parse(read(name)).groups.flatMap((/** @type {any} */ { rules }) => rules)

const alerts = rulesOf('alerts.yml')
const records = rulesOf('records.yml')
const suites = readdirSync(DIRECTORY).filter((name) => name.endsWith('.test.yml'))
const tested = suites.map(read).join('\n')
const operating = readFileSync(join(ROOT, 'docs/operating.md'), 'utf8')

/** The names of what is recorded that a text asks for. @param {string} text */
const recordsIn = (text) => text.match(/\bsandglass:\w+:\w+/g) ?? []

/** @param {...string} args */
function promtool(...args) {
  return spawnSync('promtool', args, { cwd: DIRECTORY, encoding: 'utf8', timeout: 60_000 })
}

describeWith(missingPrograms(['promtool']), 'promtool', () => {
  test('takes the configuration and the rules', () => {
    const { status, stdout, stderr } = promtool('check', 'config', 'prometheus.yml')
    const found = [...(stdout + stderr).matchAll(/SUCCESS: (\d+) rules found/g)]
    expect(found.map(([, count]) => Number(count))).toEqual([records.length, alerts.length])
    expect(status).toBe(0)
  })

  test.each(suites)('finds by %s that rules do what they should, and only that', (suite) => {
    const { status, stdout, stderr } = promtool('test', 'rules', suite)
    expect(stdout + stderr).toContain('SUCCESS')
    expect(status).toBe(0)
  })
})

describe('an alert', () => {
  test.each(alerts)('$alert is tested and explained', (rule) => {
    const name = String(rule.alert)
    expect(tested).toContain(`alertname: ${name}\n        exp_alerts:`)
    expect(rule.labels.severity).toMatch(/^(warning|critical)$/)
    expect(rule.annotations.runbook).toBe(`docs/operating.md#${name.toLowerCase()}`)
    expect(operating).toContain(`\n### ${name}\n`)
  })

  test('asks only for what is recorded', () => {
    const recorded = records.map(({ record }) => record)
    for (const name of recordsIn(read('alerts.yml'))) expect(recorded).toContain(name)
  })
})

describe('what is recorded', () => {
  const names = [...new Set(records.map(({ record }) => String(record)))]
  const dashboards = join(ROOT, 'dashboards/grafana/dashboards')
  const askers = [
    ...[...alerts, ...records].map(({ expr }) => expr),
    ...readdirSync(dashboards).map((name) => readFileSync(join(dashboards, name), 'utf8')),
  ].join('\n')

  test.each(names)('%s is tested, asked for and in the manual', (name) => {
    expect(tested).toContain(name)
    expect(recordsIn(askers)).toContain(name)
    expect(operating).toContain(`\`${name}\``)
  })
})
