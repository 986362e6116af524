/**
 * What the processes of one ingest tell the broker in the first of them, and it them: frames on a
 * socket, in order.
 *
 * ```text
 * frame := length: u32 of what follows, kind: u8, port: u32, body
 * publish body := flags: u8, topic length: u16, topic, [delivery], payload
 * flags := QoS: 2 bits, retain: 1 bit, has delivery: 1 bit
 * delivery := milliseconds until it expires: f64, length: u16, name of its session,
 *             length: u32, properties (of MQTT 5)
 * ```
 *
 * A port is the connection of one client. `retain` is a publish that is answered, in order, with
 * `retained`: its port is 1 if there was room, else 0. What is neither bytes of MQTT nor a publish
 * is JSON.
 */

/** Kinds of frames. */
export const KIND = Object.freeze({
  // To the broker.
  publish: 1,
  open: 2,
  end: 3,
  gone: 4,
  forget: 5,
  answer: 6,
  known: 7,
  decoders: 13,
  taken: 14,
  retain: 17,
  // From it.
  ask: 8,
  closed: 10,
  subscribers: 11,
  unsubscribed: 15,
  answered: 16,
  retained: 18,
  // Both ways.
  data: 12,
})

/** Bytes that may wait to leave; with more of them no more publishes are taken. */
export const WAITING_BYTES_MAX = 4 * 2 ** 20

const LENGTH_BYTES = 4
const HEAD_BYTES = 9

const EMPTY = Buffer.alloc(0)

/** @typedef {(kind: number, port: number, body: Buffer) => void} Take */

export class Link {
  #socket
  #take
  /** @type {Buffer[]} */
  #due = []
  #dueBytes = 0
  /** Chunks of a frame that is not whole. @type {Buffer[]} */
  #chunks = []
  #have = 0
  #need = LENGTH_BYTES

  /**
   * @param {import('node:net').Socket} socket
   * @param {Take} take
   */
  constructor(socket, take) {
    this.#socket = socket
    this.#take = take
    /** Called when it is full no more. @type {() => void} */
    this.onRoom = () => {}
    socket.on('data', (chunk) => this.#read(chunk))
    socket.on('drain', () => this.onRoom())
  }

  /** Whether too much waits to leave. */
  get isFull() {
    return this.#dueBytes + this.#socket.writableLength > WAITING_BYTES_MAX
  }

  /** @param {number} kind  @param {number} port  @param {Buffer[]} body  Its parts. */
  send(kind, port, ...body) {
    if (this.#socket.destroyed) return
    const head = Buffer.allocUnsafe(HEAD_BYTES)
    let bytes = HEAD_BYTES
    for (const { length } of body) bytes += length
    head.writeUInt32LE(bytes - LENGTH_BYTES, 0)
    head[LENGTH_BYTES] = kind
    head.writeUInt32LE(port, LENGTH_BYTES + 1)
    if (this.#dueBytes === 0) queueMicrotask(() => this.#flush())
    this.#dueBytes += bytes
    this.#due.push(head, ...body)
  }

  /** @param {number} kind  @param {number} port  @param {unknown} value */
  tell(kind, port, value) {
    this.send(kind, port, Buffer.from(JSON.stringify(value)))
  }

  /** Reads no further until it is to go on. */
  pause() {
    this.#socket.pause()
  }

  resume() {
    if (this.#socket.isPaused()) this.#socket.resume()
  }

  /** Sends what is due, and closes; resolves when it is closed. */
  async end() {
    if (this.#socket.destroyed) return
    await new Promise((resolve) => {
      this.#socket.once('close', resolve)
      this.#flush()
      this.#socket.end()
    })
  }

  #flush() {
    if (this.#dueBytes === 0) return
    const bytes = Buffer.concat(this.#due, this.#dueBytes)
    this.#due = []
    this.#dueBytes = 0
    this.#socket.write(bytes)
  }

  /** @param {Buffer} chunk */
  #read(chunk) {
    this.#chunks.push(chunk)
    this.#have += chunk.length
    if (this.#have < this.#need) return
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks)
    let at = 0
    for (;;) {
      const left = bytes.length - at
      this.#need = LENGTH_BYTES
      if (left >= LENGTH_BYTES) this.#need += bytes.readUInt32LE(at)
      if (left < this.#need) break
      const port = bytes.readUInt32LE(at + LENGTH_BYTES + 1)
      this.#take(bytes[at + LENGTH_BYTES], port, bytes.subarray(at + HEAD_BYTES, at + this.#need))
      at += this.#need
    }
    this.#chunks = at < bytes.length ? [bytes.subarray(at)] : []
    this.#have = bytes.length - at
  }
}

/** What a frame says in JSON. @param {Buffer} body  @returns {any} */
export const heard = (body) => JSON.parse(body.toString())

/** @typedef {import('../broker/v5/dialect.js').Delivery} Delivery */
/** @typedef {{ topic: string, payload: Buffer, qos: 0 | 1 | 2, retain: boolean,
 *   delivery?: Delivery }} Publish */

/** @param {Publish} message  @returns {Buffer[]} */
export function publishBody({ topic, payload, qos, retain, delivery }) {
  const name = Buffer.from(topic)
  const head = Buffer.allocUnsafe(3)
  head[0] = qos | (retain ? 4 : 0) | (delivery ? 8 : 0)
  head.writeUInt16LE(name.length, 1)
  return delivery ? [head, name, deliveryBytes(delivery), payload] : [head, name, payload]
}

/** Clocks that only go forward begin with their process. @param {Delivery} delivery */
function deliveryBytes({ passOn, expiresMs, from }) {
  const name = Buffer.from(from)
  const bytes = Buffer.allocUnsafe(14 + name.length + passOn.length)
  bytes.writeDoubleLE(expiresMs - performance.now(), 0)
  bytes.writeUInt16LE(name.length, 8)
  name.copy(bytes, 10)
  bytes.writeUInt32LE(passOn.length, 10 + name.length)
  passOn.copy(bytes, 14 + name.length)
  return bytes
}

/** @param {Buffer} body  @param {number} start  @returns {{ delivery: Delivery, end: number }} */
function parseDelivery(body, start) {
  const nameEnd = start + 10 + body.readUInt16LE(start + 8)
  const end = nameEnd + 4 + body.readUInt32LE(nameEnd)
  const delivery = {
    passOn: Buffer.from(body.subarray(nameEnd + 4, end)),
    expiresMs: performance.now() + body.readDoubleLE(start),
    from: body.toString('utf8', start + 10, nameEnd),
  }
  return { delivery, end }
}

/** @param {Buffer} body  @returns {Publish} */
export function parsePublishBody(body) {
  const topicEnd = 3 + body.readUInt16LE(1)
  const told = body[0] & 8 ? parseDelivery(body, topicEnd) : undefined
  const start = told?.end ?? topicEnd
  return {
    topic: body.toString('utf8', 3, topicEnd),
    payload: start < body.length ? body.subarray(start) : EMPTY,
    qos: /** @type {0 | 1 | 2} */ (body[0] & 3),
    retain: (body[0] & 4) !== 0,
    ...(told && { delivery: told.delivery }),
  }
}
