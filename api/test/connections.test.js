import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { sensorId } from '@sandglass/common/sensor'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { createFakeStore, NO_KEYS } from './support/fake-store.js'

/** Bodies and answers are waited for a hundred times shorter than in operation. */
const PACE = {
  headersMs: 60_000,
  bodyMs: 200,
  answerMs: 200,
  bytesPerSMin: 20_000,
  sweepMs: 10,
}
const LIMITS = { requestsPerS: 0, bodyBytesMax: 1e6, importBytesMax: 1e9, streamsMax: 1 }

/** @type {Awaited<ReturnType<typeof buildApp>>} */
let app
/** @type {number} */
let port
/** Resolved when ingest may answer. @type {Promise<unknown>} */
let ingestGate = Promise.resolve()
/** @type {import('node:net').Socket[]} */
let sockets = []

/** @param {Partial<import('../src/app.js').Parts>} [parts] */
async function start(parts) {
  app = await buildApp({
    store: createFakeStore(),
    isDatabaseUp: () => true,
    ingest: {
      stats: async () => ({}),
      async post(_url, _headers, body) {
        await ingestGate
        const stored = String(body).trimEnd().split('\n').length
        const says = JSON.stringify({ received: stored, stored, refused: [] })
        return { status: 200, type: 'application/json', retryAfter: undefined, body: says }
      },
    },
    registry: new Registry(),
    limits: { ...LIMITS, pace: PACE },
    isLoopback: true,
    ...NO_KEYS,
    ...parts,
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  port = Number(new URL(url).port)
}
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets = []
  await app.close()
})

/** A connection that says this; what it hears until it is closed. @param {string | Buffer} text */
function say(text) {
  const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(text))
  sockets.push(socket)
  let heard = ''
  socket.setEncoding('latin1').on('data', (more) => (heard += more))
  socket.on('error', () => {})
  const closed = new Promise((/** @type {(heard: string) => void} */ resolve) => {
    socket.on('close', () => resolve(heard))
  })
  return { socket, closed }
}

/** What of a head makes a body expected. @param {string} path  @param {string} [type] */
const head = (path, type = 'application/json') =>
  `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${type}\r\n` +
  'transfer-encoding: chunked\r\n\r\n'

/** @param {string} name  @param {RegExp} [labels] */
async function metric(name, labels = /^/) {
  const { body } = await metrics()
  const line = body.split('\n').find((one) => one.startsWith(name) && labels.test(one))
  return Number(line?.split(' ').at(-1) ?? 0)
}
const metrics = () => app.inject({ url: '/metrics', headers: { host: 'localhost' } })

