/** What Grafana's own linter would ask of a dashboard, and that dashboards find each other. */

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { buildDashboards } from '../src/dashboards.js'

/**
 * @typedef {object} Query
 * @property {string} refId
 * @property {{ uid: string, type: string }} datasource
 * @property {string} [expr]
 * @property {string} [legendFormat]
 * @property {string} [url]
 * @property {string} [root_selector]
 * @property {string} [parser]
 * @property {{ method: string, data: string, params: { key: string, value: string }[] }}
 *   [url_options]
 * @property {{ selector: string, text: string, type: string }[]} [columns]
 *
 * @typedef {object} Link
 * @property {string} type
 * @property {string} [url]
 * @property {string[]} tags
 * @property {boolean} keepTime
 *
 * @typedef {object} Panel
 * @property {string} type
 * @property {number} id
 * @property {string} title
 * @property {string} description
 * @property {{ uid: string, type: string }} datasource
 * @property {{ defaults: { unit?: string, thresholds?: { steps: object[] } } }} fieldConfig
 * @property {Query[]} targets
 * @property {Link[]} [links]
 * @property {{ x: number, y: number, w: number, h: number }} gridPos
 *
 * @typedef {object} Variable
 * @property {string} name
 * @property {string} type
 * @property {{ uid: string, type: string }} [datasource]
 * @property {any} query
 *
 * @typedef {object} Dashboard
 * @property {string} uid
 * @property {string} title
 * @property {string} description
 * @property {number} schemaVersion
 * @property {string[]} tags
 * @property {Link[]} links
 * @property {{ list: Variable[] }} templating
 * @property {{ list: { name: string, enable: boolean, target: Query }[] }} annotations
 * @property {Panel[]} panels
 */

/** Grafana knows dashboards of this version of its schema without having to change them. */
const SCHEMA_VERSION = 42

const dashboards = /** @type {Dashboard[]} */ (JSON.parse(JSON.stringify(buildDashboards())))
const uids = dashboards.map(({ uid }) => uid)

const PROVISIONED = new URL('../grafana/provisioning/datasources/', import.meta.url)
const provisioned = readdirSync(PROVISIONED)
  .map((name) => readFileSync(new URL(name, PROVISIONED), 'utf8'))
  .flatMap((text) => [...text.matchAll(/^ {4}uid: (\S+)\n {4}type: (\S+)$/gm)])
  .map(([, uid, type]) => ({ uid, type }))

test('there is one for each thing that an operator asks about', () => {
  expect(uids).toEqual([
    'sandglass',
    ...['sensors', 'fleet', 'ingest', 'engine', 'api', 'cql'].map((name) => `sandglass-${name}`),
  ])
})

test('the files are what the code says, and there are no others', () => {
  const folder = new URL('../grafana/dashboards/', import.meta.url)
  expect(readdirSync(folder).sort()).toEqual(uids.map((uid) => `${uid}.json`).sort())
  for (const dashboard of dashboards) {
    const text = readFileSync(new URL(`${dashboard.uid}.json`, folder), 'utf8')
    expect(JSON.parse(text)).toEqual(dashboard)
  }
})

