import { generate } from 'mqtt-packet'
import { Framer, ProtocolError, parseConnect, parsePublish } from '../src/broker/frame.js'

/** @param {Framer} framer */
function* packets(framer) {
  while (framer.next()) {
    yield Buffer.from(framer.buffer.subarray(framer.packetStart, framer.packetEnd)).toString('hex')
  }
}

describe('framer', () => {
  const parts = [0, 1, 125, 126, 127, 128, 16_400].map((length) =>
    generate({
      ...{ cmd: 'publish', topic: 'a', payload: Buffer.alloc(length, 7), qos: 0 },
      ...{ dup: false, retain: false },
    }),
  )
  const bytes = Buffer.concat(parts)
  const expected = parts.map((part) => part.toString('hex'))

  test('packets are the same wherever the bytes are cut in two', () => {
    for (let cut = 0; cut <= bytes.length; cut += cut < 600 ? 1 : 97) {
      const framer = new Framer(20_000)
      framer.push(Buffer.from(bytes.subarray(0, cut)))
      const found = [...packets(framer)]
      framer.push(Buffer.from(bytes.subarray(cut)))
      found.push(...packets(framer))
      if (cut === bytes.length) expect(framer.waitingBytes).toBe(0)
      expect({ cut, found }).toEqual({ cut, found: expected })
    }
  })

  test.each([1, 2, 3, 7, 100])('packets are the same in chunks of %i', (size) => {
    const framer = new Framer(20_000)
    const found = []
    for (let at = 0; at < bytes.length; at += size) {
      framer.push(Buffer.from(bytes.subarray(at, at + size)))
      found.push(...packets(framer))
    }
    expect(found).toEqual(expected)
  })

  test('what a message refers to stays what it was while more arrives', () => {
    const framer = new Framer(20_000)
    framer.push(Buffer.from(parts[2].subarray(0, 5)))
    framer.next()
    framer.push(Buffer.from(parts[2].subarray(5)))
    framer.next()
    const { payload } = parsePublish(framer.buffer, 0, framer.bodyStart, framer.packetEnd)
    for (let n = 0; n < 50; n++) {
      framer.push(Buffer.from(parts[5].subarray(0, 60)))
      framer.push(Buffer.from(parts[5].subarray(60)))
      framer.next()
    }
    expect(payload.equals(Buffer.alloc(125, 7))).toBe(true)
  })

  test('a packet over the limit is refused from its header alone', () => {
    const framer = new Framer(1_000)
    framer.push(Buffer.from([0x10, 0xe8, 0x07]))
    expect(() => framer.next()).toThrow(ProtocolError)
  })
})

describe('CONNECT', () => {
  test('its keep-alive is taken out, everything else is left', () => {
    const fields = /** @type {const} */ ({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4 })
    const more = { clean: true, clientId: 'abc', username: 'u', password: Buffer.from('p') }
    const bytes = generate({ ...fields, ...more, keepalive: 300 })
    const { keepAliveS, anonymousSession, packet } = parseConnect(bytes, 2)
    expect({ keepAliveS, anonymousSession }).toEqual({ keepAliveS: 300, anonymousSession: false })
    expect(packet).toEqual(generate({ ...fields, ...more, keepalive: 0 }))
  })

  test('a malformed one is left as it is, at any length', () => {
    const bytes = generate({ cmd: 'connect', clientId: 'abc', protocolVersion: 4, clean: true })
    for (let length = 2; length < 13; length++) {
      const cut = bytes.subarray(0, length)
      expect(parseConnect(cut, 2).packet).toEqual(cut)
    }
  })
})