describe('a request that comes too slowly', () => {
  test('is answered and closed while its headers do not come', async () => {
    await start({ limits: { ...LIMITS, pace: { ...PACE, headersMs: 200 } } })
    const many = ['', 'G', 'GET / HTTP/1.1\r\nhost: loc'].map(say)
    for (const { closed } of many) expect(await closed).toMatch(/^(HTTP\/1.1 408 |$)/)
    expect(await many[2].closed).toContain('send them at once')
    expect(await metric('sandglass_api_connections_cut_total', /headers/)).toBeGreaterThan(0)
  })

  test.each([
    ...['/v1/sensors', '/v1/query', '/v1/measurements', '/v1/decode', '/api/v2/write'],
    ...['/v1/dead-letters/replay'],
  ])('is answered and closed while the body of %s stands still', async (path) => {
    await start()
    const many = Array.from({ length: 5 }, () => say(`${head(path)}2\r\n{"\r\n`))
    for (const { closed } of many) {
      const heard = await closed
      expect(heard).toMatch(/^HTTP\/1.1 408 /)
      expect(heard).toContain('urn:sandglass:problem:request-too-slow')
    }
    expect(await metric('sandglass_api_bodies_cut_total')).toBe(5)
  })

  test('is closed although it was answered before its body came', async () => {
    await start()
    for (const text of [
      head('/nowhere'),
      head('/v1/import?format=xml'),
      head('/v1/sensors').replace('content-type', 'origin: null\r\ncontent-type'),
    ]) {
      expect(await say(`${text}1\r\nx\r\n`).closed).toMatch(/^HTTP\/1.1 4/)
    }
  })

  test('as an import says from which line to go on, and its place is free again', async () => {
    await start()
    const row = `{"sensor":"s","t":1767225600000,"a":1}\n`
    const chunk = `${row.length.toString(16)}\r\n${row}\r\n`
    const slow = [1, 2].map(() => say(head('/v1/import?format=ndjson') + chunk))
    const csv = say(`${head('/v1/import?format=csv&sensor=s')}1\r\nt\r\n`)
    expect(await csv.closed).toMatch(/^HTTP\/1.1 503 /)
    for (const { closed } of slow) {
      const heard = await closed
      expect(heard).toMatch(/^HTTP\/1.1 200 /)
      expect(heard).toMatch(/"done":false,"problem":{[^}]*request-too-slow[^}]*"from_line":2}/)
    }
    const headerless = await say(`${head('/v1/import?format=csv&sensor=s')}1\r\nt\r\n`).closed
    expect(headerless).toMatch(/^HTTP\/1.1 408 /)
    const url = `http://127.0.0.1:${port}/v1/import?format=ndjson`
    const whole = await fetch(url, { method: 'POST', body: row })
    expect(await whole.text()).toContain('"stored":1')
  })

  test.each(['/v1/import', '/v1/%69mport', 'http://localhost/v1/import'])(
    'as an import is held to the pace of imports, also by the path %s',
    async (path) => {
      await start()
      const heard = await say(`${head(`${path}?format=csv&sensor=s`)}1\r\nt\r\n`).closed
      expect(heard).toContain('request-too-slow')
      expect(heard).toContain('less than 8192 bytes a second')
    },
  )

  test('lasts as long as it likes while it keeps the pace', async () => {
    await start()
    const row = `${JSON.stringify({ sensor: 's', t: 1_767_225_600_000, a: 'x'.repeat(2_000) })}\n`
    const text = await new Promise((resolve, reject) => {
      const upload = request(`http://127.0.0.1:${port}/v1/import?format=ndjson`, { method: 'POST' })
      upload.on('error', reject)
      upload.on('response', (response) => {
        let heard = ''
        response.setEncoding('utf8').on('data', (more) => (heard += more))
        response.on('end', () => resolve(heard))
      })
      void (async () => {
        for (let n = 0; n < 40; n++) {
          upload.write(row)
          await delay(40)
        }
        upload.end()
      })()
    })
    expect(text).toMatch(/"stored":40,.*"done":true/)
  })

  test('is not what waits for us: an import whose ingest is slow goes on', async () => {
    let open = () => {}
    ingestGate = new Promise((resolve) => {
      open = () => resolve(undefined)
    })
    await start()
    const row = `${JSON.stringify({ sensor: 's', t: 1_767_225_600_000, a: 'x'.repeat(2_000) })}\n`
    const url = `http://127.0.0.1:${port}/v1/import?format=ndjson`
    const answer = fetch(url, { method: 'POST', body: row.repeat(5_000) })
    await delay(3 * PACE.bodyMs)
    open()
    expect(await (await answer).text()).toMatch(/"stored":5000,.*"done":true/)
    expect(await metric('sandglass_api_bodies_cut_total')).toBe(0)
  })
})

describe('bodies that come slowly leave room for others', () => {
  const BODY_BYTES = 1_000_000
  /** More than there is room for. */
  const COUNT = 20
  const scopes = new Set(['read', 'write'])
  const keys = /** @type {any} */ ({
    unasked: 0,
    // What is not known is being looked up.
    find: (/** @type {string} */ text) =>
      text.startsWith('good')
        ? Promise.resolve({ keyId: text, name: text, scopes })
        : new Promise(() => {}),
  })
  const bodyBytes = async () => {
    const headers = { host: 'localhost', authorization: 'Bearer good-1' }
    const { body } = await app.inject({ url: '/metrics', headers })
    return Number(/^sandglass_api_body_bytes (\d+)$/m.exec(body)?.[1])
  }
  const store = async (/** @type {string} */ key) => {
    const headers = { host: 'localhost', authorization: `Bearer ${key}` }
    const payload = [{ sensor: 's', a: 1 }]
    return (await app.inject({ method: 'POST', url: '/v1/measurements', headers, payload }))
      .statusCode
  }
  /** Begins as many as there are. @param {string} path  @param {string} [key] */
  const begin = async (path, key) => {
    let came = 0
    app.server.on('request', () => came++)
    const authorization = key === undefined ? '' : `authorization: Bearer ${key}\r\n`
    const begun = Array.from({ length: COUNT }, () =>
      say(
        `POST ${path} HTTP/1.1\r\nhost: localhost\r\n${authorization}` +
          `content-type: application/json\r\ncontent-length: ${BODY_BYTES}\r\n\r\n[`,
      ),
    )
    while (came < COUNT) await delay(2)
    return begun
  }
  const startPatient = () => start({ keys, requireKeys: true, limits: LIMITS })

  test.each([
    ['whose key is looked up', '/v1/measurements', 'unknown'],
    ['that claim a key, without one', '/v1/claim', undefined],
  ])('of those %s', async (_, path, key) => {
    await startPatient()
    await begin(path, key)
    expect(await bodyBytes()).toBeLessThan(COUNT * 5_000)
    expect(await store('good-1')).toBe(200)
  })

  test('of one key: it has half of it, and is told so', async () => {
    await startPatient()
    const begun = await begin('/v1/measurements', 'good-1')
    // Eight of them fit into half of 64 MiB, at four times their size.
    while ((await bodyBytes()) < 8 * 4 * BODY_BYTES) await delay(2)
    expect(await bodyBytes()).toBe(8 * 4 * BODY_BYTES)
    expect(await store('good-2')).toBe(200)
    for (const { socket } of begun) socket.destroy()
    while ((await bodyBytes()) > 0) await delay(2)
    expect(await store('good-1')).toBe(200)
  })
})

