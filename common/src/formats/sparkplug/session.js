/**
 * What is known of a Sparkplug B edge node between its birth and its death, as the Sparkplug
 * specification 3.0 has it (chapters 4 and 6). {@link step} takes what is known and a message, and
 * gives what is known then, the metrics with their names, and whether to ask for a rebirth.
 *
 * ```text
 * unknown ──NBIRTH──▶ online ──NDEATH of the same bdSeq──▶ offline
 *    ▲                  │ a gap of seq                        │
 *    └──────────────────┴◀── data of it: it was not dead ─────┘     every NBIRTH leads to online
 * ```
 *
 * An alias means what the last birth said. After a gap that birth may be one that was missed, so an
 * alias is not believed any more, while names are: a value is never stored under another name. What
 * cannot be told is refused, and is told again by the rebirth.
 *
 * A birth that was missed with so many messages that the numbers fit is not noticed. So whoever
 * loses a connection, or drops a message, goes on with {@link lostSession}.
 */

import { isMetricName, NAME_LENGTH_MAX } from '../../sensor.js'
import { ownText } from '../../text.js'

/** @typedef {import('./payload.js').SparkplugMetric} SparkplugMetric */
/** @typedef {import('./payload.js').SparkplugPayload} SparkplugPayload */
/** @typedef {{ name: string, datatype: number | undefined }} Known */
/** @typedef {'NBIRTH' | 'NDATA' | 'NDEATH' | 'DBIRTH' | 'DDATA' | 'DDEATH'} MessageType */

/**
 * @typedef {object} Session  A step makes another one, which has its scopes: they are changed, not
 *   copied, for there may be thousands of devices. The one before is of no use then.
 * @property {'unknown' | 'online' | 'offline'} state
 * @property {number | undefined} bdSeq  Of the birth; none unless online.
 * @property {number} seq  Of the last message; of no meaning unless online.
 * @property {Map<string, Scope>} scopes  What births said: of the edge node under the empty
 *   name, which no device has, and of its devices. None unless online.
 * @property {number} scopeBytes  Of memory that they take.
 * @property {number | undefined} askedMs  When a rebirth was asked for that did not come yet.
 */

/**
 * @typedef {object} Scope
 * @property {ReadonlyMap<bigint, Known>} byAlias
 * @property {ReadonlyMap<string, Known>} byName
 * @property {number} bytes  Of memory that it takes.
 */

/** @typedef {{ type: MessageType, device: string, payload: SparkplugPayload }} Message */

/**
 * @typedef {object} Outcome
 * @property {Session} session
 * @property {readonly SparkplugMetric[]} metrics  Those of the message, with the names and
 *   datatypes that births told; the same objects where there is nothing to add.
 * @property {number} unnamed  How many of them have no name.
 * @property {boolean} isGap  Whether a message before it was missed.
 * @property {boolean} asksRebirth  Whether to ask for a rebirth now.
 */

/** A rebirth that did not come is asked for again after this time: the request may be lost. */
export const REBIRTH_AGAIN_MS = 30_000

const SEQ_COUNT = 256

/** Where the metrics of the edge node itself are. */
const NODE = ''

/** By which a death says which connection ended. */
const BD_SEQ = 'bdSeq'

/** What a metric takes in memory besides its name, in two maps: in bytes. */
const METRIC_BYTES = 240

/** What a device takes in memory besides its name and its metrics, in bytes. */
const DEVICE_BYTES = 400

/** @type {Session} */
const UNKNOWN = Object.freeze({
  state: 'unknown',
  bdSeq: undefined,
  seq: 0,
  scopes: new Map(),
  scopeBytes: 0,
  askedMs: undefined,
})

/** @type {Scope} */
const NO_SCOPE = { byAlias: new Map(), byName: new Map(), bytes: 0 }

/** Of an edge node of which nothing is known. */
export function unknownSession() {
  return UNKNOWN
}

/**
 * Of an edge node of which messages may have been missed. Only a rebirth helps.
 *
 * @param {Session} session
 * @returns {Session}
 */
export function lostSession({ askedMs }) {
  return { ...UNKNOWN, askedMs }
}

/**
 * @param {Session} session
 * @param {Message} message
 * @param {number} nowMs
 * @param {boolean} [mayAsk]  Whether a rebirth can be asked for now; else the next message asks.
 * @returns {Outcome}
 */
export function step(session, message, nowMs, mayAsk = true) {
  const { type, payload } = message
  if (type === 'NBIRTH') return bornNode(payload)
  if (type === 'NDEATH') {
    const after = afterDeath(session, bdSeqOf(payload))
    return { session: after, ...named(payload, NO_SCOPE), isGap: false, asksRebirth: false }
  }
  const isNext = payload.seq === (session.seq + 1) % SEQ_COUNT
  if (session.state === 'online' && isNext) return inOrder(session, message, nowMs, mayAsk)
  const isGap = session.state === 'online'
  const outcome = { session, ...named(payload, NO_SCOPE), isGap, asksRebirth: false }
  if (isGap) outcome.session = lostSession(session)
  return asking(outcome, nowMs, mayAsk)
}

/** @param {SparkplugPayload} payload  @returns {Outcome} */
function bornNode(payload) {
  const scope = scopeOf(payload)
  /** @type {Session} */
  const online = {
    state: 'online',
    bdSeq: bdSeqOf(payload),
    seq: payload.seq ?? 0,
    scopes: new Map([[NODE, scope]]),
    scopeBytes: scope.bytes,
    askedMs: undefined,
  }
  const session = isFollowable(payload) ? online : UNKNOWN
  return { session, ...named(payload, NO_SCOPE), isGap: false, asksRebirth: false }
}

