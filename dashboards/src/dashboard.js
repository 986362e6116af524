/** A dashboard of several: the same frame, with links to all others. */

import {
  DashboardBuilder,
  DashboardLinkBuilder,
  DashboardLinkType,
  DatasourceVariableBuilder,
} from '@grafana/grafana-foundation-sdk/dashboard'
import { row } from './panel.js'

/** Every dashboard of ours has this tag, by which they find each other. */
const TAG = 'sandglass'

/** @typedef {import('@grafana/grafana-foundation-sdk/cog').Builder<any>} Builder */

/**
 * @typedef {object} Description
 * @property {string} uid  Its address, which stays.
 * @property {string} title
 * @property {string} description  The question that it answers.
 * @property {Record<string, Builder[]>} sections  Panels by the title of their row.
 * @property {Builder[]} [variables]  What a reader can choose; default: the Prometheus.
 * @property {Builder[]} [annotations]  What is marked on its charts.
 * @property {string} [from]  How far back it looks at first.
 */

/**
 * A dashboard as Grafana takes it.
 *
 * @param {Description} description
 */
export function buildDashboard(description) {
  const { uid, title, sections, variables, annotations = [], from = '30m' } = description
  const builder = new DashboardBuilder(title)
    .uid(uid)
    .description(description.description)
    .tags([TAG])
    .refresh('10s')
    .time({ from: `now-${from}`, to: 'now' })
    .timezone('browser')
    .editable()
    .link(
      new DashboardLinkBuilder('Sandglass')
        .type(DashboardLinkType.Dashboards)
        .tags([TAG])
        .keepTime(true),
    )
  for (const variable of variables ?? [prometheus()]) builder.withVariable(variable)
  for (const annotation of annotations) builder.annotation(annotation)
  for (const [heading, panels] of Object.entries(sections)) {
    builder.withRow(row(heading))
    for (const panel of panels) builder.withPanel(panel)
  }
  const dashboard = builder.build()
  // Grafana numbers panels itself when they are edited; links to a panel need numbers that stay.
  for (const [index, panel] of (dashboard.panels ?? []).entries()) panel.id = index + 1
  return dashboard
}

const prometheus = () =>
  new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus')
