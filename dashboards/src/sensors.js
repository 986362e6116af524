/** What sensors measure: the chosen series over time, their alerts, and the newest values. */

import {
  CustomVariableBuilder,
  TextBoxVariableBuilder,
} from '@grafana/grafana-foundation-sdk/dashboard'
import { buildDashboard } from './dashboard.js'
import { choice, marks, measuredLines, measuredTable } from './infinity.js'

/** The most sensors that the api lists in one page; a part of the name narrows them down. */
const SENSORS_MAX = '1000'

/** Points of a line, about one for two pixels: the api chooses a resolution that gives so many. */
const POINTS = '400'

/** Alerts of the sensors chosen, newest first. */
const ALERTS_MAX = '200'

/** A variable of the dashboard, as Grafana finds it in texts. @param {string} name */
const the = (name) => `\${${name}}`

/** What was chosen, as members of a list in JSON. @param {string} name */
const listed = (name) => `[\${${name}:doublequote}]`

/** What was chosen, as a parameter given several times. @param {string} name */
const repeated = (name) => `\${${name}:customqueryparam:${name}}`

const number = /** @type {const} */ ('number')
const string = /** @type {const} */ ('string')
const time = /** @type {const} */ ('timestamp_epoch')

const variables = [
  new TextBoxVariableBuilder('part').label('Part of the name').defaultValue(''),
  choice({
    name: 'sensor',
    label: 'Sensors',
    path: '/v1/sensors',
    parameters: { q: the('part'), limit: SENSORS_MAX },
    columns: [
      { selector: 'name', text: '__text', type: string },
      { selector: 'id', text: '__value', type: string },
    ],
  }),
  choice({
    name: 'metric',
    label: 'Metrics',
    path: '/v1/latest',
    parameters: { q: the('part'), limit: SENSORS_MAX },
    columns: [
      { selector: 'metric', text: '__text', type: string },
      { selector: 'metric', text: '__value', type: string },
    ],
  }),
  new CustomVariableBuilder('of')
    .label('Each point is the')
    .values(
      'average : avg, least : min, greatest : max, last : last, median : p50, p99 : p99, count : count',
    )
    .current({ text: 'average', value: 'avg' }),
]

/** A row for each point of each series, by time, which carries the sensor's name and the unit. */
const LINES = `[.groups[]
  | {series: (.name + (if .symbol then " [" + .symbol + "]" else "" end)), window: .items[]}
  | {t: .window.t, series, value: (.window | del(.t) | .[])}]
  | sort_by(.t)`

const series = [
  measuredLines({
    title: the('metric'),
    description: 'A line for each sensor, with its unit. Windows are as long as fits the chart.',
    unit: 'short',
    width: 24,
    each: 'metric',
    label: 'series',
    path: '/v1/query',
    body: {
      sensors: listed('sensor'),
      metrics: listed('metric'),
      from: the('__from'),
      to: the('__to'),
      points: POINTS,
      agg: `"${the('of')}"`,
    },
    rows: LINES,
    columns: [
      { selector: 't', text: 'time', type: time },
      { selector: 'series', text: 'series', type: string },
      { selector: 'value', text: 'value', type: number },
    ],
  }),
]

const newest = [
  measuredTable({
    title: 'Newest values',
    description: 'Of all sensors with that part in their names.',
    unit: 'none',
    width: 12,
    path: `/v1/latest?${repeated('metric')}`,
    parameters: { q: the('part'), limit: SENSORS_MAX },
    columns: [
      { selector: 'sensor', text: 'sensor', type: string },
      { selector: 'metric', text: 'metric', type: string },
      { selector: 'v', text: 'value', type: string },
      { selector: 'symbol', text: 'unit', type: string },
      { selector: 't', text: 'measured', type: time },
      { selector: 'received', text: 'received', type: time },
    ],
  }),
  measuredTable({
    title: 'Alerts',
    description: 'Of the sensors chosen, the newest first, at any time.',
    unit: 'none',
    width: 12,
    path: `/v1/alerts?${repeated('sensor')}`,
    parameters: { limit: ALERTS_MAX },
    rows: '[.items[] | {state, severity: .rule.severity, sensor: .sensor.name, text, fired, resolved}]',
    columns: [
      { selector: 'state', text: 'state', type: string },
      { selector: 'severity', text: 'severity', type: string },
      { selector: 'sensor', text: 'sensor', type: string },
      { selector: 'text', text: 'what', type: string },
      { selector: 'fired', text: 'since', type: time },
      { selector: 'resolved', text: 'until', type: time },
    ],
  }),
]

/** An alert is marked from its beginning to its end; one that fires, to now. */
const alerts = marks({
  name: 'Alerts',
  color: 'red',
  path: `/v1/alerts?${repeated('sensor')}`,
  parameters: { to: the('__to'), limit: ALERTS_MAX },
  rows: `[.items[] | {
    time: .fired,
    timeEnd: (.resolved // (now * 1000 | floor)),
    title: (.rule.name + ": " + .sensor.name),
    text,
    tags: ([.state, .rule.severity] | join(","))
  }]`,
  columns: [
    { selector: 'time', text: 'time', type: time },
    { selector: 'timeEnd', text: 'timeEnd', type: time },
    { selector: 'title', text: 'title', type: string },
    { selector: 'text', text: 'text', type: string },
    { selector: 'tags', text: 'tags', type: string },
  ],
})

/** The dashboard as Grafana takes it. */
export const buildSensors = () =>
  buildDashboard({
    uid: 'sandglass-sensors',
    title: 'Sandglass: sensors',
    description:
      'What sensors measure: several over time, with their alerts, and the newest values.',
    sections: { 'Over time': series, Newest: newest },
    variables,
    annotations: [alerts],
    from: '3h',
  })
