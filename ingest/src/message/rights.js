/**
 * What the client of a message may write: every sensor, none, or the one whose device it is. A
 * message names its sensor in its topic or in its payload; whichever it is, this decides.
 */

/** @typedef {import('@sandglass/common/keys').Grant} Grant */

export class Rights {
  /** @param {'all' | 'none' | 'one'} kind  @param {string} [sensorId]  Of `one`, in lower case. */
  constructor(kind, sensorId) {
    this.kind = kind
    this.sensorId = sensorId
  }

  /** @param {string} sensorId  In lower case. */
  mayWrite(sensorId) {
    return this.kind === 'all' || (this.kind === 'one' && this.sensorId === sensorId)
  }

  /** As it is stored: null for every sensor, empty for none, or the id of the one. */
  get text() {
    if (this.kind === 'all') return null
    return this.sensorId ?? ''
  }
}

export const EVERY_SENSOR = Object.freeze(new Rights('all'))
export const NO_SENSOR = Object.freeze(new Rights('none'))

/**
 * The rights that a key gives.
 *
 * @param {Grant | undefined} grant  Undefined where no keys are required.
 */
export function rightsOf(grant) {
  if (!grant) return EVERY_SENSOR
  if (!grant.scopes.has('write')) return NO_SENSOR
  return grant.sensorId === undefined ? EVERY_SENSOR : new Rights('one', grant.sensorId)
}

/** Rights as they were stored. @param {string | null | undefined} text */
export function rightsFrom(text) {
  if (text === null || text === undefined) return EVERY_SENSOR
  return text === '' ? NO_SENSOR : new Rights('one', text)
}