describe.each(dashboards)('the dashboard $title', (dashboard) => {
  const { schemaVersion, title, description, tags, links, templating } = dashboard
  const all = dashboard.panels
  const panels = all.filter(({ type }) => type !== 'row')
  const names = templating.list.map(({ name }) => name)
  // Grafana's own are of its own data source.
  const marks = (dashboard.annotations?.list ?? []).filter(({ target }) => target?.columns)

  test('has a version, a name of its own, and the question that it answers', () => {
    expect(schemaVersion).toBe(SCHEMA_VERSION)
    expect(dashboards.filter((other) => other.title === title)).toHaveLength(1)
    expect(description).toMatch(/[.?]$/)
  })

  test('leads to all others at the same time, and is found by them', () => {
    expect(tags).toEqual(['sandglass'])
    expect(links).toMatchObject([{ type: 'dashboards', tags, keepTime: true }])
  })

  test('links from its panels to dashboards that are there', () => {
    for (const { links: more = [] } of panels) {
      for (const { url } of more) {
        const [, uid] = /^\/d\/([\w-]+)\?\$\{__url_time_range\}$/.exec(String(url)) ?? []
        expect(uids).toContain(uid)
        expect(uid).not.toBe(dashboard.uid)
      }
    }
  })

  test('numbers its panels, each with another number', () => {
    const ids = all.map(({ id }) => id)
    expect(ids).toEqual(ids.map((_, index) => index + 1))
  })

  test('has no two panels in one place, and none beside the page', () => {
    const cells = new Set()
    for (const { x, y, w, h } of all.map(({ gridPos }) => gridPos)) {
      expect(Math.min(x, y, w - 1, h - 1)).toBeGreaterThanOrEqual(0)
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
    expect(panel.title).toMatch(/^([A-Z]|\$\{)/)
    expect(panel.description).toMatch(/[.]$/)
    expect(panel.fieldConfig.defaults.unit).toBeTruthy()
    expect(panel.targets.length).toBeGreaterThan(0)
    expect(new Set(panel.targets.map(({ refId }) => refId)).size).toBe(panel.targets.length)
    for (const target of panel.targets) {
      expect(target.datasource).toEqual(panel.datasource)
      if (target.expr !== undefined) expect(target.legendFormat).toBeTruthy()
    }
  })

  test('asks data sources that a reader chooses, or that are provisioned', () => {
    const asked = [
      ...panels.map(({ datasource }) => datasource),
      ...templating.list.flatMap(({ datasource }) => (datasource ? [datasource] : [])),
    ]
    for (const source of asked) {
      if (source.uid === '$datasource') {
        expect(templating.list).toContainEqual(
          expect.objectContaining({ name: 'datasource', type: 'datasource', query: source.type }),
        )
      } else expect(provisioned).toContainEqual(source)
    }
  })

  test('uses only variables that it has, or that Grafana has', () => {
    const used = [...JSON.stringify(dashboard).matchAll(/\$\{?(\w+)/g)].map(([, name]) => name)
    const unknown = used.filter((name) => !names.includes(name) && !name.startsWith('__'))
    expect(unknown).toEqual([])
  })

  test('takes rates of counters alone, over a window that suits the scrape interval', () => {
    const expressions = panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => expr ?? []))
    const rates = expressions.flatMap((expr) => [...expr.matchAll(/\brate\(([^[]+)\[([^\]]+)\]/g)])
    for (const [, metric, window] of rates) {
      expect(metric).toMatch(/(_total|_bucket|_sum|_count|_prevention)(\{.*\})?$/)
      expect(window).toBe('$__rate_interval')
    }
    const increases = expressions.flatMap((expr) => [...expr.matchAll(/increase\(([^[]+)\[/g)])
    for (const [, metric] of increases) expect(metric).toMatch(/_total(\{.*\})?$/)
  })

  test('asks the api below its address, and names what it wants of the answer', () => {
    const questions = [
      ...panels.flatMap(({ targets }) => targets),
      ...templating.list.flatMap(({ query }) => query?.infinityQuery ?? []),
      ...marks.map(({ target }) => target),
    ].filter(({ datasource }) => datasource.uid === 'sandglass-api')
    for (const { url, root_selector, parser, columns, url_options } of questions) {
      expect(url).toMatch(/^\/v1\/[a-z]+(\?\$\{(\w+):customqueryparam:\2\})?$/)
      // Infinity fills nothing in where the rows are made by jq.
      if (parser === 'backend') expect(root_selector).toBe('items')
      else expect([parser, root_selector]).toEqual(['jq-backend', expect.not.stringContaining('$')])
      expect(url_options.method).toBe(url_options.data === '' ? 'GET' : 'POST')
      const texts = columns.map((/** @type {{ text: string }} */ { text }) => text)
      expect(new Set(texts).size).toBe(texts.length)
      for (const { key, value } of url_options.params) expect(key && value).toBeTruthy()
    }
    expect(questions.length > 0).toBe(dashboard.uid === 'sandglass-sensors')
  })
})

test('every number of the misuse of the database turns red, but that of drivers', () => {
  const cql = dashboards.find(({ uid }) => uid === 'sandglass-cql')
  const colors = Object.fromEntries(
    (cql?.panels ?? [])
      .filter(({ type }) => type === 'stat')
      .map(({ title, fieldConfig }) => [title, fieldConfig.defaults.thresholds?.steps.at(-1)]),
  )
  const red = { value: 0.1, color: 'red' }
  expect(colors).toEqual({
    Unprepared: red,
    Unpaged: red,
    Filtering: red,
    'Cache-filling': red,
    Consistency: red,
    'Wrongly routed': { value: 0.1, color: 'orange' },
  })
})
