/**
 * The HTTP application: routes over a store, errors as problem documents, the page. It does not
 * listen; `main.js` does, and tests inject requests.
 */

import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import compress from '@fastify/compress'
import rateLimit from '@fastify/rate-limit'
import fastifyStatic from '@fastify/static'
import { Evaluator } from '@sandglass/common/expressions/evaluator'
import { PACE, Pace } from '@sandglass/common/pace'
import { PROBLEM_TYPE, Problem } from '@sandglass/common/problem'
import { Semaphore } from '@sandglass/common/semaphore'
import { LINE_TOPIC_DEFAULT, Topics } from '@sandglass/common/topics'
import Fastify, { LogController } from 'fastify'
import { bodyShare, limitBodyMemory } from './body-memory.js'
import { Catalog } from './catalog.js'
import {
  answerClientError,
  closeWaitingAnswers,
  endFailedHandshakes,
  serverOptions,
} from './connections.js'
import { Decoders } from './decoders.js'
import { SeriesDownsampler } from './downsample/reader.js'
import { guard, TRANSFERS } from './guard.js'
import { LiveHub } from './live.js'
import { MeasurementReader } from './measurements.js'
import { MetadataReader } from './metadata/metadata.js'
import { Methods } from './methods.js'
import { createMetrics } from './metrics.js'
import { describe } from './openapi.js'
import alerts from './routes/alerts.js'
import claimsRoutes from './routes/claims.js'
import dashboards from './routes/dashboards.js'
import deadLetters from './routes/dead-letters.js'
import decoderRoutes from './routes/decoders.js'
import deletions from './routes/deletions.js'
import desired from './routes/desired.js'
import exports from './routes/export.js'
import imports from './routes/import.js'
import ingest, { tries } from './routes/ingest.js'
import keysRoutes from './routes/keys.js'
import latest from './routes/latest.js'
import measurements from './routes/measurements.js'
import metadataRoutes from './routes/metadata.js'
import receivers from './routes/receivers.js'
import rules from './routes/rules.js'
import sensors from './routes/sensors.js'
import series from './routes/series.js'
import service from './routes/service.js'
import status from './routes/status.js'
import stream from './routes/stream.js'
import { validatorOf } from './validator.js'

/** @typedef {import('fastify').FastifyInstance} FastifyInstance */

/**
 * @typedef {object} Limits
 * @property {number} requestsPerS  Of one client address; 0 is no limit.
 * @property {number} bodyBytesMax
 * @property {number} importBytesMax  Of a file, unpacked.
 * @property {number} streamsMax  Live streams at once.
 * @property {import('@sandglass/common/pace').PaceLimits} [pace]  Of bodies and headers.
 * @property {number} [handshakeMs]  Longest handshake of TLS.
 */

/**
 * @typedef {object} Parts  What the application is made from.
 * @property {import('./store.js').Store} store
 * @property {Catalog} [catalog]  Of all sensors; one of its own if none is given.
 * @property {() => boolean} isDatabaseUp
 * @property {import('./ingest-client.js').IngestClient} ingest
 * @property {import('prom-client').Registry} registry
 * @property {Limits} limits
 * @property {import('@sandglass/common/topics').Topics} [topics]  Of MQTT, that carry measurements.
 * @property {string} [lineTopic]  First levels of MQTT topics whose messages are line protocol.
 * @property {boolean} isLoopback  Only this machine can reach it: then `Host` must say so too, or
 *   a foreign page could reach it by a name of its own.
 * @property {import('@sandglass/common/key-store').KeyStore} keys
 * @property {import('@sandglass/common/claim-store').ClaimStore} claims
 * @property {boolean} requireKeys  Only who has a key is served.
 * @property {{ cert: Buffer, key: Buffer }} [https]  PEM.
 * @property {import('pino').Logger} [logger]
 */

/** Queries in flight for all requests together, well within what one connection takes. */
const QUERIES_AT_ONCE_MAX = 512

/** At which a file has to come at least, in bytes a second: few of them are imported at once. */
const IMPORT_BYTES_PER_S_MIN = 8_192

