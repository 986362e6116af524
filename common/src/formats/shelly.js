/**
 * Shelly (shelly-api-docs.shelly.cloud). Its first generation publishes values, the later ones
 * objects:
 *
 * ```text
 * shellies/<id>/relay/0/power       21.5                       relay.0.power
 * <prefix>/status/switch:0          {"id": 0, "apower": 8.9}   switch:0.apower
 * <prefix>/events/rpc               {"method": "NotifyStatus", "params": {"ts", "switch:0": {…}}}
 *                                   {"method": "NotifyEvent", "params": {"ts", "events": […]}}
 * ```
 *
 * A notification is of the time `ts`, in seconds; before the device has a clock, it is of when it
 * was received. The name of an event is a text: `input:0.event` is `single_push`.
 */

import { PayloadError, quoted } from '../payload.js'
import { addTree, addValue, metricOf } from './device.js'
import { readPlainOrObject } from './encoding/text.js'
import { addField, emptyPayload, isTree, refuse, requireSome } from './fields.js'

/** @typedef {import('./types.js').DecodedPayload} DecodedPayload */
/** @typedef {Record<string, unknown>} Members */

const STATUS = /^status[./](.+)$/
const STATUSES = new Set(['NotifyStatus', 'NotifyFullStatus'])

/** Times before the year 2000 are counts of a device without a clock, in seconds. */
const CLOCK_S_MIN = 946_684_800
const CLOCK_S_MAX = 1e11

/** Most events of a notification. */
const EVENTS_MAX = 100

/** @type {import('./types.js').Format} */
export const shelly = {
  name: 'shelly',
  number: 22,
  help: 'Shelly of all generations, for templates such as shellies/{sensor}/{metric...}',
  decode(place, payload) {
    const body = readPlainOrObject(payload)
    const into = emptyPayload()
    if (!isTree(body)) {
      addValue(into, metricOf(place), undefined, body)
    } else if ('method' in body) {
      addNotification(into, /** @type {Members} */ (body))
    } else {
      const metric = metricOf(place)
      addComponent(into, STATUS.exec(metric)?.[1] ?? metric, undefined, body)
    }
    requireSome(into)
    return into
  },
}

/** @param {DecodedPayload} into  @param {Members} notification */
function addNotification(into, { method, params }) {
  if (!isTree(params)) throw new PayloadError('value', 'params is not an object')
  const { ts, events, ...components } = /** @type {Members} */ (params)
  if (method === 'NotifyEvent') {
    addEvents(into, events, clockMs(into, ts, 'ts'))
    return
  }
  if (typeof method !== 'string' || !STATUSES.has(method)) {
    throw new PayloadError('value', 'method is not NotifyStatus, NotifyFullStatus or NotifyEvent')
  }
  const timeMs = clockMs(into, ts, 'ts')
  for (const [name, component] of Object.entries(components)) {
    addComponent(into, name, timeMs, component)
  }
}

/**
 * @param {DecodedPayload} into
 * @param {string} name
 * @param {number | undefined} timeMs
 * @param {unknown} component
 */
function addComponent(into, name, timeMs, component) {
  if (!isTree(component)) {
    addValue(into, name, timeMs, component)
    return
  }
  const { id, ...values } = /** @type {Members} */ (component)
  // The id is what the name ends in.
  addTree(into, name, timeMs, name.endsWith(`:${id}`) ? values : component)
}

/** @param {DecodedPayload} into  @param {unknown} events  @param {number | undefined} timeMs */
function addEvents(into, events, timeMs) {
  if (!Array.isArray(events) || events.length > EVENTS_MAX) {
    throw new PayloadError('value', `events is not an array of at most ${EVENTS_MAX} events`)
  }
  for (const [at, one] of events.entries()) {
    const { component, event, ts } = /** @type {Members} */ (isTree(one) ? one : {})
    if (typeof component === 'string' && typeof event === 'string') {
      const ownMs = clockMs(into, ts, `events[${at}].ts`)
      addField(into, `${component}.event`, ownMs ?? timeMs, event)
    } else {
      refuse(into, `events[${at}]`, new PayloadError('value', 'it has no component and event'))
    }
  }
}

/**
 * @param {DecodedPayload} into
 * @param {unknown} seconds
 * @param {string} field
 */
function clockMs(into, seconds, field) {
  if (seconds === undefined || seconds === null) return undefined
  if (typeof seconds !== 'number' || !(seconds < CLOCK_S_MAX)) {
    refuse(into, field, new PayloadError('time', `${field} is not a time but ${quoted(seconds)}`))
    return undefined
  }
  if (seconds < CLOCK_S_MIN) return undefined
  return Math.floor(Math.round(seconds * 1e6) / 1e3)
}
