/**
 * What is known of a Sparkplug B edge node between its birth and its death, as the Sparkplug
 * specification 3.0 has it (chapters 4 and 6). Pure: {@link step} takes what is known and a
 * message, and gives what is known then, the measurements, and whether to ask for a rebirth.
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
 * loses a connection, or drops a message, goes on with {@link unknownSession}.
 */

import { checkMetric, PayloadError } from '../../payload.js'
import { emptyPayload, refuse } from '../fields.js'
import { sparkplugMeasurement } from './value.js'

/** @typedef {import('../types.js').DecodedPayload} DecodedPayload */
/** @typedef {import('./payload.js').SparkplugMetric} SparkplugMetric */
/** @typedef {import('./payload.js').SparkplugPayload} SparkplugPayload */
/** @typedef {{ name: string, datatype: number | undefined }} Known */
/** @typedef {'NBIRTH' | 'NDATA' | 'NDEATH' | 'DBIRTH' | 'DDATA' | 'DDEATH'} MessageType */

/**
 * @typedef {object} Session  It is never changed: a step makes another one.
 * @property {'unknown' | 'online' | 'offline'} state
 * @property {number | undefined} bdSeq  Of the birth, or of the death that came without one.
 * @property {number} seq  Of the last message; of no meaning unless online.
 * @property {ReadonlyMap<string, Scope>} scopes  What births said: of the edge node under the empty
 *   name, which no device has, and of its devices. None unless online.
 * @property {number | undefined} askedMs  When a rebirth was asked for that did not come yet.
 */

/** @typedef {{ byAlias: ReadonlyMap<bigint, Known>, byName: ReadonlyMap<string, Known> }} Scope */

/** @typedef {{ type: MessageType, device: string, payload: SparkplugPayload }} Message */

/**
 * @typedef {object} Outcome
 * @property {Session} session
 * @property {DecodedPayload} said  Measurements, and fields that are refused; maybe none of either.
 * @property {boolean} isGap  Whether a message before it was missed.
 * @property {boolean} asksRebirth  Whether to ask for a rebirth now.
 */

/** A rebirth that did not come is asked for again after this time: the request may be lost. */
export const REBIRTH_AGAIN_MS = 30_000

const SEQ_COUNT = 256

/** Where the metrics of the edge node itself are. */
const NODE = ''

/** The metrics of a birth that are not measured. */
const BD_SEQ = 'bdSeq'
const CONTROL = /^(?:Node|Device) Control\//

/** @type {Session} */
const UNKNOWN = Object.freeze({
  state: 'unknown',
  bdSeq: undefined,
  seq: 0,
  scopes: new Map(),
  askedMs: undefined,
})

/** @type {Scope} */
const NO_SCOPE = { byAlias: new Map(), byName: new Map() }

/** Of an edge node of which nothing is known: after a start, or when messages were lost. */
export function unknownSession() {
  return UNKNOWN
}

/**
 * @param {Session} session
 * @param {Message} message
 * @param {number} nowMs
 * @returns {Outcome}
 */
export function step(session, message, nowMs) {
  const { type, payload } = message
  if (type === 'NBIRTH') return bornNode(payload)
  if (type === 'NDEATH') {
    const after = afterDeath(session, bdSeqOf(payload))
    return { session: after, said: emptyPayload(), isGap: false, asksRebirth: false }
  }
  const isNext = payload.seq === (session.seq + 1) % SEQ_COUNT
  if (session.state === 'online' && isNext) return inOrder(session, message, nowMs)
  const isGap = session.state === 'online'
  const { bdSeq, askedMs } = session
  const lost = isGap
    ? { state: UNKNOWN.state, bdSeq, seq: 0, scopes: UNKNOWN.scopes, askedMs }
    : session
  const said = emptyPayload()
  addMetrics(said, payload, NO_SCOPE)
  return asking(lost, said, isGap, nowMs)
}

/** @param {SparkplugPayload} payload  @returns {Outcome} */
function bornNode(payload) {
  const said = emptyPayload()
  const { seq } = payload
  const scope = scopeOf(said, payload)
  addMetrics(said, payload, scope)
  const isFollowed = seq !== undefined && seq < SEQ_COUNT
  if (!isFollowed) {
    refuse(said, 'seq', new PayloadError('value', 'the birth has no seq from 0 to 255'))
  }
  /** @type {Session} */
  const session = {
    state: isFollowed ? 'online' : 'unknown',
    bdSeq: bdSeqOf(payload),
    seq: seq ?? 0,
    scopes: isFollowed ? new Map([[NODE, scope]]) : UNKNOWN.scopes,
    askedMs: undefined,
  }
  return { session, said, isGap: false, asksRebirth: false }
}

/**
 * @param {Session} session
 * @param {number | undefined} bdSeq  Of the death.
 * @returns {Session}
 */
