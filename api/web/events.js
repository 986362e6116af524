/**
 * Server-sent events by `fetch`: the browser's own client cannot send a key. A stream that breaks
 * is opened again with the id of its last event, so that the api tells what was missed. It may tell
 * a few values again; {@link Seen} recognises them.
 */

import { pause } from './repeat.js'
import { RestError } from './rest.js'

/** Pauses before a stream is opened again, in milliseconds. */
const RETRY_MS_MIN = 1_000
const RETRY_MS_MAX = 15_000

/** The api shows every ten seconds that a stream is alive; one silent for so long is dead. */
const SILENT_MS_MAX = 25_000

/** @typedef {{ event: string, id: string | undefined, data: string }} ServerEvent */

/** Text of a stream, in any pieces, to events (HTML, “Interpreting an event stream”). */
export class EventParser {
  #rest = ''
  #event = ''
  #id = /** @type {string | undefined} */ (undefined)
  /** @type {string[]} */
  #data = []

  /** @param {string} text  @returns {ServerEvent[]}  Those that it completes. */
  feed(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/)
    this.#rest = lines.pop() ?? ''
    return lines.flatMap((line) => this.#take(line))
  }

  /** @param {string} line  @returns {ServerEvent[]} */
  #take(line) {
    if (line === '') return this.#dispatch()
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? []
    if (field === 'event') this.#event = value
    else if (field === 'data') this.#data.push(value)
    else if (field === 'id') this.#id = value
    return []
  }

  #dispatch() {
    const event = { event: this.#event || 'message', id: this.#id, data: this.#data.join('\n') }
    const isEmpty = this.#data.length === 0
    this.#event = ''
    this.#data = []
    return isEmpty ? [] : [event]
  }
}

/** Values that are remembered, to recognise those that are told again. */
const SEEN_MAX = 20_000

/** Tells new values from those that a stream tells again after an interruption. */
export class Seen {
  /** In the order of their coming. @type {Set<string>} */
  #keys = new Set()

  /**
   * @param {{ sensor: string, metric: string, t: number, seq: number }} item
   * @returns {boolean}  Whether it was not there before.
   */
  add({ sensor, metric, t, seq }) {
    const key = `${sensor}\n${metric}\n${t}\n${seq}`
    if (this.#keys.has(key)) return false
    this.#keys.add(key)
    if (this.#keys.size > SEEN_MAX) {
      const [oldest] = this.#keys
      this.#keys.delete(oldest)
    }
    return true
  }
}

/**
 * Listens until it is told to stop, or the api says that there is nothing to listen to.
 *
 * @param {import('./rest.js').Rest} rest
 * @param {string} path
 * @param {object} listener
 * @param {(event: ServerEvent) => void} listener.onEvent
 * @param {() => void} listener.onOpen  The stream is open, perhaps again.
 * @param {(error: RestError) => void} listener.onError  It is broken, or refused.
 * @param {AbortSignal} signal
 */
export async function listen(rest, path, { onEvent, onOpen, onError }, signal) {
  /** @type {string | undefined} */
  let lastId
  let retryMs = RETRY_MS_MIN
  while (!signal.aborted) {
    const silence = new Silence()
    try {
      const headers = lastId === undefined ? undefined : { 'last-event-id': lastId }
      const both = AbortSignal.any([signal, silence.signal])
      const response = await rest.open(path, { headers, signal: both, cache: 'no-store' })
      onOpen()
      retryMs = RETRY_MS_MIN
      const parser = new EventParser()
      for await (const text of pieces(response)) {
        silence.heard()
        for (const event of parser.feed(text)) {
          lastId = event.id ?? lastId
          onEvent(event)
        }
      }
      throw new RestError(0, 'stream-ended', 'The live stream was interrupted.')
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof RestError)) throw error
      onError(error)
      if (error.status >= 400 && error.status < 500 && error.status !== 429) return
    } finally {
      silence.end()
    }
    await pause(retryMs, signal)
    retryMs = Math.min(RETRY_MS_MAX, retryMs * 2)
  }
}

/**
 * The text of an answer as it comes; a break in it is an error of ours.
 *
 * @param {Response} response
 */
async function* pieces(response) {
  const decoder = new TextDecoder()
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader()
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new RestError(0, 'api-away', 'The live stream was interrupted.')
    })
    if (done) return
    yield decoder.decode(value, { stream: true })
  }
}

/** Ends a stream from which nothing is heard any more. */
class Silence {
  #controller = new AbortController()
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer

  constructor() {
    this.heard()
  }

  get signal() {
    return this.#controller.signal
  }

  heard() {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#controller.abort(), SILENT_MS_MAX)
  }

  end() {
    clearTimeout(this.#timer)
    this.#controller.abort()
  }
}
