/**
 * How ingest presents itself to an external broker, from its options. The broker keeps what a
 * process has not acknowledged under the name of that process, so it must be the same one after a
 * restart, and no other process may have it. Pure.
 */

import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { SettingError } from '@sandglass/common/options'

/** Hexadecimal digits of a hash; with the prefix 23 characters, which every broker takes. */
const HASH_LENGTH = 13

/**
 * @typedef {object} BrokerOptions
 * @property {string} mqttUrl
 * @property {string} [mqttClientId]
 * @property {string} mqttShare
 * @property {number} mqttSessionS
 * @property {Buffer} [mqttCa]
 * @property {Buffer} [mqttClientCert]
 * @property {Buffer} [mqttClientKey]
 * @property {number} clientMessagesMax
 * @property {number} packetBytesMax
 * @property {string} spoolDir
 * @property {number} spoolBytesMax
 */

/**
 * @param {BrokerOptions} options
 * @param {Record<string, string | undefined>} env  Has name and password.
 * @param {string} host  Name of this machine.
 * @returns {import('./client.js').ClientOptions}
 * @throws {SettingError}  Where options contradict each other.
 */
export function clientOptionsOf(options, env, host) {
  const { mqttUrl, mqttCa: ca, mqttClientCert: cert, mqttClientKey: key } = options
  if ((ca || cert || key) && !mqttUrl.startsWith('mqtts:')) {
    throw new SettingError('--mqtt-ca and --mqtt-client-cert are for --mqtt-url mqtts://…')
  }
  if (Boolean(cert) !== Boolean(key)) {
    throw new SettingError('--mqtt-client-cert and --mqtt-client-key are given together')
  }
  return {
    url: mqttUrl,
    clientId: clientIdOf(options, host),
    sessionS: options.mqttSessionS,
    receiveMax: options.clientMessagesMax,
    packetBytesMax: options.packetBytesMax,
    username: env.MQTT_USERNAME,
    password: env.MQTT_PASSWORD,
    ca,
    cert,
    key,
  }
}

/**
 * The name that was given; else one made of the host and the directory of the spool, which is of
 * this process alone.
 *
 * @param {BrokerOptions} options
 * @param {string} host
 */
function clientIdOf({ mqttClientId, spoolDir, spoolBytesMax }, host) {
  if (mqttClientId) return mqttClientId
  if (spoolBytesMax === 0) {
    throw new SettingError('without a spool --mqtt-client-id must tell this process from others')
  }
  const hash = createHash('sha256')
    .update(`${host}\n${resolve(spoolDir)}`)
    .digest('hex')
  return `sandglass-${hash.slice(0, HASH_LENGTH)}`
}
