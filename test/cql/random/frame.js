// Writing and reading the notations of the native protocol (CQL v4 §3).

export class Writer {
  /** @type {Buffer[]} */
  #parts = []

  bytes() {
    return Buffer.concat(this.#parts)
  }

  /** @param {number} value */
  byte(value) {
    this.#parts.push(Buffer.from([value]))
    return this
  }

  /** @param {number} value */
  short(value) {
    this.#parts.push(Buffer.from([value >> 8, value & 0xff]))
    return this
  }

  /** @param {number} value */
  int(value) {
    const bytes = Buffer.alloc(4)
    bytes.writeInt32BE(value)
    this.#parts.push(bytes)
    return this
  }

  /** @param {bigint} value */
  long(value) {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64BE(value)
    this.#parts.push(bytes)
    return this
  }

  /** @param {string} text */
  string(text) {
    return this.shortBytes(Buffer.from(text))
  }

  /** @param {string} text */
  longString(text) {
    return this.longBytes(Buffer.from(text))
  }

  /** @param {Buffer} bytes */
  shortBytes(bytes) {
    this.short(bytes.length).#parts.push(bytes)
    return this
  }

  /** @param {Buffer} bytes */
  longBytes(bytes) {
    this.int(bytes.length).#parts.push(bytes)
    return this
  }
}

/** Names of types by their number. */
const TYPES = new Map([
  [0x01, 'ascii'],
  [0x02, 'bigint'],
  [0x03, 'blob'],
  [0x04, 'boolean'],
  [0x05, 'counter'],
  [0x06, 'decimal'],
  [0x07, 'double'],
  [0x08, 'float'],
  [0x09, 'int'],
  [0x0b, 'timestamp'],
  [0x0c, 'uuid'],
  [0x0d, 'text'],
  [0x0e, 'varint'],
  [0x0f, 'timeuuid'],
  [0x10, 'inet'],
  [0x11, 'date'],
  [0x12, 'time'],
  [0x13, 'smallint'],
  [0x14, 'tinyint'],
  [0x15, 'duration'],
])

export class Reader {
  #at = 0
  #bytes

  /** @param {Buffer} bytes */
  constructor(bytes) {
    this.#bytes = bytes
  }

  short() {
    this.#at += 2
    return this.#bytes.readUInt16BE(this.#at - 2)
  }

  int() {
    this.#at += 4
    return this.#bytes.readInt32BE(this.#at - 4)
  }

  /** @param {number} length */
  #take(length) {
    this.#at += length
    if (this.#at > this.#bytes.length) throw new Error('the frame is too short')
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  shortBytes() {
    return this.#take(this.short())
  }

  string() {
    return this.shortBytes().toString()
  }

  longBytes() {
    const length = this.int()
    return length < 0 ? undefined : this.#take(length)
  }

  /** A type, as CQL writes it. @returns {string} */
  type() {
    const id = this.short()
    if (id === 0x00) return `'${this.string()}'`
    if (id === 0x20) return `list<${this.type()}>`
    if (id === 0x21) return `map<${this.type()}, ${this.type()}>`
    if (id === 0x22) return `set<${this.type()}>`
    if (id === 0x31) {
      return `tuple<${Array.from({ length: this.short() }, () => this.type()).join(', ')}>`
    }
    if (id === 0x30) {
      const name = `${this.string()}.${this.string()}`
      const field = () => `${this.string()} ${this.type()}`
      return `${name}(${Array.from({ length: this.short() }, field).join(', ')})`
    }
    const name = TYPES.get(id)
    if (name === undefined) throw new Error(`0x${id.toString(16)} is no type`)
    return name
  }
}
