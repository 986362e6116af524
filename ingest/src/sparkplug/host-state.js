/**
 * What ingest says of itself as a primary host of Sparkplug: whether it listens. Edge nodes that
 * wait for a host send only while it is online, and keep their data meanwhile. Pure.
 */

import { SettingError } from '@sandglass/common/options'

/** @typedef {{ topic: string, payload: Buffer, qos: 1, retain: true }} State */

export class HostState {
  #timeMs = 0

  /** @param {string} id  Of the host. */
  constructor(id) {
    this.topic = `spBv1.0/STATE/${id}`
  }

  /** A connection begins: what is said by it, and of its end, has its time. */
  /** @param {number} nowMs */
  begin(nowMs) {
    this.#timeMs = nowMs
  }

  get online() {
    return this.#say(true)
  }

  get offline() {
    return this.#say(false)
  }

  /**
   * Whether somebody says of us that we are offline: another process with the same id is gone, or
   * a connection of before.
   *
   * @param {string} topic
   * @param {Buffer | string} payload
   */
  isContradicted(topic, payload) {
    return topic === this.topic && /"online"\s*:\s*false/.test(payload.toString())
  }

  /** @param {boolean} online  @returns {State} */
  #say(online) {
    const payload = Buffer.from(JSON.stringify({ online, timestamp: this.#timeMs }))
    return { topic: this.topic, payload, qos: 1, retain: true }
  }
}

/** The id of a host, as an option. @param {string} text  @throws {SettingError} */
export function hostId(text) {
  if (/^[^/+#\p{Cc}]{1,128}$/u.test(text)) return text
  throw new SettingError('Give 1 to 128 characters without /, + and #.')
}
