// Statements to a database over the native protocol, and its answers as plain data, so that those
// of two databases can be compared to the byte. A driver would hide what this is about: unset and
// empty values, the bytes of a row, the names of bind markers, pages.
import { once } from 'node:events'
import { connect } from 'node:net'
import { Reader, Writer } from './frame.js'

const OPCODE = {
  error: 0x00,
  startup: 0x01,
  query: 0x07,
  prepare: 0x09,
  execute: 0x0a,
  batch: 0x0d,
}
const KIND = { void: 1, rows: 2, prepared: 4 }
const UNPREPARED = 0x2500
const HEADER_BYTES = 9
const WARNING_FLAG = 8
/** Pages after which a result is taken to be endless. */
const PAGES_MAX = 2000
/** Without an answer for so long, the database hangs. Milliseconds. */
const ANSWER_MS_MAX = 180_000
/** The prepared statements that a connection remembers. */
const PREPARED_MAX = 500
const BATCH_KINDS = ['logged', 'unlogged', 'counter']

/**
 * A value that is bound: its bytes in hexadecimal, null, or `unset`.
 *
 * @typedef {string | null} Bound
 *
 * @typedef {object} Statement
 * @property {string} text
 * @property {Bound[]} [values]
 * @property {boolean} [prepare]  Whether it is prepared and executed, or sent as text.
 * @property {number} [pageSize]
 * @property {string} [timestamp]  What the driver would send with it, in microseconds.
 * @property {'logged' | 'unlogged' | 'counter'} [batch]  Of `children` instead of the text.
 * @property {Statement[]} [children]
 *
 * @typedef {object} Answer
 * @property {[number, string]} [error]  Code and words.
 * @property {[string, string][]} [columns]  Names and types of a result.
 * @property {(string | null)[][]} [rows]  Values in hexadecimal.
 * @property {number[]} [pages]  Rows of each page.
 * @property {[string, string][]} [markers]  Of what was prepared.
 * @property {number[]} [key]  Which of them are the partition key.
 * @property {string[]} [warnings]
 *
 * @typedef {{ id: Buffer, markers: [string, string][], key: number[] }} Prepared
 *
 * @typedef {object} Answered
 * @property {Answer} answer
 * @property {Prepared} [prepared]
 * @property {Buffer} [next]  Where the next page begins.
 */

/** One connection, one statement at a time. */
export class Connection {
  #socket
  /** @type {Buffer} */
  #received = Buffer.alloc(0)
  /** @type {((frame: { opcode: number, flags: number, body: Buffer }) => void) | undefined} */
  #answered
  /** @type {((error: Error) => void) | undefined} */
  #failed
  /** @type {Map<string, Prepared>} */
  #prepared = new Map()

