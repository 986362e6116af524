/** `/v1/stream`: live values as server-sent events. */

import { Problem } from '@sandglass/common/problem'
import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { LATE_MS } from '../live.js'
import { unknownSensor } from '../measurements.js'
import * as schemas from '../schemas.js'
import { parseTime } from '../time.js'
import { valueJson } from '../value.js'

/** @typedef {import('../merge.js').Row} Row */

/** How often a quiet stream shows that it is alive, in milliseconds. */
const HEARTBEAT_MS = 10_000

/** A client that has not read this many bytes is let go; it comes back with its last event's id. */
const BEHIND_BYTES_MAX = 1_048_576

/** Most values that are told again to a client that comes back. */
const RESUME_ROWS_MAX = 5_000

const SENSORS_MAX = 32

const schema = {
  tags: ['measurements'],
  summary: 'Live values as server-sent events',
  description:
    'An event `measurement` has the data {"sensor", "metric", "t", "seq", "v"}; events `status` ' +
    'say whether the database is up. After an interruption the header Last-Event-ID, or `since`, ' +
    'brings what was missed by event time; a few values come twice, the same in metric, t and seq.',
  produces: ['text/event-stream'],
  querystring: {
    type: 'object',
    properties: {
      sensor: {
        type: 'array',
        minItems: 1,
        maxItems: SENSORS_MAX,
        items: schemas.sensorName,
        description: 'Name or id; give it several times for several.',
      },
      metric: schemas.metrics,
      since: { ...schemas.time, description: `From when on. ${schemas.time.description}` },
    },
    required: ['sensor'],
    additionalProperties: false,
  },
  response: schemas.problems,
}

/** @typedef {{ Querystring: { sensor: string[], metric?: string[], since?: string } }} Stream */

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts & {
 *   hub: import('../live.js').LiveHub,
 *   reader: import('../measurements.js').MeasurementReader,
 *   streams: Set<() => void>,
 * }} parts
 */
export default async function stream(app, { store, hub, reader, streams, limits, isDatabaseUp }) {
  app.get(
    '/v1/stream',
    { schema },
    async (/** @type {import('fastify').FastifyRequest<Stream>} */ request, reply) => {
      const { sensor: names, metric: metrics, since } = request.query
      const fromMs = resumeTime(request.headers['last-event-id'], since)
      if (streams.size >= limits.streamsMax) {
        throw new Problem('too-many-streams', `all ${limits.streamsMax} live streams are taken`)
      }
      const sensors = [...new Set(names)].map((name) => ({ name, id: sensorId(name) }))
      await withinDeadline(reply, async () => {
        const areKnown = await Promise.all(sensors.map(({ id }) => store.isKnown(id)))
        if (areKnown.includes(false)) throw unknownSensor()
      })

      reply.hijack()
      const client = new Client(reply, isDatabaseUp)
      const stops = sensors.map(({ id, name }) =>
        hub.watch(id, metrics, (rows) => client.tell(name, rows)),
      )
      const stop = () => {
        for (const one of stops) one()
        client.end()
        streams.delete(stop)
      }
      streams.add(stop)
      reply.raw.once('close', stop)
      client.begin()
      if (fromMs === undefined) return
      for (const { id, name } of sensors) {
        const question = { sensorId: id, metrics, fromMs, toMs: undefined }
        reader
          .read(
            { ...question, order: 'desc' },
            { limit: RESUME_ROWS_MAX, signal: AbortSignal.timeout(HEARTBEAT_MS) },
          )
          .then(({ rows }) => client.tell(name, rows.reverse()))
          .catch((error) => request.log.warn({ reason: error.message }, 'a stream did not resume'))
      }
    },
  )
}

/**
 * @param {string | string[] | undefined} lastEventId
 * @param {string | undefined} since
 */
function resumeTime(lastEventId, since) {
  if (typeof lastEventId === 'string' && lastEventId !== '') {
    return parseTime('Last-Event-ID', lastEventId)
  }
  return since === undefined ? undefined : parseTime('since', since)
}

/** The client's end of a stream. */
class Client {
  #raw
  #headers
  #isDatabaseUp
  /** @type {boolean | undefined} */
  #toldUp
  /** @type {NodeJS.Timeout | undefined} */
  #heartbeat
  #quietMs = 0

  /** @param {import('fastify').FastifyReply} reply  @param {() => boolean} isDatabaseUp */
  constructor(reply, isDatabaseUp) {
    this.#raw = reply.raw
    this.#headers = /** @type {import('node:http').OutgoingHttpHeaders} */ (reply.getHeaders())
    this.#isDatabaseUp = isDatabaseUp
  }

  begin() {
    this.#raw.writeHead(200, {
      ...this.#headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    this.#raw.socket?.setNoDelay(true)
    this.#write('retry: 1000\n\n')
    this.#beat(0)
    this.#heartbeat = setInterval(() => this.#beat(500), 500)
  }

  /** @param {number} passedMs */
  #beat(passedMs) {
    this.#quietMs += passedMs
    const isUp = this.#isDatabaseUp()
    if (isUp !== this.#toldUp) {
      this.#toldUp = isUp
      this.#write(`event: status\ndata: {"database":"${isUp ? 'up' : 'down'}"}\n\n`)
    }
    if (this.#quietMs >= HEARTBEAT_MS) this.#write(': alive\n\n')
  }

  /** @param {string} sensor  @param {Row[]} rows  Oldest first. */
  tell(sensor, rows) {
    const id = Date.now() - LATE_MS
    const name = JSON.stringify(sensor)
    let text = ''
    for (const { metric, t, seq, value } of rows) {
      text +=
        `event: measurement\nid: ${id}\ndata: {"sensor":${name},` +
        `"metric":${JSON.stringify(metric)},"t":${t},"seq":${seq},"v":${valueJson(value)}}\n\n`
    }
    if (text !== '') this.#write(text)
  }

  /** @param {string} text */
  #write(text) {
    if (this.#raw.writableEnded || this.#raw.destroyed) return
    this.#quietMs = 0
    this.#raw.write(text)
    if (this.#raw.writableLength > BEHIND_BYTES_MAX) this.#raw.destroy()
  }

  end() {
    clearInterval(this.#heartbeat)
    if (!this.#raw.writableEnded) this.#raw.end()
  }
}
