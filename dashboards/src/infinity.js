/**
 * Panels and choices that ask our REST API, through the data source Infinity: what sensors
 * measured, beside what the services say of themselves.
 */

import {
  QueryVariableBuilder,
  VariableRefresh,
  VariableSort,
} from '@grafana/grafana-foundation-sdk/dashboard'
import { PanelBuilder as TableBuilder } from '@grafana/grafana-foundation-sdk/table'
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries'
import { legend } from './panel.js'

/** As grafana/provisioning/datasources/api.yml names it; the api's address is there. */
const DATA_SOURCE = { type: 'yesoreyeram-infinity-datasource', uid: 'sandglass-api' }

/**
 * A column of the answer: where it is in an item, what it is called, and what it holds. A
 * `timestamp_epoch` is in milliseconds.
 *
 * @typedef {object} Column
 * @property {string} selector
 * @property {string} text
 * @property {'string' | 'number' | 'timestamp_epoch'} type
 */

/**
 * @typedef {object} Question
 * @property {string} path  Below the api's address.
 * @property {Record<string, string>} [parameters]  Of the query; the data source encodes them.
 * @property {Column[]} columns
 */

/** @typedef {{ title: string, description: string, unit: string, width: number }} Frame */

/**
 * A question as Infinity takes it. Its backend parses the answer, whose items are below `items`.
 *
 * @param {Question} question
 * @param {'timeseries' | 'table'} format
 */
const ask = ({ path, parameters = {}, columns }, format) => ({
  refId: 'A',
  datasource: DATA_SOURCE,
  type: 'json',
  source: 'url',
  parser: 'backend',
  format,
  url: path,
  url_options: {
    method: 'GET',
    data: '',
    params: Object.entries(parameters).map(([key, value]) => ({ key, value })),
  },
  root_selector: 'items',
  columns,
  filters: [],
})

/** @param {Question} question  @param {'timeseries' | 'table'} format */
const target = (question, format) => ({
  build: () => /** @type {any} */ (ask(question, format)),
})

/** Lines of what was measured. @param {Frame & Question} panel */
export const measuredLines = ({ title, description, unit, width, ...question }) =>
  new TimeseriesBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .fillOpacity(8)
    .legend(legend())
    .datasource(DATA_SOURCE)
    .span(width)
    .height(12)
    .withTarget(target(question, 'timeseries'))

/** A table of what was measured. @param {Frame & Question} panel */
export const measuredTable = ({ title, description, unit, width, ...question }) =>
  new TableBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .datasource(DATA_SOURCE)
    .span(width)
    .height(12)
    .withTarget(target(question, 'table'))
    // The data source gives columns in the order of the alphabet.
    .withTransformation({
      id: 'organize',
      options: {
        indexByName: Object.fromEntries(question.columns.map(({ text }, index) => [text, index])),
      },
    })

/**
 * A choice of what the api lists. The columns `__text` and `__value` are what is shown and what it
 * stands for.
 *
 * @param {{ name: string, label: string } & Question} choice
 */
export const choice = ({ name, label, ...question }) =>
  new QueryVariableBuilder(name)
    .label(label)
    .datasource(DATA_SOURCE)
    .query({
      queryType: 'infinity',
      query: '',
      infinityQuery: { ...ask(question, 'table'), refId: 'variable' },
    })
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc)