/**
 * How answers are compressed for clients that ask for it: by what every client knows, at the level
 * that costs least. Of what is shorter a client would gain nothing.
 */
/** @type {import('@fastify/compress').FastifyCompressOptions} */
const COMPRESSION = {
  encodings: ['gzip', 'deflate'],
  zlibOptions: { level: 1 },
  threshold: 1_024,
  globalDecompression: false,
}

const WEB = join(dirname(fileURLToPath(import.meta.url)), '../web')
const UPLOT = dirname(fileURLToPath(import.meta.resolve('uplot/dist/uPlot.min.css')))

/** @param {Parts} parts */
export async function buildApp(parts) {
  const { logger, limits } = parts
  /** @type {Set<() => void>} */
  const streams = new Set()
  const pace = new Pace(limits.pace)
  const bodies = bodyShare(limits.bodyBytesMax)
  const measured = { ...parts, pace, bodies, streams: () => streams.size }
  const metrics = createMetrics(parts.registry, measured)
  const app = Fastify({
    ...serverOptions(parts.https, limits.pace ?? PACE, limits.handshakeMs),
    loggerInstance: /** @type {import('fastify').FastifyBaseLogger | undefined} */ (logger),
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: limits.bodyBytesMax,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 512 },
    frameworkErrors: (error, _request, reply) => {
      sendProblem(reply, explain(error))
    },
    clientErrorHandler: (error, socket) => answerClientError(error, socket, metrics),
  })
  endFailedHandshakes(app.server, metrics)
  watchRequests(app, pace)
  measure(app, metrics)
  guard(app, parts)
  limitBodyMemory(app, bodies, limits.bodyBytesMax)
  app.setValidatorCompiler(validatorOf)
  answerFailures(app)
  await limitRequests(app, limits)
  await app.register(compress, COMPRESSION)
  await describe(app, { ...parts, web: WEB })

  const gate = new Semaphore(QUERIES_AT_ONCE_MAX)
  const { store } = parts
  const shared = {
    ...parts,
    gate,
    streams,
    catalog: parts.catalog ?? new Catalog({ store }),
    metadata: new MetadataReader({ store }),
    ...decodersOf(app, parts),
    reader: new MeasurementReader({ store, gate }),
    downsampler: new SeriesDownsampler({ store, gate }),
    hub: new LiveHub({
      store,
      gate,
      onError: ({ message }) => app.log.debug({ reason: message }, 'a poll failed'),
    }),
  }
  app.register(sensors, shared)
  app.register(metadataRoutes, shared)
  app.register(latest, shared)
  app.register(measurements, shared)
  app.register(deletions, shared)
  app.register(desired, shared)
  app.register(series, shared)
  app.register(exports, shared)
  app.register(status, shared)
  app.register(stream, shared)
  app.register(deadLetters, shared)
  app.register(ingest, shared)
  app.register(tries, shared)
  app.register(imports, shared)
  app.register(keysRoutes, shared)
  app.register(claimsRoutes, shared)
  app.register(decoderRoutes, shared)
  app.register(dashboards, shared)
  app.register(rules, shared)
  app.register(receivers, shared)
  app.register(alerts, shared)
  app.register(service, shared)
  app.register(fastifyStatic, { root: WEB, cacheControl: false })
  app.register(fastifyStatic, { root: UPLOT, prefix: '/vendor/uplot/', decorateReply: false })
  app.addHook('preClose', async () => {
    for (const stop of streams) stop()
  })
  return app
}

/** @param {FastifyInstance} app  @param {Parts} parts */
function decodersOf(app, { store, topics = new Topics(), lineTopic = LINE_TOPIC_DEFAULT, logger }) {
  const evaluator = new Evaluator({ logger })
  app.addHook('onClose', async () => evaluator.stop())
  const decoders = new Decoders({ store: store.decoders, evaluator, topics, lineTopic })
  return { topics, lineTopic, decoders }
}

