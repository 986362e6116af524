/** All dashboards, the first being where Grafana begins. */

import { buildApi } from './api.js'
import { buildCql } from './cql.js'
import { buildEngine } from './engine.js'
import { buildFleet } from './fleet.js'
import { buildIngest } from './ingest.js'
import { buildOverview } from './overview.js'
import { buildSensors } from './sensors.js'

/** Each dashboard as Grafana takes it. */
export const buildDashboards = () =>
  [buildOverview, buildSensors, buildFleet, buildIngest, buildEngine, buildApi, buildCql].map(
    (build) => build(),
  )
