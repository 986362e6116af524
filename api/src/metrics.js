/** What the api counts. */

import { Counter, Gauge, Histogram } from 'prom-client'

/** Seconds; the targets of pages and latest values lie between the first ones. */
const SECONDS = [0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

/** @typedef {ReturnType<typeof createMetrics>} Metrics */

/**
 * @param {import('prom-client').Registry} registry
 * @param {object} state
 * @param {() => boolean} state.isDatabaseUp
 * @param {() => number} state.streams
 * @param {{ unasked: number }} state.keys
 * @param {{ counts: Readonly<Record<string, number>> }} state.claims
 * @param {{ bodiesCut: number, answersCut: number }} state.pace
 * @param {{ bytes: number, refused: number }} state.bodies
 */
export function createMetrics(registry, state) {
  const { isDatabaseUp, streams, keys, claims, pace, bodies } = state
  const registers = [registry]
  new Gauge({
    name: 'sandglass_api_database_up',
    help: '1 while the database answers.',
    registers,
    collect() {
      this.set(isDatabaseUp() ? 1 : 0)
    },
  })
  new Gauge({
    name: 'sandglass_api_streams',
    help: 'Live streams that are open.',
    registers,
    collect() {
      this.set(streams())
    },
  })
  countKeys(registers, keys, claims)
  new Counter({
    name: 'sandglass_api_bodies_cut_total',
    help: 'Requests whose body came too slowly.',
    registers,
    collect() {
      this.reset()
      this.inc(pace.bodiesCut)
    },
  })
  new Counter({
    name: 'sandglass_api_answers_cut_total',
    help: 'Answers that were not read.',
    registers,
    collect() {
      this.reset()
      this.inc(pace.answersCut)
    },
  })
  new Gauge({
    name: 'sandglass_api_body_bytes',
    help: 'Memory taken for the bodies of requests.',
    registers,
    collect() {
      this.set(bodies.bytes)
    },
  })
  new Counter({
    name: 'sandglass_api_bodies_refused_total',
    help: 'Requests refused because too many bodies came at once.',
    registers,
    collect() {
      this.reset()
      this.inc(bodies.refused)
    },
  })
  const cut = new Counter({
    name: 'sandglass_api_connections_cut_total',
    help: 'Connections ended because TLS was not agreed on, or headers did not come in time.',
    labelNames: /** @type {const} */ (['reason']),
    registers,
  })
  for (const reason of ['tls', 'headers']) cut.inc({ reason }, 0)
  return {
    cut,
    requests: new Counter({
      name: 'sandglass_api_requests_total',
      help: 'Requests answered.',
      labelNames: /** @type {const} */ (['route', 'status']),
      registers,
    }),
    seconds: new Histogram({
      name: 'sandglass_api_request_seconds',
      help: 'From a request to the end of its answer; streams, exports and imports left out.',
      labelNames: /** @type {const} */ (['route']),
      buckets: SECONDS,
      registers,
    }),
  }
}

/**
 * @param {import('prom-client').Registry[]} registers
 * @param {{ unasked: number }} keys
 * @param {{ counts: Readonly<Record<string, number>> }} claims
 */
function countKeys(registers, keys, claims) {
  new Counter({
    name: 'sandglass_api_keys_unasked_total',
    help: 'Keys not looked up: too many before them were unknown.',
    registers,
    collect() {
      this.reset()
      this.inc(keys.unasked)
    },
  })
  new Counter({
    name: 'sandglass_api_claims_total',
    help: 'Attempts to get a key by a claim key, by how they ended.',
    labelNames: /** @type {const} */ (['outcome']),
    registers,
    collect() {
      this.reset()
      for (const [outcome, count] of Object.entries(claims.counts)) this.inc({ outcome }, count)
    },
  })
}
