/** The options of ingest: what each means, in which unit, and why its default is what it is. */

import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { databaseOptions } from '@sandglass/common/database'
import {
  address,
  allowRemote,
  bytes,
  contents,
  integer,
  oneOf,
  requireKeys,
  SettingError,
  url,
} from '@sandglass/common/options'
import { CLASS_DEFAULT, CLASS_NAMES } from '@sandglass/common/schema'
import { lineTopic, topicTemplates } from '@sandglass/common/topics'
import { UNPACKED_BYTES_MAX } from './http/body.js'
import { SETTLE_MS } from './sensors/placement.js'
import { hostId } from './sparkplug/host-state.js'

const KIB = 1024
const MIB = 1024 * KIB

/**
 * Cores for each process, by default: of what a message costs the engine takes a quarter, the cores
 * are not ours alone, and a process that has nothing to do costs memory.
 */
const CORES_OF_PROCESS = 4

/** The cap of the spool: none, or a useful one. @param {string} text */
function spoolBytes(text) {
  const value = bytes(0, 1024 * 1024 * MIB)(text)
  if (value > 0 && value < MIB) throw new SettingError('Give 0, or at least 1MiB.')
  return value
}

/** @param {string} text */
function brokerUrl(text) {
  const { username, password, pathname, search } = new URL(url('mqtt:', 'mqtts:')(text))
  if (username || password) {
    throw new SettingError('Give name and password as MQTT_USERNAME and MQTT_PASSWORD.')
  }
  if (pathname.length > 1 || search) throw new SettingError('Give mqtt://HOST:PORT or mqtts://…')
  return text
}

/** @param {string} text */
function smtpUrl(text) {
  const { username, password, pathname } = new URL(url('smtp:', 'smtps:')(text))
  if (username || password) {
    throw new SettingError('Give name and password as SMTP_USERNAME and SMTP_PASSWORD.')
  }
  if (pathname.length > 1) throw new SettingError('Give smtp://HOST:PORT or smtps://…')
  return text
}