/** Whether messages after a node's birth can be counted. @param {SparkplugPayload} birth */
export function isFollowable({ seq }) {
  return seq !== undefined && seq < SEQ_COUNT
}

/**
 * @param {Session} session
 * @param {number | undefined} bdSeq  Of the death.
 * @returns {Session}
 */
function afterDeath(session, bdSeq) {
  const isOfBefore = session.bdSeq !== undefined && bdSeq !== undefined && bdSeq !== session.bdSeq
  // The will of a connection before that of the birth comes late when a broker notices late.
  if (isOfBefore) return session
  return { ...UNKNOWN, state: 'offline' }
}

/**
 * @param {Session} online
 * @param {Message} message  With the next sequence number.
 * @param {number} nowMs
 * @param {boolean} mayAsk
 * @returns {Outcome}
 */
function inOrder(online, { type, device, payload }, nowMs, mayAsk) {
  const { state, bdSeq, scopes, askedMs } = online
  let { scopeBytes } = online
  // What is of any other is refused, whatever a birth said: there is no sensor of such a name.
  const isNameable = device === NODE || isMetricName(device)
  if (type === 'DBIRTH' || type === 'DDEATH') {
    scopeBytes -= deviceBytes(device, scopes.get(device))
    scopes.delete(device)
  }
  if (type === 'DBIRTH' && isNameable) {
    const born = scopeOf(payload)
    scopeBytes += deviceBytes(device, born)
    scopes.set(ownText(device), born)
  }
  // A birth has all names itself.
  const scope = type === 'DBIRTH' ? NO_SCOPE : scopes.get(device)
  /** @type {Session} */
  const session = { state, bdSeq, seq: (online.seq + 1) % SEQ_COUNT, scopes, scopeBytes, askedMs }
  const outcome = { session, ...named(payload, scope ?? NO_SCOPE), isGap: false }
  const isData = type === 'NDATA' || type === 'DDATA'
  const isUnderstood = scope !== undefined && outcome.unnamed === 0
  if (!isData || isUnderstood || !isNameable) return { ...outcome, asksRebirth: false }
  return asking({ ...outcome, asksRebirth: false }, nowMs, mayAsk)
}

/** Memory that a device takes, in bytes. @param {string} device  @param {Scope} [scope] */
function deviceBytes(device, scope) {
  return scope === undefined ? 0 : DEVICE_BYTES + 2 * device.length + scope.bytes
}

/**
 * The outcome that asks for a rebirth, unless one was asked for just before.
 *
 * @param {Outcome} outcome
 * @param {number} nowMs
 * @param {boolean} mayAsk
 * @returns {Outcome}
 */
function asking(outcome, nowMs, mayAsk) {
  const { askedMs } = outcome.session
  const isDue = askedMs === undefined || nowMs - askedMs >= REBIRTH_AGAIN_MS
  if (!isDue || !mayAsk) return outcome
  return { ...outcome, session: { ...outcome.session, askedMs: nowMs }, asksRebirth: true }
}

/** Aliases for which a birth has more than one name. @param {SparkplugPayload} birth */
export function ambiguousAliases({ metrics }) {
  /** @type {Set<bigint>} */
  const seen = new Set()
  /** @type {Set<bigint>} */
  const ambiguous = new Set()
  for (const { name, alias } of metrics) {
    if (name === undefined || alias === undefined) continue
    if (seen.has(alias)) ambiguous.add(alias)
    seen.add(alias)
  }
  return ambiguous
}

/**
 * What a birth says of names and aliases.
 *
 * @param {SparkplugPayload} birth
 * @returns {Scope}
 */
function scopeOf(birth) {
  /** @type {Map<bigint, Known>} */
  const byAlias = new Map()
  /** @type {Map<string, Known>} */
  const byName = new Map()
  let bytes = 0
  for (const { name, alias, datatype } of birth.metrics) {
    if (name === undefined) continue
    const known = { name: kept(name), datatype }
    byName.set(known.name, known)
    if (alias !== undefined) byAlias.set(alias, known)
    bytes += METRIC_BYTES + 2 * known.name.length
  }
  for (const alias of ambiguousAliases(birth)) byAlias.delete(alias)
  return { byAlias, byName, bytes }
}

/** Of a name that no metric can have, as much as shows that. @param {string} name */
function kept(name) {
  if (name.length <= NAME_LENGTH_MAX) return name
  // A copy: a part of it would keep the whole text in memory.
  return Buffer.from(name.slice(0, NAME_LENGTH_MAX + 1)).toString()
}

/**
 * Metrics with what is known of them.
 *
 * @param {SparkplugPayload} payload
 * @param {Scope} scope
 */
function named({ metrics }, scope) {
  let unnamed = 0
  const after = metrics.map((metric) => {
    const { name, alias, datatype } = metric
    const known = name === undefined ? scope.byAlias.get(alias ?? -1n) : scope.byName.get(name)
    // Another datatype than that of the birth: the alias is of another birth.
    const isOfOther =
      name === undefined && datatype !== undefined && datatype !== (known?.datatype ?? datatype)
    if (isOfOther || (known === undefined && name === undefined)) unnamed++
    if (isOfOther || known === undefined) return metric
    if (name !== undefined && (datatype ?? known.datatype) === datatype) return metric
    return { ...metric, name: known.name, datatype: datatype ?? known.datatype }
  })
  return { metrics: after, unnamed }
}

/** @param {SparkplugPayload} payload  @returns {number | undefined} */
function bdSeqOf({ metrics }) {
  const content = metrics.find(({ name }) => name === BD_SEQ)?.value?.content
  return typeof content === 'bigint' || typeof content === 'number' ? Number(content) : undefined
}
