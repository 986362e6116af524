/** Numbers of MQTT in bytes of 7 bits, lowest first. */

/** @param {number} value  Below 2^28. */
export const varintBytes = (value) =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : 4

/** @param {Buffer} into  @param {number} at  @param {number} value  @returns {number}  Its end. */
export function writeVarint(into, at, value) {
  let rest = value
  while (rest > 0x7f) {
    into[at++] = (rest & 0x7f) | 0x80
    rest >>>= 7
  }
  into[at++] = rest
  return at
}
