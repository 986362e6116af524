/** `/v1/stream`: live values as server-sent events. */

import { Problem } from '@sandglass/common/problem'
import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { Follower } from '../follower.js'
import { unknownSensor } from '../measurements.js'
import * as schemas from '../schemas.js'
import { parseTime } from '../time.js'
import { valueJson } from '../value.js'
import { decodeWatermark, isWatermark, WATERMARK_LENGTH_MAX } from '../watermark.js'

/** @typedef {import('../merge.js').Row} Row */

/** How often it is looked whether there is something to say, in milliseconds. */
const BEAT_MS = 500

/** How often a quiet stream shows that it is alive, in milliseconds. */
const HEARTBEAT_MS = 10_000

/** How long a client may take nothing of what waits for it, in milliseconds. */
const STALLED_MS_MAX = 60_000

const SENSORS_MAX = 32

const schema = {
  tags: ['measurements'],
  operationId: 'streamMeasurements',
  summary: 'Live values as server-sent events',
  description:
    'Events `measurements` have an array of {"sensor", "metric", "t", "seq", "v"}, by time within ' +
    'a series; events `status` say whether the database is up, at least every ten seconds. The ' +
    'id of an event is a watermark: given back as the header Last-Event-ID, or `after`, to any ' +
    'api, the stream goes on from there and misses nothing. Values that become visible up to ten ' +
    'seconds late are told. After an interruption values beside a late one may be told again: ' +
    'the same in sensor, metric, t and seq.',
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
      after: {
        type: 'string',
        maxLength: WATERMARK_LENGTH_MAX,
        description: `The id of an event; or from when on: ${schemas.time.description}`,
      },
    },
    required: ['sensor'],
    additionalProperties: false,
  },
  response: {
    200: schemas.rawAnswer('Events, until the client goes.', ['text/event-stream']),
    ...schemas.problems,
  },
}

/** @typedef {{ Querystring: { sensor: string[], metric?: string[], after?: string } }} Stream */

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
      const { sensor: names, metric, after: afterText } = request.query
      const after = watermarkOf(request.headers['last-event-id'], afterText)
      if (streams.size >= limits.streamsMax) {
        throw new Problem('too-many-streams', `all ${limits.streamsMax} live streams are taken`)
      }
      const controller = new AbortController()
      const { signal } = controller
      const stop = () => {
        streams.delete(stop)
        controller.abort()
      }
      // The place is taken before anything is waited for, and given back when the client goes.
      streams.add(stop)
      reply.raw.once('close', stop)
      if (reply.raw.destroyed) stop()
      const sensors = [...new Set(names)].map((name) => ({ name, id: sensorId(name) }))
      await withinDeadline(reply, async () => {
        const areKnown = await Promise.all(sensors.map(({ id }) => store.isKnown(id)))
        if (areKnown.includes(false)) throw unknownSensor()
      })

      reply.hijack()
      const client = new Client(reply)
      if (signal.aborted) return client.end()
      const metrics = metric && [...new Set(metric)]
      const follower = new Follower({
        sensors,
        metrics,
        after,
        store,
        reader,
        hub,
        client,
        signal,
      })
      const status = new Status(client, follower, isDatabaseUp)
      signal.addEventListener('abort', () => {
        status.end()
        client.end()
      })
      client.begin()
      status.begin()
      follower.follow().then(
        () => status.tell(),
        (error) => {
          if (signal.aborted) return
          request.log.warn({ reason: error.message }, 'a stream could not go on')
          stop()
        },
      )
    },
  )
}

/**
 * @param {string | string[] | undefined} lastEventId
 * @param {string | undefined} after
 * @returns {import('../watermark.js').Watermark | undefined}
 */
function watermarkOf(lastEventId, after) {
  const isGiven = typeof lastEventId === 'string' && lastEventId !== ''
  const [name, text] = isGiven ? ['Last-Event-ID', lastEventId] : ['after', after]
  if (text === undefined) return undefined
  if (isWatermark(text)) return decodeWatermark(name, text)
  return { sinceMs: parseTime(name, text), series: new Map() }
}

/** The client's end of a stream. */
class Client {
  #raw
  #headers
  /** When something was written last, by the clock that only goes forward. */
  writtenMs = performance.now()

  /** @param {import('fastify').FastifyReply} reply */
  constructor(reply) {
    this.#raw = reply.raw
    this.#headers = /** @type {import('node:http').OutgoingHttpHeaders} */ (reply.getHeaders())
  }

  begin() {
    this.#raw.writeHead(200, {
      ...this.#headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    this.#raw.socket?.setNoDelay(true)
    this.write('retry: 1000\n\n')
  }

  /** @param {{ sensor: string, row: Row }[]} rows  @param {string | undefined} id */
  tell(rows, id) {
    const items = rows.map(
      ({ sensor, row: { metric, t, seq, value } }) =>
        `{"sensor":${JSON.stringify(sensor)},"metric":${JSON.stringify(metric)},` +
        `"t":${t},"seq":${seq},"v":${valueJson(value)}}`,
    )
    this.event('measurements', `[${items.join()}]`, id)
  }

  /**
   * Written as one: a client that is cut off within it has neither the event nor its id.
   *
   * @param {string} name
   * @param {string} data
   * @param {string | undefined} id
   */
  event(name, data, id) {
    this.write(`event: ${name}\n${id === undefined ? '' : `id: ${id}\n`}data: ${data}\n\n`)
  }

  /** @param {string} text */
  write(text) {
    if (this.#raw.writableEnded || this.#raw.destroyed) return
    this.writtenMs = performance.now()
    this.#raw.write(text)
  }

  isBehind() {
    return this.#raw.writableNeedDrain
  }

  async drained() {
    const raw = this.#raw
    if (!raw.writableNeedDrain || raw.destroyed) return
    const timer = setTimeout(() => raw.destroy(), STALLED_MS_MAX)
    await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      const done = () => {
        raw.off('drain', done).off('close', done)
        resolve()
      }
      raw.on('drain', done).on('close', done)
    })
    clearTimeout(timer)
  }

  cut() {
    this.#raw.destroy()
  }

  end() {
    if (!this.#raw.writableEnded) this.#raw.end()
  }
}

/** Tells whether the database is up, with the watermark, now and then. */
class Status {
  #client
  #follower
  #isDatabaseUp
  /** @type {boolean | undefined} */
  #toldUp
  /** @type {NodeJS.Timeout | undefined} */
  #timer

  /** @param {Client} client  @param {Follower} follower  @param {() => boolean} isDatabaseUp */
  constructor(client, follower, isDatabaseUp) {
    this.#client = client
    this.#follower = follower
    this.#isDatabaseUp = isDatabaseUp
  }

  begin() {
    this.tell()
    this.#timer = setInterval(() => {
      const quietMs = performance.now() - this.#client.writtenMs
      if (this.#isDatabaseUp() !== this.#toldUp || quietMs >= HEARTBEAT_MS) this.tell()
    }, BEAT_MS)
  }

  tell() {
    if (this.#client.isBehind()) return
    this.#toldUp = this.#isDatabaseUp()
    const data = `{"database":"${this.#toldUp ? 'up' : 'down'}"}`
    this.#client.event('status', data, this.#follower.id)
  }

  end() {
    clearInterval(this.#timer)
  }
}
