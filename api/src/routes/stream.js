/** `/v1/stream`: live values as server-sent events. */

import { Problem } from '@sandglass/common/problem'
import { sensorId } from '@sandglass/common/sensor'
import { withinDeadline } from '../deadline.js'
import { Follower } from '../follower.js'
import { unknownSensor } from '../measurements.js'
import { decodePosition, isPosition, POSITION_LENGTH_MAX } from '../position.js'
import * as schemas from '../schemas.js'
import { parseTime } from '../time.js'
import { valueJson } from '../value.js'

/** @typedef {import('../merge.js').Row} Row */

/** How often it is looked whether there is something to say, in milliseconds. */
const BEAT_MS = 500

/** How often a quiet stream shows that it is alive, in milliseconds. */
const HEARTBEAT_MS = 10_000

const SENSORS_MAX = 32

const schema = {
  tags: ['measurements'],
  summary: 'Live values as server-sent events',
  description:
    'Events `measurements` have an array of {"sensor", "metric", "t", "seq", "v"}, by time within ' +
    'a series; events `status` say whether the database is up, at least every ten seconds. The ' +
    'id of an event is where the client is: given back as the header Last-Event-ID, or `after`, to ' +
    'any api, the stream goes on from there. Values that become visible up to ten seconds late ' +
    'are told, and none is told twice.',
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
      after: {
        type: 'string',
        maxLength: POSITION_LENGTH_MAX,
        description: `The id of an event; or from when on: ${schemas.time.description}`,
      },
    },
    required: ['sensor'],
    additionalProperties: false,
  },
  response: schemas.problems,
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
      const after = positionOf(request.headers['last-event-id'], afterText)
      if (streams.size >= limits.streamsMax) {
        throw new Problem('too-many-streams', `all ${limits.streamsMax} live streams are taken`)
      }
      const sensors = [...new Set(names)].map((name) => ({ name, id: sensorId(name) }))
      await withinDeadline(reply, async () => {
        const areKnown = await Promise.all(sensors.map(({ id }) => store.isKnown(id)))
        if (areKnown.includes(false)) throw unknownSensor()
      })

      reply.hijack()
      const controller = new AbortController()
      const { signal } = controller
      const client = new Client(reply)
      const metrics = metric && [...new Set(metric)]
      const follower = new Follower({
        ...{ sensors, metrics, after, store, reader, hub, client, signal },
      })
      const status = new Status(client, follower, isDatabaseUp)
      const stop = () => {
        controller.abort()
        status.end()
        client.end()
        streams.delete(stop)
      }
      streams.add(stop)
      reply.raw.once('close', stop)
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
 */
function positionOf(lastEventId, after) {
  const isGiven = typeof lastEventId === 'string' && lastEventId !== ''
  const [name, text] = isGiven ? ['Last-Event-ID', lastEventId] : ['after', after]
  if (text === undefined) return undefined
  if (isPosition(text)) return decodePosition(name, text)
  return { sinceMs: parseTime(name, text), sensors: new Map() }
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

  /** @param {{ sensor: string, row: Row }[]} rows  @param {string | undefined} position */
  tell(rows, position) {
    const items = rows.map(
      ({ sensor, row: { metric, t, seq, value } }) =>
        `{"sensor":${JSON.stringify(sensor)},"metric":${JSON.stringify(metric)},` +
        `"t":${t},"seq":${seq},"v":${valueJson(value)}}`,
    )
    this.event('measurements', `[${items.join()}]`, position)
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
    await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      const done = () => {
        raw.off('drain', done).off('close', done)
        resolve()
      }
      raw.on('drain', done).on('close', done)
    })
  }

  cut() {
    this.#raw.destroy()
  }

  end() {
    if (!this.#raw.writableEnded) this.#raw.end()
  }
}

/** Tells whether the database is up, and where the client is, now and then. */
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
    this.#client.event('status', data, this.#follower.position)
  }

  end() {
    clearInterval(this.#timer)
  }
}
