/**
 * SenML (RFC 8428): the records of a pack become measurements of one sensor. Pure.
 *
 * ```text
 * pack    := [record, ...]
 * record  := {"bn", "bt", "bu", "bv", "bs", "bver"}    bases of this record and those after it
 *          | {"n", "u", "t", "ut", and one of "v", "vs", "vb"; and "s"}
 * name    := bn n       device and metric, by its last / or :
 * ```
 *
 * Where the topic names the sensor, that is it, and a name below it is the metric: `boiler/temp` of
 * `boiler` is `temp`. Else the device that the first name tells is the sensor. A record of another
 * device is refused: a message is of one sensor. A name that is a device alone, such as
 * `urn:dev:ow:10e2073a01080063`, is of the metric `value`; a sum `s` is of `<metric>.sum`. A metric
 * has one unit: a record of the same name in another one is refused.
 */

import { isUnit, UNIT_RULE } from '../../metadata.js'
import { checkMetric, PayloadError, quoted, shown } from '../../payload.js'
import { isSensorName, SENSOR_NAME_RULE } from '../../sensor.js'
import { addField, emptyPayload, refuse, requireSome } from '../fields.js'

/** @typedef {import('../types.js').DecodedPayload} DecodedPayload */
/** @typedef {import('../types.js').Place} Place */
/** @typedef {Record<string, unknown>} SenmlRecord */

/** RFC 8428 §4.4: a pack of a greater version must not be used. */
const VERSION_MAX = 10

/** RFC 8428 §4.5.3: times below are relative to now, in seconds. */
const ABSOLUTE_S_MIN = 2 ** 28

/**
 * Longest name of a record with its base, in characters: a pack may have many records with one long
 * base, and each name is taken apart anew.
 */
const NAME_LENGTH_MAX = 1_024

const BASES = ['bn', 'bt', 'bu', 'bv', 'bs', 'bver']
const VALUES = ['v', 'vs', 'vb', 'vd']

/** A DEV URN without anything after the device, and one with a component (RFC 9039). */
const DEVICE = /^(urn:dev:[^:/]+:[^:/_]+)(?:_([^:/]+))?$/i

/** A level of a topic has none: sensors of line protocol are called so, too. */
const SLASH = '∕'

/**
 * @param {Place} place
 * @param {unknown} pack
 * @returns {DecodedPayload}
 * @throws {PayloadError}
 */
export function decodePack(place, pack) {
  if (!Array.isArray(pack)) throw bad('a SenML pack is an array of records')
  const into = emptyPayload()
  const state = new Pack(place, into)
  for (const [at, record] of pack.entries()) {
    if (typeof record !== 'object' || record === null || Array.isArray(record)) {
      refuse(into, `[${at}]`, bad('the record is not an object'))
    } else {
      state.add(record, `[${at}]`)
    }
  }
  if (state.units.size > 0) into.units = state.units
  requireSome(into, 'the pack holds no value')
  return into
}

/** @param {string} message */
const bad = (message) => new PayloadError('value', message)

/** @typedef {{ timeMs?: number, offsetMs?: number }} Time  Neither: when it was received. */

/** The bases that are in force, and the device that the pack is of. */
class Pack {
  /** @type {{ name: string, time: number, unit?: string, value?: number, sum?: number }} */
  #base = { name: '', time: 0 }
  /** @type {string | undefined} */
  #device
  /** By metric. @type {Map<string, string>} */
  #units = new Map()
  #place
  #into

  /** @param {Place} place  @param {DecodedPayload} into */
  constructor(place, into) {
    this.#place = place
    this.#into = into
  }

  get units() {
    return this.#units
  }

  /**
   * @param {SenmlRecord} record
   * @param {string} field  How it is called where it has no name.
   * @throws {PayloadError}  Nothing after it could be understood, either.
   */
  add(record, field) {
    const strange = Object.keys(record).find((label) => label.endsWith('_'))
    // RFC 8428 §4.4: such a field changes what the pack means.
    if (strange !== undefined)
      throw bad(`${field} has the field ${quoted(strange)}, which is not known`)
    this.#setBases(record, field)
    if (Object.keys(record).every((label) => BASES.includes(label))) return
    try {
      this.#addValues(record, field)
    } catch (error) {
      refuse(this.#into, field, error)
    }
  }

  /** @param {SenmlRecord} record  @param {string} field */
  #setBases({ bn, bt, bu, bv, bs, bver }, field) {
    if (bver !== undefined && !(typeof bver === 'number' && bver > 0 && bver <= VERSION_MAX)) {
      throw bad(`${field} is of SenML version ${quoted(bver)}; up to ${VERSION_MAX} is understood`)
    }
    if (bn !== undefined) this.#base.name = text(bn, `the bn of ${field}`)
    if (bu !== undefined) this.#base.unit = text(bu, `the bu of ${field}`)
    if (bt !== undefined) this.#base.time = number(bt, `the bt of ${field}`)
    if (bv !== undefined) this.#base.value = number(bv, `the bv of ${field}`)
    if (bs !== undefined) this.#base.sum = number(bs, `the bs of ${field}`)
  }

