/**
 * Panels and choices that ask our REST API, through the data source Infinity: what sensors
 * measured, beside what the services say of themselves.
 */

import { VisibilityMode } from '@grafana/grafana-foundation-sdk/common'
import {
  AnnotationQueryBuilder,
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
 * @property {string} path  Below the api's address; a query in it is as Grafana fills it in.
 * @property {Record<string, string>} [parameters]  Of the query; the data source encodes them.
 * @property {Record<string, string>} [body]  Makes it a POST: members by the JSON of their values,
 *   in which Grafana fills in what was chosen.
 * @property {string} [rows]  Makes rows of the answer, in jq; default: what is in `items`.
 * @property {Column[]} columns
 */

/** @typedef {{ title: string, description: string, unit: string, width: number }} Frame */

/** @param {Record<string, string> | undefined} body */
const options = (body) =>
  body === undefined
    ? { method: 'GET', data: '' }
    : {
        method: 'POST',
        body_type: 'raw',
        body_content_type: 'application/json',
        data: `{${Object.entries(body)
          .map(([key, json]) => `"${key}": ${json}`)
          .join(', ')}}`,
      }

/**
 * A question as Infinity takes it. Its backend parses the answer.
 *
 * @param {Question} question
 * @param {'timeseries' | 'table'} format
 */
const ask = ({ path, parameters = {}, body, rows, columns }, format) => ({
  refId: 'A',
  datasource: DATA_SOURCE,
  type: 'json',
  source: 'url',
  parser: rows === undefined ? 'backend' : 'jq-backend',
  format,
  url: path,
  url_options: {
    ...options(body),
    params: Object.entries(parameters).map(([key, value]) => ({ key, value })),
  },
  root_selector: rows ?? 'items',
  columns,
  filters: [],
})

/** @param {Question} question  @param {'timeseries' | 'table'} format */
const target = (question, format) => ({
  build: () => /** @type {any} */ (ask(question, format)),
})

/**
 * Lines of what was measured, in a chart for each value of a variable. Rows are a time, what names
 * the line, and a number, and lie by their times: of others the data source makes no lines.
 *
 * @param {Frame & Question & { each: string, label: string }} panel  `label` is the column that
 *   names a line.
 */
export const measuredLines = ({ title, description, unit, width, each, label, ...question }) =>
  new TimeseriesBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .displayName(`\${__field.labels.${label}}`)
    .fillOpacity(8)
    .showPoints(VisibilityMode.Auto)
    .legend(legend())
    .datasource(DATA_SOURCE)
    .repeat(each)
    .repeatDirection('h')
    .maxPerRow(2)
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
 * Marks on all charts: from a time to another, each with a title and a text.
 *
 * @param {{ name: string, color: string } & Question} marks
 */
export const marks = ({ name, color, ...question }) =>
  new AnnotationQueryBuilder()
    .name(name)
    .datasource(DATA_SOURCE)
    .enable(true)
    .iconColor(color)
    .target(target(question, 'table'))

/**
 * A choice of what the api lists; several can be chosen. The columns `__text` and `__value` are
 * what is shown and what it stands for.
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
    .multi(true)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc)