test('an answer that is not read is closed, and an export has its place back', async () => {
  // More than the buffers of a connection hold.
  const rows = Array.from({ length: 400 }, (_, n) => ({
    metric: 'm',
    t: 1_767_225_600_000 + n,
    seq: 0,
    value: 'x'.repeat(60_000),
  }))
  await start({ store: createFakeStore({ rows }) })
  const url = '/v1/export?format=csv&sensor=s'
  for (let n = 0; n < 4; n++) {
    say(`GET ${url} HTTP/1.1\r\nhost: localhost\r\n\r\n`).socket.pause()
  }
  const isCut = async () => (await metric('sandglass_api_answers_cut_total')) === 4
  for (let tries = 0; !(await isCut()); tries++) {
    expect(tries).toBeLessThan(1_000)
    await delay(10)
  }
  const { statusCode } = await app.inject({ url, headers: { host: 'localhost' } })
  expect(statusCode).toBe(200)
})

test.each(['..', '%2e%2e', '%2E.', '.', '%2e', '..%2f', '%2e%2e%2flatest', '%2e%2e%5c'])(
  'the path of a sensor %s is never that of the fleet',
  async (name) => {
    const row = { metric: 'm', t: 1_767_225_600_000, seq: 0, value: 1 }
    await start({ store: createFakeStore({ name: 's', rows: [row] }) })
    for (const end of ['', '/latest', '/measurements', '/series?metric=m', '/status']) {
      const heard = await say(
        `GET /v1/sensors/${name}${end} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
      ).closed
      expect([name, end, heard.split('\r\n')[0]]).toEqual([
        ...[name, end, expect.stringMatching(/^HTTP\/1.1 40[04] /)],
      ])
    }
  },
)

test('what was stored under the name .. is read and deleted, by its id and by its path', async () => {
  const row = { metric: 'm', t: 1_767_225_600_000, seq: 0, value: 1 }
  await start({ store: createFakeStore({ name: '..', rows: [row] }) })
  const id = sensorId('..')
  for (const name of [id, '%2e%2e']) {
    const url = `/v1/sensors/${name}/latest`
    const { items } = (await app.inject({ url, headers: { host: 'localhost' } })).json()
    expect([name, items]).toMatchObject([name, [{ metric: 'm', v: 1 }]])
  }
  const { statusCode } = await app.inject({
    method: 'DELETE',
    url: `/v1/sensors/${id}`,
    headers: { host: 'localhost' },
  })
  expect(statusCode).toBe(204)
})

describe('with TLS', () => {
  /** @type {string} */
  let directory
  /** @type {{ cert: Buffer, key: Buffer }} */
  let https
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'sandglass-tls-'))
    const [key, cert] = ['key', 'cert'].map((name) => join(directory, name))
    const subject = ['-nodes', '-subj', '/CN=localhost']
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256']
    const args = ['req', '-x509', ...curve, '-keyout', key, '-out', cert, '-days', '2', ...subject]
    execFileSync('openssl', args, { stdio: 'ignore' })
    https = { cert: readFileSync(cert), key: readFileSync(key) }
  })
  afterAll(() => rmSync(directory, { recursive: true }))

  test('connections are closed whose handshake fails, or is left in its midst', async () => {
    await start({ https, limits: { ...LIMITS, pace: PACE, handshakeMs: 300 } })
    /** The first bytes of a handshake. @type {Buffer} */
    const hello = Buffer.from('16030100f8010000f40303', 'hex')
    const half = [...Array(10).fill(hello), '', 'GET / HTTP/1.1\r\n\r\n']
    for (const { closed } of half.map(say)) expect(await closed).not.toContain('HTTP')
    expect(await metric('sandglass_api_connections_cut_total', /tls/)).toBe(half.length)
  })

  test('a body that stands still is answered and closed, one that comes is not', async () => {
    await start({ https })
    /** @param {string} text */
    const hear = (text) =>
      new Promise((resolve) => {
        const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }, () =>
          socket.write(text),
        )
        let heard = ''
        socket.setEncoding('utf8').on('data', (more) => (heard += more))
        socket.on('close', () => resolve(heard))
        socket.on('error', () => {})
      })
    expect(await hear(`${head('/v1/sensors')}2\r\n{"\r\n`)).toMatch(/^HTTP\/1.1 408 /)
    const row = JSON.stringify({ sensor: 's', t: 1_767_225_600_000, a: 'x'.repeat(200_000) })
    const type = 'content-type: application/json\r\nconnection: close\r\n'
    const whole = `POST /v1/measurements HTTP/1.1\r\nhost: localhost\r\n${type}`
    expect(await hear(`${whole}content-length: ${row.length}\r\n\r\n${row}`)).toMatch(
      /^HTTP\/1.1 200 /,
    )
  })
})
