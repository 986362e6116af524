/**
 * The few kinds of panel that our dashboard has. Every one says what it shows and in what unit, and
 * asks the data source that the reader has chosen.
 */

import {
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  VizLegendOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common'
import {
  RowBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
} from '@grafana/grafana-foundation-sdk/dashboard'
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus'
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat'
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries'

/** The dashboard is this many columns wide, in Grafana's units. */
const COLUMNS = 24

const DATA_SOURCE = { type: 'prometheus', uid: '$datasource' }

/**
 * @typedef {object} Panel
 * @property {string} title
 * @property {string} description  What it shows, and what a reader does when it looks wrong.
 * @property {string} unit         As Grafana names units: `short`, `s`, `bytes`, `ops`, …
 * @property {Record<string, string>} queries  PromQL by legend.
 * @property {number} [width]      Of 24; default 8.
 * @property {boolean} [stacked]
 */

/** @param {string} title */
export const row = (title) => new RowBuilder(title)

/** Lines over time. @param {Panel} panel */
export function lines({ title, description, unit, queries, width = 8, stacked = false }) {
  const legend = new VizLegendOptionsBuilder()
    .displayMode(LegendDisplayMode.List)
    .placement(LegendPlacement.Bottom)
    .showLegend(true)
  const builder = new TimeseriesBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .min(0)
    .fillOpacity(stacked ? 40 : 8)
    .legend(legend)
    .datasource(DATA_SOURCE)
    .span(Math.min(width, COLUMNS))
    .height(8)
  return withQueries(builder, queries)
}

/**
 * One number that is good below a bound, in green, and bad above it, in red.
 *
 * @param {Panel & { badFrom: number }} panel
 */
export function number({ title, description, unit, queries, width = 4, badFrom }) {
  const thresholds = new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps([
    { value: null, color: 'green' },
    { value: badFrom, color: 'red' },
  ])
  const builder = new StatBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .thresholds(thresholds)
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']))
    .datasource(DATA_SOURCE)
    .span(width)
    .height(4)
  return withQueries(builder, queries)
}

/**
 * @template {TimeseriesBuilder | StatBuilder} B
 * @param {B} builder
 * @param {Record<string, string>} queries
 * @returns {B}
 */
function withQueries(builder, queries) {
  for (const [index, [legend, expr]] of Object.entries(queries).entries()) {
    builder.withTarget(
      new DataqueryBuilder()
        .refId(String.fromCharCode('A'.charCodeAt(0) + index))
        .datasource(DATA_SOURCE)
        .expr(expr)
        .legendFormat(legend),
    )
  }
  return builder
}
