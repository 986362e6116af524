// Bodies take room before they are read, and give it back whatever becomes of them.

import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import Fastify from 'fastify'
import { bodyShare, limitBodyMemory } from '../src/body-memory.js'

const BODY_BYTES_MAX = 1_000_000

/** @type {import('fastify').FastifyInstance} */
let app
/** @type {import('@sandglass/common/memory-share').MemoryShare} */
let share
/** Ends requests that are being answered. @type {(() => void)[]} */
let ends = []

beforeEach(async () => {
  app = Fastify({ bodyLimit: BODY_BYTES_MAX, forceCloseConnections: true })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  share = bodyShare(BODY_BYTES_MAX)
  limitBodyMemory(app, share, BODY_BYTES_MAX)
  ends = []
  app.post('/slow', async () => new Promise((resolve) => ends.push(() => resolve('done'))))
  app.post('/v1/import', async () => 'imported')
  app.post('/fails', async () => {
    throw new Error('a fault')
  })
  app.post('/small', { bodyLimit: 1_000 }, async () => 'small')
  app.get('/', async () => 'no body')
  await app.listen({ host: '127.0.0.1', port: 0 })
})
afterEach(() => app.close())

/** @param {string} path  @param {string} [body] */
const post = (path, body) =>
  app.inject({ method: 'POST', url: path, payload: body, headers: { 'content-type': 'text/x' } })

/** @param {() => boolean} holds */
async function until(holds) {
  const untilMs = performance.now() + 30_000
  while (!holds()) {
    if (performance.now() > untilMs) throw new Error(`did not happen: ${holds}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** Sends the head of a request, and a byte of its body. @param {string} header */
const begin = (header, path = '/slow', body = '1\r\n') => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (app.server.address())
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: text/x\r\n${header}\r\n\r\n${body}`,
  )
  return socket
}

describe('a body', () => {
  test('that has no room is told 503, until others are over', async () => {
    const large = 'x'.repeat(BODY_BYTES_MAX)
    const running = Array.from({ length: 16 }, () => post('/slow', large))
    await until(() => ends.length === 16)
    const refused = await post('/slow', large)
    expect([refused.statusCode, share.refused]).toEqual([503, 1])
    expect((await app.inject('/')).statusCode).toBe(200)
    expect((await post('/v1/import', large)).body).toBe('imported')
    for (const end of ends.splice(0)) end()
    await Promise.all(running)
    const after = post('/slow', large)
    await until(() => ends.length === 1)
    ends[0]()
    expect((await after).statusCode).toBe(200)
    expect(share.bytes).toBe(0)
  })

  test.each([
    ['is refused', '/nowhere'],
    ['fails', '/fails'],
  ])('whose request %s gives its room back', async (_, path) => {
    await post(path, 'x'.repeat(1_000))
    expect(share.bytes).toBe(0)
  })

  test.each([
    ['says its length', 'content-length: 500000', 2_000_000],
    ['says none', 'transfer-encoding: chunked', 4_000_000],
  ])(
    'that %s takes room before it comes, and none when its client leaves',
    async (_, header, bytes) => {
      const socket = begin(header)
      await until(() => share.bytes === bytes)
      socket.destroy()
      await until(() => share.bytes === 0)
    },
  )

  test('takes no more room than its route takes of it', async () => {
    const socket = begin('transfer-encoding: chunked', '/small')
    await until(() => share.bytes > 0)
    expect(share.bytes).toBe(4 * 1_000)
    socket.destroy()
    await until(() => share.bytes === 0)
  })

  test('that is whole keeps its room until it is dealt with, though its client has left', async () => {
    const connections = () =>
      new Promise((resolve) => app.server.getConnections((_error, count) => resolve(count)))
    for (let n = 0; n < 3; n++) {
      const socket = begin('content-length: 7', '/slow', '{"a":1}')
      await until(() => ends.length === 1)
      socket.destroy()
      while ((await connections()) !== 0) await new Promise((resolve) => setTimeout(resolve, 2))
      expect(share.bytes).toBe(28)
      ends.pop()?.()
      await until(() => share.bytes === 0)
    }
  })
})

test('there is room for eight of the largest, however large that is', () => {
  expect(bodyShare(1_000).bytesMax).toBe(64 * 2 ** 20)
  expect(bodyShare(2 ** 30).bytesMax).toBe(32 * 2 ** 30)
})