  /** @param {SenmlRecord} record  @param {string} field */
  #addValues(record, field) {
    const name = this.#base.name + (record.n === undefined ? '' : text(record.n, 'its n'))
    const { device, metric } = split(name, this.#place.sensor)
    checkMetric(metric)
    this.#require(device)
    const time = this.#timeOf(record.t)
    const used = this.#unitOf(metric, record.u)
    const values = VALUES.filter((label) => record[label] !== undefined)
    if (values.length > 1) throw bad(`it has ${values.join(' and ')}`)
    const { sum } = this.#base
    const value = this.#valueOf(record, values[0])
    const isSummed = record.s !== undefined || sum !== undefined
    if (value === undefined && !isSummed) throw bad('it has no value')
    if (value !== undefined) {
      this.#addField(metric, time, value, `${field}.${metric}`)
      if (used !== undefined) this.#units.set(metric, used)
    }
    if (isSummed) {
      const summed = (sum ?? 0) + (record.s === undefined ? 0 : number(record.s, 'its s'))
      this.#addField(`${metric}.sum`, time, summed, `${field}.${metric}.sum`)
    }
  }

  /**
   * @param {string} metric
   * @param {Time} time
   * @param {unknown} value
   * @param {string} field
   */
  #addField(metric, { timeMs, offsetMs }, value, field) {
    const { measurements } = this.#into
    const at = measurements.length
    addField(this.#into, metric, timeMs, value, field)
    if (offsetMs === undefined || measurements.length === at) return
    measurements[at].offsetMs = offsetMs
    this.#into.isRelative = true
  }

  /** @param {SenmlRecord} record  @param {string | undefined} label */
  #valueOf(record, label) {
    const { value: base } = this.#base
    if (label === undefined) return base
    const value = record[label]
    if (label === 'v') {
      if (typeof value === 'bigint' && base === undefined) return value
      return number(value, 'its v') + (base ?? 0)
    }
    if (label === 'vd') throw bad('it has binary data')
    if (typeof value !== (label === 'vs' ? 'string' : 'boolean')) {
      throw bad(`its ${label} is not a ${label === 'vs' ? 'text' : 'boolean'}`)
    }
    return value
  }

  /** @param {unknown} t  Seconds.  @returns {Time} */
  #timeOf(t) {
    const seconds = this.#base.time + (t === undefined ? 0 : number(t, 'its t'))
    if (!Number.isFinite(seconds)) throw new PayloadError('time', 'its time is not finite')
    // Now is when the message is received.
    if (seconds === 0) return {}
    const timeMs = Math.floor(Math.round(seconds * 1e6) / 1e3)
    if (!Number.isSafeInteger(timeMs)) throw new PayloadError('time', 'its time is too far away')
    return seconds >= ABSOLUTE_S_MIN ? { timeMs } : { offsetMs: timeMs }
  }

  /** @param {string} device  @throws {PayloadError}  It is another one than that of the pack. */
  #require(device) {
    if (this.#device === undefined) {
      if (this.#place.sensor === undefined) this.#into.sensor = sensorOf(device)
      this.#device = device
    } else if (device !== this.#device) {
      throw new PayloadError('topic', 'it is of another device than the first: send it by itself')
    }
  }

  /** @param {string} metric  @param {unknown} own  @returns {string | undefined} */
  #unitOf(metric, own) {
    const unit = own === undefined ? this.#base.unit : text(own, 'its u')
    if (unit === undefined) return undefined
    if (!isUnit(unit)) throw bad(`its u ${UNIT_RULE}`)
    const before = this.#units.get(metric)
    if (before === undefined || before === unit) return unit
    throw bad(`${shown(metric)} is in ${before}, but this is in ${unit}: give it another name`)
  }
}

/**
 * @param {string} name  The whole one.
 * @param {string | undefined} sensor  Of the topic.
 * @throws {PayloadError}
 */
function split(name, sensor) {
  if (name.length > NAME_LENGTH_MAX) {
    throw bad(`its name has more than ${NAME_LENGTH_MAX} characters`)
  }
  const whole = withoutMarks(name)
  if (whole === '') throw bad('it has no name')
  if (sensor !== undefined && whole.startsWith(sensor)) {
    const below = whole.slice(sensor.length)
    if (below === '') return { device: sensor, metric: 'value' }
    if (/^[/:.]./.test(below)) return { device: sensor, metric: below.slice(1) }
  }
  const own = DEVICE.exec(whole)
  if (own !== null) return { device: own[1], metric: own[2] ?? 'value' }
  const at = Math.max(whole.lastIndexOf('/'), whole.lastIndexOf(':'))
  return {
    device: withoutMarks(whole.slice(0, Math.max(at, 0))),
    metric: whole.slice(at + 1),
  }
}

/** Without slashes and colons at its end. @param {string} name */
function withoutMarks(name) {
  let end = name.length
  while (end > 0 && '/:'.includes(name[end - 1])) end--
  return name.slice(0, end)
}

/** @param {string} device */
function sensorOf(device) {
  if (device === '') throw new PayloadError('topic', 'no sensor is named: give a bn')
  const sensor = device.replaceAll('/', SLASH)
  if (!isSensorName(sensor)) throw new PayloadError('topic', `the sensor ${SENSOR_NAME_RULE}`)
  return sensor
}

/** @param {unknown} value  @param {string} what  @throws {PayloadError} */
function text(value, what) {
  if (typeof value !== 'string') throw bad(`${what} is not a text`)
  return value
}

/** @param {unknown} value  @param {string} what  @throws {PayloadError} */
function number(value, what) {
  if (typeof value === 'bigint') return Number(value)
  if (typeof value !== 'number') throw bad(`${what} is not a number`)
  return value
}
