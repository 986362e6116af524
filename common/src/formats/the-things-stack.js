/**
 * The Things Stack v3: uplink messages, as its MQTT server and webhooks send them
 * (www.thethingsindustries.com/docs/integrations/data-formats).
 *
 * ```text
 * end_device_ids.device_id           the sensor, where the topic names none
 * uplink_message.decoded_payload     the metrics, as the payload formatter calls them
 * uplink_message.received_at         the time
 * lorawan.rssi, .snr, .gateways      of the gateway that heard it best, and how many did
 * lorawan.f_cnt, .f_port, .spreading_factor, .frequency
 * ```
 *
 * An uplink whose `frm_payload` nobody decoded loses that field; what the radio tells is kept.
 */

import { checkSensor, PayloadError } from '../payload.js'
import { addTree, objectOf } from './device.js'
import { addField, emptyPayload, isTree, refuse, requireSome } from './fields.js'
import { zonedMs } from './local-time.js'

/** @typedef {import('./types.js').DecodedPayload} DecodedPayload */
/** @typedef {Record<string, unknown>} Members */

const EXAMPLE = '{"end_device_ids": {"device_id": "dev1"}, "uplink_message": {}}'

/** @type {import('./types.js').Format} */
export const theThingsStack = {
  name: 'the-things-stack',
  number: 23,
  help: 'Uplinks of The Things Stack v3, for the template v3/{application}/devices/{sensor}/up',
  namesSensor: true,
  decode({ sensor }, payload) {
    const {
      uplink_message: uplink,
      end_device_ids: ids,
      received_at: at,
    } = objectOf(payload, EXAMPLE)
    if (!isTree(uplink)) throw new PayloadError('value', 'uplink_message is missing: no uplink')
    const into = emptyPayload()
    if (sensor === undefined) {
      const { device_id: id } = members(ids)
      checkSensor(id)
      into.sensor = id
    }
    addUplink(into, members(uplink), at)
    requireSome(into)
    return into
  },
}

/** @param {unknown} value  @returns {Members} */
const members = (value) => /** @type {Members} */ (isTree(value) ? value : {})

/** @param {DecodedPayload} into  @param {Members} uplink  @param {unknown} receivedAt */
function addUplink(into, uplink, receivedAt) {
  const timeMs = timeMsOf(into, uplink.received_at ?? receivedAt)
  const { decoded_payload: decoded, frm_payload: raw } = uplink
  if (isTree(decoded)) {
    addTree(into, undefined, timeMs, decoded)
  } else if (decoded !== undefined || raw !== undefined) {
    const remedy = 'give the application a payload formatter'
    const fault = new PayloadError('value', `decoded_payload is missing: ${remedy}`)
    refuse(into, 'uplink_message.decoded_payload', fault)
  }
  addRadio(into, uplink, timeMs)
}

/** @param {DecodedPayload} into  @param {Members} uplink  @param {number | undefined} timeMs */
function addRadio(into, { f_cnt, f_port, rx_metadata: heard, settings }, timeMs) {
  const gateways = (Array.isArray(heard) ? heard : []).map(members)
  const [best] = gateways
    .filter(({ rssi }) => typeof rssi === 'number')
    .sort((one, other) => Number(other.rssi) - Number(one.rssi))
  const { data_rate: rate, frequency } = members(settings)
  const { spreading_factor } = members(members(rate).lora)
  /** @type {Members} */
  const radio = { f_cnt, f_port, spreading_factor, rssi: best?.rssi, snr: best?.snr }
  // 64 bits are a text in the JSON of protocol buffers.
  if (typeof frequency === 'string' && /^\d{1,12}$/.test(frequency)) {
    radio.frequency = Number(frequency)
  }
  if (gateways.length > 0) radio.gateways = gateways.length
  for (const [name, value] of Object.entries(radio)) {
    if (value !== undefined) addField(into, `lorawan.${name}`, timeMs, value)
  }
}

/** @param {DecodedPayload} into  @param {unknown} time */
function timeMsOf(into, time) {
  if (time === undefined || time === null) return undefined
  try {
    if (typeof time === 'string') return zonedMs(time, 'received_at')
    throw new PayloadError('time', 'received_at is not a text')
  } catch (error) {
    refuse(into, 'received_at', error)
    return undefined
  }
}