/** @param {FastifyInstance} app  @param {Pace} pace */
function watchRequests(app, pace) {
  closeWaitingAnswers(app.server)
  pace.watchServer(app.server)
  // By its route: a client may spell the path of one in many ways.
  app.addHook('onRequest', async ({ raw, routeOptions }) => {
    if (routeOptions.url === '/v1/import') pace.hasten(raw, IMPORT_BYTES_PER_S_MIN)
  })
}

/** @param {FastifyInstance} app  @param {import('./metrics.js').Metrics} metrics */
function measure(app, metrics) {
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none'
    metrics.requests.inc({ route, status: reply.statusCode })
    if (!TRANSFERS.has(route)) metrics.seconds.observe({ route }, reply.elapsedTime / 1000)
  })
}

/** How a request fails. @param {FastifyInstance} app */
function answerFailures(app) {
  app.setErrorHandler((/** @type {Error} */ error, request, reply) => {
    const problem = explain(error)
    if (problem.status === 500 && !reply.raw.destroyed) {
      request.log.error({ err: error, url: request.url }, 'a request failed')
    }
    return sendProblem(reply, problem)
  })
  const methods = new Methods(app)
  // Before a body is looked at that nobody reads.
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) throw methods.explain(request, reply)
  })
  app.setNotFoundHandler((request, reply) => sendProblem(reply, methods.explain(request, reply)))
}

/** @param {FastifyInstance} app  @param {Limits} limits */
async function limitRequests(app, { requestsPerS }) {
  if (requestsPerS > 0) {
    await app.register(rateLimit, {
      max: requestsPerS,
      timeWindow: 1_000,
      errorResponseBuilder: () =>
        new Problem('too-many-requests', `at most ${requestsPerS} requests a second`, {
          retryAfterS: 1,
        }),
    })
  }
}

/** @param {import('fastify').FastifyReply} reply  @param {Problem} problem */
function sendProblem(reply, problem) {
  if (problem.status === 401) reply.header('www-authenticate', 'Bearer realm="sandglass"')
  if (problem.retryAfterS !== undefined) reply.header('retry-after', problem.retryAfterS)
  return reply.code(problem.status).type(PROBLEM_TYPE).send(JSON.stringify(problem))
}

/** Codes of Fastify's errors, and what they are to a client. */
const FASTIFY_CODES = new Map([
  ['FST_ERR_CTP_BODY_TOO_LARGE', 'body-too-large'],
  ['FST_ERR_CTP_INVALID_MEDIA_TYPE', 'unsupported-media-type'],
])

/**
 * Any error as a problem; what nobody expected is a fault of ours and tells nothing.
 *
 * @param {Error & Partial<import('fastify').FastifyError>} error
 * @returns {Problem}
 */
function explain(error) {
  if (error instanceof Problem) return error
  if (error.validation) return explainValidation(error)
  const code = /** @type {import('@sandglass/common/problem').Code | undefined} */ (
    FASTIFY_CODES.get(error.code ?? '')
  )
  if (code) return new Problem(code, error.message)
  if (error.statusCode && error.statusCode < 500) {
    const isBody = error instanceof SyntaxError || error.code?.startsWith('FST_ERR_CTP')
    return new Problem(isBody ? 'invalid-body' : 'invalid-request', error.message)
  }
  return new Problem('internal', 'this is a fault of the api: its log says more')
}

/** @param {Partial<import('fastify').FastifyError>} error */
function explainValidation({ validation = [], validationContext }) {
  const [{ instancePath, message, params }] = validation
  const [, inPath] = instancePath.split('/')
  const named = params.missingProperty ?? params.additionalProperty ?? inPath
  const parameter = named === undefined ? undefined : String(named)
  const detail =
    params.additionalProperty === undefined
      ? `${parameter ?? validationContext} ${params.missingProperty ? 'is missing' : message}`
      : `there is no parameter ${parameter}: see /docs`
  return new Problem(validationContext === 'body' ? 'invalid-body' : 'invalid-parameter', detail, {
    parameter,
  })
}
