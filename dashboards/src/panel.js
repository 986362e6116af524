/**
 * The kinds of panel that ask Prometheus. Every one says what it shows and in what unit, and asks
 * the data source that the reader has chosen.
 */

import {
  BigValueColorMode,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  StackingConfigBuilder,
  StackingMode,
  VizLegendOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common'
import {
  DashboardLinkBuilder,
  DashboardLinkType,
  RowBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
} from '@grafana/grafana-foundation-sdk/dashboard'
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus'
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat'
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries'

/** A dashboard is this many columns wide, in Grafana's units. */
const COLUMNS = 24

const DATA_SOURCE = { type: 'prometheus', uid: '$datasource' }

/**
 * @typedef {object} Panel
 * @property {string} title
 * @property {string} description  What it shows, and what a reader does when it looks wrong.
 * @property {string} unit         As Grafana names units: `short`, `s`, `bytes`, `ops`, …
 * @property {Record<string, string>} queries  PromQL by legend.
 * @property {number} [width]      Of 24; default 8.
 * @property {boolean} [stacked]   Whether the lines lie on each other, and sum up.
 */

/**
 * @typedef {object} Bounds
 * @property {number} [warnFrom]  Orange from here on.
 * @property {number} [badFrom]   Red from here on.
 */

/** @param {string} title */
export const row = (title) => new RowBuilder(title)

/** A legend below the lines. */
export const legend = () =>
  new VizLegendOptionsBuilder()
    .displayMode(LegendDisplayMode.List)
    .placement(LegendPlacement.Bottom)
    .showLegend(true)

/** Lines over time. @param {Panel} panel */
export function lines({ title, description, unit, queries, width = 8, stacked = false }) {
  const builder = new TimeseriesBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .min(0)
    .fillOpacity(stacked ? 40 : 8)
    .stacking(
      new StackingConfigBuilder()
        .mode(stacked ? StackingMode.Normal : StackingMode.None)
        .group('A'),
    )
    .legend(legend())
    .datasource(DATA_SOURCE)
    .span(Math.min(width, COLUMNS))
    .height(8)
  return withQueries(builder, queries)
}

/**
 * One number, green, or orange or red from a bound on. It may lead to the dashboard that says more.
 *
 * @param {Panel & Bounds & { leadsTo?: string }} panel  `leadsTo` is a dashboard's uid.
 */
export function number(panel) {
  const { title, description, unit, queries, width = 4, warnFrom, badFrom, leadsTo } = panel
  const steps = [
    { value: /** @type {number | null} */ (null), color: 'green' },
    ...(warnFrom === undefined ? [] : [{ value: warnFrom, color: 'orange' }]),
    ...(badFrom === undefined ? [] : [{ value: badFrom, color: 'red' }]),
  ]
  const builder = new StatBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .thresholds(new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps))
    .colorMode(BigValueColorMode.Background)
    .noValue('none')
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']))
    .datasource(DATA_SOURCE)
    .span(width)
    .height(4)
  if (leadsTo !== undefined) builder.links([linkTo(leadsTo)])
  return withQueries(builder, queries)
}

/** @param {string} uid */
function linkTo(uid) {
  return new DashboardLinkBuilder('More')
    .type(DashboardLinkType.Link)
    .url(`/d/${uid}?\${__url_time_range}`)
}

/**
 * @template {TimeseriesBuilder | StatBuilder} B
 * @param {B} builder
 * @param {Record<string, string>} queries
 * @returns {B}
 */
function withQueries(builder, queries) {
  for (const [index, [name, expr]] of Object.entries(queries).entries()) {
    builder.withTarget(
      new DataqueryBuilder()
        .refId(String.fromCharCode('A'.charCodeAt(0) + index))
        .datasource(DATA_SOURCE)
        .expr(expr)
        .legendFormat(name),
    )
  }
  return builder
}