/** The name of a group that shares a subscription [MQTT-4.8.2-1]. @param {string} text */
function shareName(text) {
  if (/[/+#]/.test(text)) throw new SettingError('Give a name without /, + and #.')
  return text
}

/** @type {import('@sandglass/common/options').OptionSpec<any>[]} */
export const options = [
  {
    flag: '--mqtt-listen <host:port>',
    help: 'where devices connect',
    default: '127.0.0.1:1883',
    parse: address,
  },
  {
    flag: '--mqtts-listen <host:port>',
    help: 'where they connect with TLS; needs --mqtt-tls-cert and --mqtt-tls-key',
    parse: address,
  },
  {
    flag: '--mqtt-ws-listen <host:port>',
    help: 'where they, and browsers, connect by WebSocket',
    parse: address,
  },
  {
    flag: '--mqtt-wss-listen <host:port>',
    help: 'the same with TLS',
    parse: address,
  },
  {
    flag: '--mqtt-tls-cert <file>',
    help: 'the certificate (and those it is signed by), in PEM',
    parse: contents,
  },
  { flag: '--mqtt-tls-key <file>', help: 'its key, in PEM', parse: contents },
  {
    flag: '--mqtt-url <url>',
    help: 'take messages from this broker, mqtt:// or mqtts://, and listen for no devices',
    parse: brokerUrl,
  },
  {
    flag: '--mqtt-share <name>',
    help: 'the processes that share the messages of that broker; empty: each one gets all',
    default: 'sandglass',
    parse: shareName,
  },
  {
    flag: '--mqtt-client-id <id>',
    help: 'name of this process there, always the same (default: of the host and the spool)',
  },
  {
    flag: '--mqtt-session-s <seconds>',
    help: 'how long the broker keeps messages for this process while it is away',
    default: '604800',
    parse: integer(60, 4_294_967_295),
  },
  {
    flag: '--mqtt-leave',
    help: 'take what the broker still has for this process, have it forget the process, and stop',
  },
  {
    flag: '--mqtt-ca <file>',
    help: "who signs that broker's certificate, in PEM (default: who signs those of web sites)",
    parse: contents,
  },
  {
    flag: '--mqtt-client-cert <file>',
    help: 'certificate of this process for that broker, in PEM',
    parse: contents,
  },
  { flag: '--mqtt-client-key <file>', help: 'its key, in PEM', parse: contents },
  {
    flag: '--ingest-processes <count>',
    help: 'processes that share the ports and the sensors (default: one on up to seven cores, two on 8, four on 16)',
    parse: integer(1, 64),
  },
  {
    flag: '--share-sensors',
    help: 'other ingest processes receive measurements of the same sensors (always with --mqtt-url)',
  },
  {
    flag: '--ingest-http <host:port>',
    help: 'where /stats, /metrics and /health are',
    default: '127.0.0.1:9181',
    parse: address,
  },
  {
    flag: '--body-bytes-max <size>',
    help: 'largest body of an HTTP request, also of those that the api passes on',
    default: '1MiB',
    parse: bytes(KIB, UNPACKED_BYTES_MAX),
  },
  topicTemplates,
  lineTopic,
  {
    flag: '--sparkplug-host <id>',
    help: 'tells edge nodes of Sparkplug that wait for this primary host that it is online',
    parse: hostId,
  },
  {
    flag: '--packet-bytes-max <size>',
    help: 'largest MQTT packet; a connection that sends a larger one is closed',
    default: '256KiB',
    parse: bytes(KIB, 16 * MIB),
  },
  {
    flag: '--client-messages-max <count>',
    help: 'most unacknowledged messages of one client; then it is not read until there are less',
    default: '1000',
    parse: integer(1, 65_535),
  },
  {
    flag: '--memory-bytes-max <size>',
    help: 'most memory of all that clients make ingest hold; what happens then is in the manual',
    default: '512MiB',
    parse: bytes(32 * MIB, 64 * 1024 * MIB),
  },
  {
    flag: '--held-bytes-max <size>',
    help: 'of that, messages of QoS 1 and 2 in flight; then nobody is read (default: an eighth)',
    parse: bytes(MIB, 16 * 1024 * MIB),
  },
  {
    flag: '--qos0-bytes-max <size>',
    help: 'of that, messages of QoS 0 in flight; then they are dropped (default: 1/32)',
    parse: bytes(0, 4096 * MIB),
  },
  {
    flag: '--spool-dir <directory>',
    help: 'where messages are kept while the database is away; of this process alone',
    default: './data/spool',
  },
  {
    flag: '--spool-bytes-max <size>',
    help: 'most disk for that; then messages are held in memory, then nobody is read; 0: no spool',
    default: '1GiB',
    parse: spoolBytes,
  },
  {
    flag: '--spool-after-ms <ms>',
    help: 'how long a message waits for the database before it is spooled',
    default: '1000',
    parse: integer(10, 3_600_000),
  },
  {
    flag: '--dead-letters-max <count>',
    help: 'most dead letters kept of one client a day; more are only counted',
    default: '10000',
    parse: integer(0, 1_000_000_000),
  },
  {
    flag: '--dead-letter-bytes-max <size>',
    help: 'most bytes of them, with their topics, clients and reasons',
    default: '64MiB',
    parse: bytes(0, 1024 * 1024 * MIB),
  },
  {
    flag: '--connections-max <count>',
    help: 'most MQTT connections of a process; more are refused',
    default: '20000',
    parse: integer(1, 1_000_000),
  },
  {
    flag: '--sensors-max <count>',
    help: 'most sensors; messages of unknown ones beyond that become dead letters',
    default: '100000',
    parse: integer(1, 10_000_000),
  },
  {
    flag: '--retention-class <name>',
    help: `how long new sensors' measurements are kept: ${CLASS_NAMES.join(', ')}`,
    default: CLASS_DEFAULT,
    parse: oneOf(CLASS_NAMES),
  },
  {
    flag: '--rewrite-wait-s <n>',
    help: 'how long a rewrite into another class waits until all processes know of it',
    default: `${SETTLE_MS / 1000}`,
    parse: integer(1, 86_400),
  },
  {
    flag: '--smtp-url <url>',
    help: 'the mail server that alerts are sent by, smtp:// or smtps:// (TLS from the start)',
    parse: smtpUrl,
  },
  { flag: '--mail-from <address>', help: 'whom these mails are from' },
  ...databaseOptions,
  requireKeys,
  allowRemote,
]

/**
 * How many processes share the work.
 *
 * @param {Record<string, any>} settings
 */
export function processesOf({ ingestProcesses, mqttUrl }, cores = availableParallelism()) {
  if (mqttUrl) return 1
  return ingestProcesses ?? Math.max(1, Math.floor(cores / CORES_OF_PROCESS))
}

/** The spool of a process, in that of the first one. @param {string} all  @param {number} index */
const spoolOf = (all, index) => join(all, `process-${index}`)

/**
 * Whether rows may be placed as several processes place them, by their values: now, or before, when
 * there were more processes. What they left in spools may be stored already.
 *
 * @param {Record<string, any>} settings
 */
export function sharesSensors({ shareSensors, mqttUrl, spoolDir }) {
  return shareSensors || mqttUrl !== undefined || existsSync(spoolOf(spoolDir, 1))
}

/**
 * What one of several processes may take of what all may, and its own spool. That of the first is
 * where it is with one process.
 *
 * @template {Record<string, any>} Settings
 * @param {Settings} settings
 * @param {number} index
 * @param {number} count
 * @returns {Settings}
 */
export function shareOf(settings, index, count) {
  const part = (/** @type {number | undefined} */ all) => all && Math.floor(all / count)
  return {
    ...settings,
    shareSensors: true,
    memoryBytesMax: part(settings.memoryBytesMax),
    heldBytesMax: part(settings.heldBytesMax),
    qos0BytesMax: part(settings.qos0BytesMax),
    spoolBytesMax: part(settings.spoolBytesMax),
    spoolDir: index === 0 ? settings.spoolDir : spoolOf(settings.spoolDir, index),
  }
}

/**
 * Where devices connect.
 *
 * @param {Record<string, any>} settings
 * @returns {import('./broker/listener.js').Listen[]}
 */
export function listensOf({ mqttListen, mqttsListen, mqttWsListen, mqttWssListen }) {
  /** @type {import('./broker/listener.js').Listen[]} */
  const all = [
    { kind: 'mqtt', listen: mqttListen },
    { kind: 'mqtts', listen: mqttsListen },
    { kind: 'ws', listen: mqttWsListen },
    { kind: 'wss', listen: mqttWssListen },
  ]
  return all.filter(({ listen }) => listen !== undefined)
}

/**
 * Who this server is, for TLS.
 *
 * @param {Record<string, any>} settings
 * @returns {import('./broker/listener.js').Identity | undefined}
 */
export function identityOf({ mqttTlsCert: cert, mqttTlsKey: key, mqttsListen, mqttWssListen }) {
  if (cert && key) return { cert, key }
  if (!cert && !key && !mqttsListen && !mqttWssListen) return undefined
  throw new SettingError('TLS needs both --mqtt-tls-cert and --mqtt-tls-key.')
}
