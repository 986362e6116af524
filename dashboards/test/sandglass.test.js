/** What Grafana's own linter would ask of a dashboard. */

import { describe, expect, test } from '@jest/globals'
import { buildDashboard } from '../src/sandglass.js'

/**
 * @typedef {object} Panel
 * @property {string} type
 * @property {number} id
 * @property {string} title
 * @property {string} description
 * @property {{ uid: string }} datasource
 * @property {{ defaults: { unit?: string } }} fieldConfig
 * @property {{ expr: string, legendFormat: string, refId: string,
 *   datasource: { uid: string } }[]} targets
 * @property {{ x: number, y: number, w: number, h: number }} gridPos
 */

const dashboard = buildDashboard()
const all = /** @type {Panel[]} */ (/** @type {unknown} */ (dashboard.panels))
const panels = all.filter(({ type }) => type !== 'row')

describe('the dashboard', () => {
  test('has an address that stays, and a data source to choose', () => {
    expect(dashboard.uid).toBe('sandglass')
    expect(dashboard.templating?.list).toMatchObject([{ name: 'datasource', query: 'prometheus' }])
  })

  test('numbers its panels, each with another number', () => {
    const ids = all.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    expect(Math.min(...ids)).toBe(1)
  })

  test('has no two panels in one place', () => {
    const cells = new Set()
    for (const { x, y, w, h } of all.map(({ gridPos }) => gridPos)) {
      expect(x + w).toBeLessThanOrEqual(24)
      for (let column = x; column < x + w; column++) {
        for (let line = y; line < y + h; line++) {
          const cell = `${column},${line}`
          expect(cells.has(cell)).toBe(false)
          cells.add(cell)
        }
      }
    }
  })

  test.each(panels)('$title says what it shows, and how', (panel) => {
    const { title, description, fieldConfig, targets, datasource } = panel
    expect(title).toMatch(/^[A-Z]/)
    expect(description).toMatch(/[.]$/)
    expect(fieldConfig.defaults.unit).toBeTruthy()
    expect(datasource.uid).toBe('$datasource')
    expect(targets.length).toBeGreaterThan(0)
    expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length)
    for (const target of targets) {
      expect(target.legendFormat).not.toBe('')
      expect(target.datasource.uid).toBe('$datasource')
    }
  })

  test('takes rates of counters alone, over a window that suits the scrape interval', () => {
    const expressions = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
    const rates = expressions.flatMap((expr) => [...expr.matchAll(/rate\(([^[]+)\[([^\]]+)\]/g)])
    expect(rates.length).toBeGreaterThan(10)
    for (const [, metric, window] of rates) {
      expect(metric).toMatch(/(_total|_bucket|_prevention)(\{.*\})?$/)
      expect(window).toBe('$__rate_interval')
    }
  })
})