function afterDeath(session, bdSeq) {
  const isOfBefore =
    session.state === 'online' &&
    session.bdSeq !== undefined &&
    bdSeq !== undefined &&
    bdSeq !== session.bdSeq
  // The will of a connection before that of the birth comes late when a broker notices late.
  if (isOfBefore) return session
  return { state: 'offline', bdSeq, seq: 0, scopes: UNKNOWN.scopes, askedMs: undefined }
}

/**
 * @param {Session} online
 * @param {Message} message  With the next sequence number.
 * @param {number} nowMs
 * @returns {Outcome}
 */
function inOrder(online, { type, device, payload }, nowMs) {
  const { state, bdSeq, askedMs } = online
  const said = emptyPayload()
  const at = type === 'NDATA' ? NODE : device
  let scopes = online.scopes
  let isUnderstood = true
  if (type === 'DBIRTH') {
    const scope = scopeOf(said, payload)
    scopes = new Map(scopes).set(at, scope)
    addMetrics(said, payload, scope)
  } else if (type === 'DDEATH') {
    const others = new Map(scopes)
    others.delete(at)
    scopes = others
  } else {
    const scope = scopes.get(at)
    isUnderstood = addMetrics(said, payload, scope ?? NO_SCOPE) && scope !== undefined
  }
  /** @type {Session} */
  const session = { state, bdSeq, seq: (online.seq + 1) % SEQ_COUNT, scopes, askedMs }
  if (!isUnderstood) return asking(session, said, false, nowMs)
  return { session, said, isGap: false, asksRebirth: false }
}

/**
 * The outcome that asks for a rebirth, unless one was asked for just before.
 *
 * @param {Session} session
 * @param {DecodedPayload} said
 * @param {boolean} isGap
 * @param {number} nowMs
 * @returns {Outcome}
 */
function asking({ state, bdSeq, seq, scopes, askedMs }, said, isGap, nowMs) {
  const asksRebirth = askedMs === undefined || nowMs - askedMs >= REBIRTH_AGAIN_MS
  const session = { state, bdSeq, seq, scopes, askedMs: asksRebirth ? nowMs : askedMs }
  return { session, said, isGap, asksRebirth }
}

/**
 * What a birth says of names and aliases.
 *
 * @param {DecodedPayload} said  To which what is strange is added.
 * @param {SparkplugPayload} birth
 * @returns {Scope}
 */
function scopeOf(said, { metrics }) {
  /** @type {Map<bigint, Known>} */
  const byAlias = new Map()
  /** @type {Map<string, Known>} */
  const byName = new Map()
  /** @type {Set<bigint>} */
  const ambiguous = new Set()
  for (const { name, alias, datatype } of metrics) {
    if (name === undefined) continue
    const known = { name, datatype }
    byName.set(name, known)
    if (alias === undefined) continue
    if (byAlias.has(alias)) ambiguous.add(alias)
    byAlias.set(alias, known)
  }
  for (const alias of ambiguous) {
    byAlias.delete(alias)
    refuse(said, `alias ${alias}`, new PayloadError('value', 'the birth has two names for it'))
  }
  return { byAlias, byName }
}

/**
 * @param {DecodedPayload} said
 * @param {SparkplugPayload} payload
 * @param {Scope} scope
 * @returns {boolean}  Whether each metric had a name.
 */
function addMetrics(said, payload, scope) {
  let isNamed = true
  for (const metric of payload.metrics) {
    const { name, alias, datatype } = metric
    const known = name === undefined ? scope.byAlias.get(alias ?? -1n) : scope.byName.get(name)
    const own = name ?? known?.name
    // Another datatype than that of the birth: the alias is of another birth.
    const isOfOther =
      name === undefined && datatype !== undefined && datatype !== (known?.datatype ?? datatype)
    if (own === undefined || isOfOther) {
      isNamed = false
      const fault = new PayloadError('value', 'no birth that was received tells its name')
      refuse(said, alias === undefined ? 'a metric' : `alias ${alias}`, fault)
    } else if (!metric.isNull && own !== BD_SEQ && !CONTROL.test(own)) {
      addMetric(said, own, metric, payload.timeMs, datatype ?? known?.datatype)
    }
  }
  return isNamed
}

/**
 * @param {DecodedPayload} said
 * @param {string} name
 * @param {SparkplugMetric} metric
 * @param {number | undefined} sentMs
 * @param {number | undefined} datatype
 */
function addMetric(said, name, { timeMs, value, unit }, sentMs, datatype) {
  try {
    checkMetric(name)
    said.measurements.push(sparkplugMeasurement(name, timeMs ?? sentMs, datatype, value))
    if (unit === undefined) return
    said.units ??= new Map()
    said.units.set(name, unit)
  } catch (error) {
    refuse(said, name, error)
  }
}

/** @param {SparkplugPayload} payload  @returns {number | undefined} */
function bdSeqOf({ metrics }) {
  const content = metrics.find(({ name }) => name === BD_SEQ)?.value?.content
  return typeof content === 'bigint' || typeof content === 'number' ? Number(content) : undefined
}
