// What is handed to ingest goes to ingest, whatever a client writes into its request.

import { createServer } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createIngestClient } from '../src/ingest-client.js'
import { createFakeStore } from './support/fake-store.js'
import { appOver } from './support/inject.js'

/** By name. @type {Map<string, import('node:http').Server>} */
const servers = new Map()
/** What they were asked, and which. @type {string[]} */
let heard = []
/** Where ingest sends whoever asks it; undefined: nowhere. @type {string | undefined} */
let location
let status = 307

/** @param {string} name */
async function serve(name) {
  const server = createServer((request, response) => {
    heard.push(`${name} ${request.method} ${request.url}`)
    const isMoved = name === 'ingest' && location !== undefined
    response.writeHead(isMoved ? status : 200, isMoved ? { location } : {})
    response.end(JSON.stringify({ of: name }))
    request.resume()
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)))
  servers.set(name, server)
}

/** @param {string} name */
function addressOf(name) {
  const server = /** @type {import('node:http').Server} */ (servers.get(name))
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  return `127.0.0.1:${port}`
}

beforeAll(async () => {
  await serve('ingest')
  await serve('other')
})
beforeEach(() => {
  heard = []
  location = undefined
})
afterAll(async () => {
  for (const server of servers.values()) {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
})

describe('a request that is handed on', () => {
  /** @type {Awaited<ReturnType<typeof appOver>>} */
  let app
  beforeAll(async () => {
    app = await appOver(createFakeStore(), createIngestClient(`http://${addressOf('ingest')}`))
    await app.listen({ host: '127.0.0.1', port: 0 })
  })
  afterAll(() => app.close())

  /** The answer to a POST of this target, as it stands. @param {string} target */
  function post(target) {
    const { port } = /** @type {import('node:net').AddressInfo} */ (app.server.address())
    const socket = connect(port, '127.0.0.1')
    socket.write(
      `POST ${target} HTTP/1.1\r\nhost: localhost:${port}\r\ncontent-type: application/json\r\n` +
        'content-length: 2\r\nconnection: close\r\n\r\n[]',
    )
    let said = ''
    socket.setEncoding('utf8').on('data', (more) => (said += more))
    return new Promise((/** @type {(said: string) => void} */ resolve) => {
      socket.on('close', () => resolve(said))
    })
  }

  test.each([
    ['http://OTHER/v1/measurements?precision=ms', 'ingest POST /v1/measurements?precision=ms'],
    ['http://OTHER/v1/dead-letters/replay', 'ingest POST /v1/dead-letters/replay'],
    ['http://OTHER/write?db=a', 'ingest POST /write?db=a'],
    ['http://OTHER?x=/write', undefined],
    ['http:OTHER?://x/write', undefined],
    ['http:\\\\OTHER\\write?://x/write', undefined],
    ['http://INGEST\\v1\\dead-letters\\replay?x=/write', undefined],
    ['//OTHER/write', undefined],
    ['/%77rite?db=a&db=b', 'ingest POST /write?db=a&db=b'],
    ['/write', 'ingest POST /write'],
  ])('for %s is asked of ingest by the path of its route, or of nobody', async (target, asked) => {
    const named = target.replace('OTHER', addressOf('other')).replace('INGEST', addressOf('ingest'))
    const said = await post(named)
    expect(said).not.toContain('"other"')
    expect(heard.filter((one) => !one.startsWith('ingest'))).toEqual([])
    if (asked !== undefined) expect(heard).toEqual([asked])
    // Whatever a router makes of such an address, nothing but its route is asked.
    else for (const one of heard) expect(one).toMatch(/^ingest POST \/write(\?|$)/)
  })

  test.each([302, 303, 307])('does not follow who sends it elsewhere by %d', async (code) => {
    status = code
    location = `http://${addressOf('other')}/secret`
    const said = await post('/write')
    expect(said).toMatch(/^HTTP\/1.1 503 /)
    expect(said).toContain('urn:sandglass:problem:ingest-away')
    expect(heard).toEqual(['ingest POST /write'])
  })
})

test('counts of ingest are not taken from elsewhere either', async () => {
  location = `http://${addressOf('other')}/stats`
  const { stats } = createIngestClient(`http://${addressOf('ingest')}`)
  await expect(stats()).rejects.toMatchObject({ code: 'ingest-away' })
  expect(heard).toEqual(['ingest GET /stats'])
})
