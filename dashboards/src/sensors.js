/** What sensors measure: one series over time, and the newest values. Asked of our REST API. */

import { TextBoxVariableBuilder } from '@grafana/grafana-foundation-sdk/dashboard'
import { buildDashboard } from './dashboard.js'
import { choice, measuredLines, measuredTable } from './infinity.js'

/** The most sensors that the api lists in one page; a part of the name narrows them down. */
const SENSORS_MAX = '1000'

/** Points of a line: about one a pixel. The api chooses the resolution that gives so many. */
const POINTS = '800'

/** A variable of the dashboard, as Grafana finds it in texts. @param {string} name */
const the = (name) => `\${${name}}`

const number = /** @type {const} */ ('number')
const string = /** @type {const} */ ('string')
const time = /** @type {const} */ ('timestamp_epoch')

const variables = [
  new TextBoxVariableBuilder('part').label('Part of the name').defaultValue(''),
  choice({
    name: 'sensor',
    label: 'Sensor',
    path: '/v1/sensors',
    parameters: { q: the('part'), limit: SENSORS_MAX },
    columns: [
      { selector: 'name', text: '__text', type: string },
      { selector: 'id', text: '__value', type: string },
    ],
  }),
  choice({
    name: 'metric',
    label: 'Metric',
    path: `/v1/sensors/${the('sensor')}/latest`,
    columns: [
      { selector: 'metric', text: '__text', type: string },
      { selector: 'metric', text: '__value', type: string },
    ],
  }),
  choice({
    name: 'unit',
    label: 'Unit',
    path: `/v1/sensors/${the('sensor')}/latest`,
    parameters: { metric: the('metric') },
    columns: [
      { selector: 'symbol', text: '__text', type: string },
      { selector: 'symbol', text: '__value', type: string },
    ],
  }),
]

/**
 * Lines of the chosen series, summed up in windows.
 *
 * @param {{ title: string, description: string, width: number }} frame
 * @param {Record<string, string>} aggregates  As the api calls them, by legend.
 */
const lines = (frame, aggregates) =>
  measuredLines({
    ...frame,
    unit: 'short',
    path: `/v1/sensors/${the('sensor')}/series`,
    parameters: {
      metric: the('metric'),
      from: the('__from'),
      to: the('__to'),
      points: POINTS,
      agg: Object.values(aggregates).join(),
    },
    columns: [
      { selector: 't', text: 'time', type: time },
      ...Object.entries(aggregates).map(([text, selector]) => ({ selector, text, type: number })),
    ],
  })

const series = [
  lines(
    {
      title: `${the('metric')} of ${the('sensor:text')} [${the('unit')}]`,
      description: 'Average, least and greatest of each window, which is as long as fits the page.',
      width: 24,
    },
    { average: 'avg', least: 'min', greatest: 'max' },
  ),
  lines(
    {
      title: `Percentiles [${the('unit')}]`,
      description:
        'Half of the values of a window are below p50, all but one in a hundred below p99.',
      width: 12,
    },
    { p50: 'p50', p99: 'p99' },
  ),
  lines(
    {
      title: 'Measurements',
      description: 'How many there are in each window: where it falls, some are missing.',
      width: 12,
    },
    { count: 'count' },
  ),
]

const newest = [
  measuredTable({
    title: `Newest values of ${the('sensor:text')}`,
    description: 'Of each metric: when it was measured, and when it arrived.',
    unit: 'none',
    width: 12,
    path: `/v1/sensors/${the('sensor')}/latest`,
    columns: [
      { selector: 'metric', text: 'metric', type: string },
      { selector: 'v', text: 'value', type: string },
      { selector: 'symbol', text: 'unit', type: string },
      { selector: 'label', text: 'label', type: string },
      { selector: 't', text: 'measured', type: time },
      { selector: 'received', text: 'received', type: time },
    ],
  }),
  measuredTable({
    title: `${the('metric')} of all sensors`,
    description: 'The newest value of each; the part of the name does not narrow these down.',
    unit: 'none',
    width: 12,
    path: '/v1/latest',
    parameters: { metric: the('metric'), limit: SENSORS_MAX },
    columns: [
      { selector: 'sensor', text: 'sensor', type: string },
      { selector: 'v', text: 'value', type: string },
      { selector: 'symbol', text: 'unit', type: string },
      { selector: 't', text: 'measured', type: time },
    ],
  }),
]

/** The dashboard as Grafana takes it. */
export const buildSensors = () =>
  buildDashboard({
    uid: 'sandglass-sensors',
    title: 'Sandglass: sensors',
    description: 'What sensors measure: one series over time, and the newest values.',
    sections: { 'Over time': series, Newest: newest },
    variables,
    from: '3h',
  })
