// The least that a broker can do that acknowledges what is durable: a process that writes each
// message to a file, synchronously, and answers. What it takes is what this machine takes for one
// read, one durable write and one answer; no platform on it can be faster.
//
// Child process. Its argument is the file. Child to parent: the port that it listens on.
import { closeSync, constants, fsyncSync, openSync, writeSync } from 'node:fs'
import { createServer } from 'node:net'

const [file] = process.argv.slice(2)

/** The file is made before and written from its beginning again: nothing is allocated meanwhile. */
const FILE_BYTES = 64 << 20
const PIECE_BYTES = 1 << 20
/** What a message is in our engine's log, with what belongs to it. */
const MESSAGE_BYTES = 128
const SECTOR_BYTES = 512
const CONNACK = Buffer.from([0x20, 2, 0, 0])
const TYPE = Object.freeze({ connect: 1, publish: 3 })

const made = openSync(file, 'w')
for (let at = 0; at < FILE_BYTES; at += PIECE_BYTES) {
  writeSync(made, Buffer.alloc(PIECE_BYTES), 0, PIECE_BYTES, at)
}
fsyncSync(made)
closeSync(made)

const log = openSync(file, constants.O_WRONLY | constants.O_DSYNC)
let at = 0
/**
 * Packet ids of messages that are not written yet.
 *
 * @type {Map<import('node:net').Socket, number[]>}
 */
let waiting = new Map()
let messages = 0

function write() {
  const taken = waiting
  const sectors = Math.ceil((messages * MESSAGE_BYTES) / SECTOR_BYTES)
  waiting = new Map()
  messages = 0
  const bytes = sectors * SECTOR_BYTES
  if (at + bytes > FILE_BYTES) at = 0
  writeSync(log, Buffer.alloc(bytes, 1), 0, bytes, at)
  at += bytes
  for (const [socket, ids] of taken) {
    socket.write(Buffer.from(ids.flatMap((id) => [0x40, 2, id >> 8, id & 0xff])))
  }
}

/** @param {import('node:net').Socket} socket  @param {number} id */
function take(socket, id) {
  // After all sockets of this turn were read, so that what arrived together goes together.
  if (messages++ === 0) setImmediate(write)
  const ids = waiting.get(socket)
  if (ids) ids.push(id)
  else waiting.set(socket, [id])
}

/**
 * Takes the packets that are whole. A body has less than 128 bytes.
 *
 * @param {import('node:net').Socket} socket
 * @param {Buffer} bytes
 * @returns {Buffer}  The rest.
 */
function read(socket, bytes) {
  let from = 0
  while (bytes.length - from >= 2 && bytes.length - from >= 2 + bytes[from + 1]) {
    const type = bytes[from] >> 4
    if (type === TYPE.connect) socket.write(CONNACK)
    if (type === TYPE.publish) {
      take(socket, bytes.readUInt16BE(from + 4 + bytes.readUInt16BE(from + 2)))
    }
    from += 2 + bytes[from + 1]
  }
  return bytes.subarray(from)
}

const server = createServer({ noDelay: true }, (socket) => {
  /** @type {Buffer} */
  let rest = Buffer.alloc(0)
  socket.on('error', () => {})
  socket.on('data', (chunk) => {
    rest = read(socket, rest.length === 0 ? chunk : Buffer.concat([rest, chunk]))
  })
})
server.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  process.send?.(port)
})
