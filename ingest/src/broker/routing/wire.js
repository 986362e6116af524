/** What subscribers of each version of MQTT say and hear otherwise. */

import { wire3 } from '../v3/wire.js'
import { wire5 } from '../v5/wire.js'

/** @typedef {import('../v5/packets.js').Filter} Filter */

/**
 * @typedef {object} Wire
 * @property {(buffer: Buffer, start: number, end: number) =>
 *   { packetId: number, id: number, filters: Filter[] }} parseSubscribe
 * @property {(buffer: Buffer, start: number, end: number) =>
 *   { packetId: number, filters: string[] }} parseUnsubscribe
 * @property {(buffer: Buffer, start: number, end: number) =>
 *   { packetId: number, code: number }} parseAcknowledgement
 * @property {(message: import('../v5/encode.js').Outgoing) => Buffer} encodePublish
 * @property {(packetId: number, codes: number[]) => Buffer} suback
 * @property {(packetId: number, were: boolean[]) => Buffer} unsuback  Which filters there were.
 * @property {(packetId: number, isKnown: boolean) => Buffer} pubrel
 */

/** @param {number} version  4 (3.1 as well) or 5.  @returns {Wire} */
export const wireOf = (version) => (version === 5 ? wire5 : wire3)
