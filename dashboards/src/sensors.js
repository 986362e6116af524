/** What sensors measure: one series over time, and the newest values. Asked of our REST API. */

import { TextBoxVariableBuilder } from '@grafana/grafana-foundation-sdk/dashboard'
import { buildDashboard } from './dashboard.js'
import { choice, measuredLines, measuredTable } from './infinity.js'

/** The most sensors that the api lists in one page; a part of the name narrows them down. */
const SENSORS_MAX = '1000'

/** The most measurements that the api gives in one page: of a longer time, the newest. */
const MEASUREMENTS_MAX = '10000'

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
]

const series = [
  measuredLines({
    title: `${the('metric')} of ${the('sensor:text')}`,
    description: 'As measured; of a long time the newest 10,000 values.',
    unit: 'short',
    width: 24,
    path: `/v1/sensors/${the('sensor')}/measurements`,
    parameters: {
      metric: the('metric'),
      from: the('__from'),
      to: the('__to'),
      limit: MEASUREMENTS_MAX,
    },
    columns: [
      { selector: 't', text: 'time', type: time },
      { selector: 'v', text: 'value', type: number },
    ],
  }),
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
