// The few MQTT 3.1.1 packets that a publisher sends and receives, as bytes.
//
// Written by hand for two reasons: the load generator must cost less than what it measures, and a
// publisher that keeps its own record must not hide resends behind a library.
//
// ```text
// packet  := header: u8 (type << 4 | flags) | length: 1..4 bytes, 7 bits each, low first | body
// CONNECT := "MQTT" | 4 | flags | keep alive: u16 | client id
// PUBLISH := topic | packet id: u16 | payload             flags: 8 duplicate, 2 QoS 1
// PUBACK, CONNACK := two bytes of body
// ```

/** Packet types as they stand in the upper four bits of the first byte. */
export const TYPE = Object.freeze({ connack: 2, puback: 4, pingresp: 13 })

const PING = Buffer.from([0xc0, 0])
const DISCONNECT = Buffer.from([0xe0, 0])
const FLAG_CLEAN_SESSION = 2
const EMPTY = Buffer.alloc(0)

/** Largest packet id; 0 is not one (MQTT-2.3.1-1). */
export const PACKET_ID_MAX = 65_535

/** Asks the broker for a sign of life. */
export function ping() {
  return PING
}

/** Says goodbye, so that no will is published. */
export function disconnect() {
  return DISCONNECT
}

/**
 * @param {{ clientId: string, keepAliveS: number, clean: boolean }} options
 * @returns {Buffer}
 */
export function connect({ clientId, keepAliveS, clean }) {
  const id = Buffer.from(clientId)
  const body = Buffer.alloc(12 + id.length)
  body.write('\0\x04MQTT\x04', 'latin1')
  body[7] = clean ? FLAG_CLEAN_SESSION : 0
  body.writeUInt16BE(keepAliveS, 8)
  body.writeUInt16BE(id.length, 10)
  id.copy(body, 12)
  return Buffer.concat([header(0x10, body.length), body])
}

/**
 * A PUBLISH of QoS 1.
 *
 * @param {string} topic
 * @param {string} payload
 * @param {number} id
 * @param {boolean} duplicate  Set when the same message is sent again.
 * @returns {Buffer}
 */
export function publish(topic, payload, id, duplicate) {
  const topicBytes = Buffer.byteLength(topic)
  const length = 4 + topicBytes + Buffer.byteLength(payload)
  const lead = header(duplicate ? 0x3a : 0x32, length)
  const packet = Buffer.allocUnsafe(lead.length + length)
  let at = lead.copy(packet)
  at = packet.writeUInt16BE(topicBytes, at)
  at += packet.write(topic, at)
  at = packet.writeUInt16BE(id, at)
  packet.write(payload, at)
  return packet
}

/**
 * @param {number} first
 * @param {number} length
 */
function header(first, length) {
  const bytes = [first]
  let rest = length
  do {
    bytes.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0))
    rest >>>= 7
  } while (rest > 0)
  return Buffer.from(bytes)
}

/**
 * Cuts what a broker sends to a publisher into packets. All of them have two bytes of body or none.
 */
export class PacketReader {
  /** @type {Buffer} */
  #rest = EMPTY

  /**
   * @param {Buffer} chunk
   * @param {(type: number, body: number) => void} take  The packet's type, and its body as a number
   *   of 16 bits: for PUBACK that is the packet id, for CONNACK the return code.
   */
  push(chunk, take) {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    while (bytes.length - at >= 2) {
      const length = bytes[at + 1]
      if (length !== 0 && length !== 2) {
        throw new Error(
          `a packet of type ${bytes[at] >> 4} with ${length} bytes is not for a publisher`,
        )
      }
      if (bytes.length - at < 2 + length) break
      take(bytes[at] >> 4, length === 2 ? bytes.readUInt16BE(at + 2) : 0)
      at += 2 + length
    }
    this.#rest = at === bytes.length ? EMPTY : bytes.subarray(at)
  }
}
