// Prometheus takes our files, alerts fire when they should, and each leads to what to do.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { parse } from 'yaml'
import { describeWith, missingPrograms } from '../support/requirement.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const DIRECTORY = join(ROOT, 'dashboards/prometheus')

/**
 * @type {{ alert: string, labels: { severity: string }, annotations: Record<string, string> }[]}
 */
const rules = parse(readFileSync(join(DIRECTORY, 'alerts.yml'), 'utf8')).groups[0].rules
const operating = readFileSync(join(ROOT, 'docs/operating.md'), 'utf8')

/** @param {...string} args */
function promtool(...args) {
  return spawnSync('promtool', args, { cwd: DIRECTORY, encoding: 'utf8', timeout: 60_000 })
}

describeWith(missingPrograms(['promtool']), 'promtool', () => {
  test('takes the configuration and the rules', () => {
    const { status, stdout, stderr } = promtool('check', 'config', 'prometheus.yml')
    expect(stderr + stdout).toContain(`SUCCESS: ${rules.length} rules found`)
    expect(status).toBe(0)
  })

  test('finds that alerts fire when they should, and only then', () => {
    const { status, stdout, stderr } = promtool('test', 'rules', 'alerts.test.yml')
    expect(stdout + stderr).toContain('SUCCESS')
    expect(status).toBe(0)
  })
})

describe('an alert', () => {
  const tested = readFileSync(join(DIRECTORY, 'alerts.test.yml'), 'utf8')

  test.each(rules)('$alert is tested and explained', (rule) => {
    const name = rule.alert
    expect(tested).toContain(`alertname: ${name}`)
    expect(rule.labels.severity).toMatch(/^(warning|critical)$/)
    expect(rule.annotations.runbook).toBe(`docs/operating.md#${name.toLowerCase()}`)
    expect(operating).toContain(`\n### ${name}\n`)
  })
})