  /** @param {import('node:net').Socket} socket */
  constructor(socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('data', (chunk) => this.#receive(chunk))
    socket.on('error', (error) => this.#failed?.(error))
    socket.on('close', () => this.#failed?.(new Error('the connection was closed')))
  }

  /** @param {string} address  `HOST:PORT` */
  static async open(address) {
    const [host, port] = address.split(':')
    const socket = connect({ host, port: Number(port) })
    await once(socket, 'connect')
    const connection = new Connection(socket)
    const options = new Writer().short(1).string('CQL_VERSION').string('3.0.0')
    await connection.#request(OPCODE.startup, options)
    return connection
  }

  close() {
    this.#failed = undefined
    this.#socket.destroy()
  }

  /** The answer to a statement, all its pages in one. @param {Statement} statement */
  async execute(statement) {
    /** @type {Answer} */
    const all = {}
    /** @type {Buffer | undefined} */
    let state
    for (let page = 0; page < PAGES_MAX; page++) {
      const { answer, next } = await this.#once(statement, state)
      if (answer.rows && all.rows) {
        all.rows.push(...answer.rows)
        all.pages?.push(answer.rows.length)
      } else {
        Object.assign(all, answer)
        if (answer.rows) all.pages = [answer.rows.length]
      }
      if (!next || answer.error) return all
      state = next
    }
    return { error: /** @type {[number, string]} */ ([-1, `more than ${PAGES_MAX} pages`]) }
  }

  /** @param {Statement} statement  @param {Buffer} [state] @returns {Promise<Answered>} */
  async #once(statement, state) {
    for (let attempt = 0; ; attempt++) {
      const { opcode, body, refused, prepared } = await this.#encode(statement, state)
      if (refused) return { answer: refused }
      const answered = decode(await this.#request(opcode, body))
      const { error } = answered.answer
      if (error?.[0] !== UNPREPARED || attempt > 2) {
        if (prepared && !error) Object.assign(answered.answer, prepared)
        return answered
      }
      this.#prepared.clear()
    }
  }

  /** @param {Statement} statement  @param {Buffer} [state] */
  async #encode(statement, state) {
    const body = new Writer()
    if (statement.children) {
      body.byte(BATCH_KINDS.indexOf(statement.batch ?? 'logged')).short(statement.children.length)
      for (const child of statement.children) {
        const { answer, id } = await this.#prepare(child)
        if (answer) return { opcode: 0, body, refused: answer }
        if (id) body.byte(1).shortBytes(id)
        else body.byte(0).longString(child.text)
        values(body.short(child.values?.length ?? 0), child)
      }
      body.short(1).byte(statement.timestamp === undefined ? 0 : 0x20)
      if (statement.timestamp !== undefined) body.long(BigInt(statement.timestamp))
      return { opcode: OPCODE.batch, body }
    }
    const { answer, id, markers, key } = await this.#prepare(statement)
    if (answer) return { opcode: 0, body, refused: answer }
    if (id) body.shortBytes(id)
    else body.longString(statement.text)
    parameters(body, statement, state)
    const opcode = id ? OPCODE.execute : OPCODE.query
    return { opcode, body, prepared: id && { markers, key } }
  }

  /** @param {Statement} statement
   * @returns {Promise<Partial<Prepared> & { answer?: Answer }>} */
  async #prepare({ text, prepare }) {
    if (!prepare) return {}
    const known = this.#prepared.get(text)
    if (known) return known
    const frame = await this.#request(OPCODE.prepare, new Writer().longString(text))
    const { answer, prepared } = decode(frame)
    if (!prepared) return { answer }
    if (this.#prepared.size > PREPARED_MAX) this.#prepared.clear()
    this.#prepared.set(text, prepared)
    return prepared
  }

  /** @param {number} opcode  @param {Writer} body */
  #request(opcode, body) {
    const bytes = body.bytes()
    const header = Buffer.alloc(HEADER_BYTES)
    header.writeUInt8(4, 0)
    header.writeUInt8(opcode, 4)
    header.writeUInt32BE(bytes.length, 5)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('no answer')), ANSWER_MS_MAX)
      this.#answered = (frame) => {
        clearTimeout(timer)
        resolve(frame)
      }
      this.#failed = (error) => {
        clearTimeout(timer)
        reject(error)
      }
      this.#socket.write(Buffer.concat([header, bytes]))
    })
  }

  /** @param {Buffer} chunk */
  #receive(chunk) {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
    while (this.#received.length >= HEADER_BYTES) {
      const end = HEADER_BYTES + this.#received.readUInt32BE(5)
      if (this.#received.length < end) return
      const [flags, opcode] = [this.#received[1], this.#received[4]]
      const body = this.#received.subarray(HEADER_BYTES, end)
      this.#received = this.#received.subarray(end)
      this.#answered?.({ opcode, flags, body })
    }
  }
}

/** @param {Writer} body  @param {Statement} statement */
function values(body, { values = [] }) {
  for (const value of values) {
    if (value === null) body.int(-1)
    else if (value === 'unset') body.int(-2)
    else body.longBytes(Buffer.from(value, 'hex'))
  }
}

/** @param {Writer} body  @param {Statement} statement  @param {Buffer} [state] */
function parameters(body, statement, state) {
  const { pageSize, timestamp } = statement
  const flags =
    (statement.values ? 0x01 : 0) |
    (pageSize === undefined ? 0 : 0x04) |
    (state === undefined ? 0 : 0x08) |
    (timestamp === undefined ? 0 : 0x20)
  body.short(1).byte(flags)
  if (statement.values) values(body.short(statement.values.length), statement)
  if (pageSize !== undefined) body.int(pageSize)
  if (state !== undefined) body.longBytes(state)
  if (timestamp !== undefined) body.long(BigInt(timestamp))
}

/** @param {{ opcode: number, flags: number, body: Buffer }} frame @returns {Answered} */
function decode({ opcode, flags, body }) {
  const reader = new Reader(body)
  /** @type {Answer} */
  const answer = {}
  if (flags & WARNING_FLAG) {
    answer.warnings = Array.from({ length: reader.short() }, () => reader.string())
  }
  if (opcode === OPCODE.error) {
    answer.error = [reader.int(), reader.string()]
    return { answer }
  }
  // READY of STARTUP has no body.
  if (body.length === 0) return { answer }
  const kind = reader.int()
  if (kind === KIND.prepared) {
    const id = Buffer.from(reader.shortBytes())
    const { columns, key } = metadata(reader, true)
    return { answer, prepared: { id, markers: columns, key } }
  }
  if (kind !== KIND.rows) return { answer }
  const { columns, state } = metadata(reader, false)
  answer.columns = columns
  answer.rows = Array.from({ length: reader.int() }, () =>
    columns.map(() => reader.longBytes()?.toString('hex') ?? null),
  )
  return { answer, next: state }
}

/** @param {Reader} reader  @param {boolean} prepared  Whether it is of the markers. */
function metadata(reader, prepared) {
  const flags = reader.int()
  const count = reader.int()
  const key = prepared ? Array.from({ length: reader.int() }, () => reader.short()) : []
  const state = flags & 2 ? Buffer.from(reader.longBytes() ?? []) : undefined
  if (flags & 1) [reader.string(), reader.string()]
  const columns = Array.from({ length: count }, () => {
    if (!(flags & 1)) [reader.string(), reader.string()]
    return /** @type {[string, string]} */ ([reader.string(), reader.type()])
  })
  return { columns, key, state }
}
