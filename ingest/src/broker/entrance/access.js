/**
 * Which client may connect, publish and subscribe: with a key, given as the password. Without keys
 * (`--require-keys`) everybody may do everything, and only this machine can connect.
 */

import { desiredSensorOf, isDesiredTopic } from '@sandglass/common/desired'
import { sensorId } from '@sandglass/common/sensor'

/** @typedef {import('@sandglass/common/keys').Grant} Grant */
/** @typedef {import('@sandglass/common/topics').Topics} Topics */

/** Return codes of a CONNACK that refuses [MQTT-3.2.2.3]. */
export const REFUSED = Object.freeze({
  protocol: 1,
  identifier: 2,
  unavailable: 3,
  badPassword: 4,
  notAuthorized: 5,
})

/**
 * What of a CONNECT decides about that.
 *
 * @typedef {object} Introduction
 * @property {string | undefined} password
 * @property {string | undefined} willTopic
 */

/**
 * Whether a client with a key may publish on a topic: with the scope `write`, and a device only
 * what is its own. What is desired of devices only the platform says.
 *
 * @param {Grant | undefined} grant  Undefined where no keys are required.
 * @param {string} topic
 * @param {Topics} topics
 */
export function mayPublish(grant, topic, topics) {
  if (isDesiredTopic(topic)) return false
  if (!grant) return true
  if (!grant.scopes.has('write')) return false
  return grant.sensorId === undefined || isOwn(grant.sensorId, topic, topics)
}

/**
 * Whether it may subscribe to a filter: with the scope `read`, and a device to what is its own.
 *
 * @param {Grant | undefined} grant
 * @param {string} filter
 * @param {Topics} topics
 */
export function maySubscribe(grant, filter, topics) {
  if (!grant) return true
  if (grant.sensorId !== undefined) return isOwn(grant.sensorId, filter, topics)
  return grant.scopes.has('read')
}

/** @param {string} id  Of a sensor.  @param {string} topic  Or a filter.  @param {Topics} topics */
function isOwn(id, topic, topics) {
  const names = [topics.sensorOf(topic), topics.ownerOf(topic), desiredSensorOf(topic)]
  return names.some((name) => name !== undefined && sensorId(name) === id)
}

export class Access {
  #topics

  /**
   * @param {object} parts
   * @param {Pick<import('@sandglass/common/key-store').KeyStore, 'find' | 'confirm' | 'unasked'>}
   *   parts.keys
   * @param {Topics} parts.topics
   */
  constructor({ keys, topics }) {
    this.keys = keys
    this.#topics = topics
    /** Clients that were refused. */
    this.refused = 0
  }

  /**
   * Whether a client may connect.
   *
   * @param {Introduction} introduction
   * @param {string} address  Where it comes from.
   * @returns {Promise<Grant | number>}  What it may do, or the code of {@link REFUSED}.
   */
  async admit(introduction, address) {
    const answer = await this.#decide(introduction, address)
    if (typeof answer === 'number') this.refused++
    return answer
  }

  /** Keys that were not looked up because too many unknown ones were sent. */
  get unasked() {
    return this.keys.unasked
  }

  /** @param {Introduction} introduction  @param {string} address */
  async #decide({ password, willTopic }, address) {
    try {
      const grant = await this.keys.find(password ?? '', address)
      if (!grant) return REFUSED.badPassword
      const mayWill = willTopic === undefined || mayPublish(grant, willTopic, this.#topics)
      return mayWill ? grant : REFUSED.notAuthorized
    } catch {
      // The database cannot be asked, or not for the many keys of this client: it may come back.
      return REFUSED.unavailable
    }
  }
}
