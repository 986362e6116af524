import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { createRegistry } from '@sandglass/common/metrics'
import { buildHttp } from '../src/http/app.js'
import { replay } from '../src/http/replay.js'
import { startIngest, until } from './support/ingest.js'

const T = Date.UTC(2026, 0, 1)
const HOST = { host: '127.0.0.1:9181' }
const BODY_BYTES_MAX = 100_000

/** @type {Awaited<ReturnType<typeof startIngest>>} */
let ingest
/** @type {ReturnType<typeof buildHttp>} */
let app
let isWell = true

/**
 * @param {Parameters<typeof startIngest>[0]} [limits]
 * @param {boolean} [isLoopback]
 * @param {number} [requestMsMax]
 */
async function start(limits, isLoopback = true, requestMsMax = undefined) {
  ingest = await startIngest(limits)
  const accept = (/** @type {import('../src/message/message.js').Message} */ message) =>
    ingest.pipeline.accept(message)
  app = buildHttp({
    bodies: ingest.memory.shares.bodies,
    bodyBytesMax: BODY_BYTES_MAX,
    requestMsMax,
    sink: ingest.pipeline,
    registry: createRegistry('sandglass_test_'),
    health: () => ({ ok: isWell }),
    stats: () => ({ received: ingest.counts.received }),
    replay: (ids, retention) =>
      replay(ids, { ...ingest, reader: ingest.storage, accept, retention }),
    isLoopback,
  })
}

afterEach(async () => {
  await app.close()
  await ingest.stop()
})

/**
 * @param {string} url
 * @param {string | Buffer} payload
 * @param {Record<string, string>} [headers]
 */
const post = (url, payload, headers = {}) =>
  app.inject({ method: 'POST', url, payload, headers: { ...HOST, ...headers } })

const values = () =>
  ingest.storage
    .rowsOf('measurement_30d')
    .map(({ metric, ts, v, i }) => [metric, ts, v ?? String(i)])
    .sort()

describe('measurements', () => {
  test.each([
    [
      'application/json',
      `[{"sensor":"a","t":${T},"m":1},{"sensor":"a","metric":"n","t":${T},"v":2}]`,
    ],
    ['application/x-ndjson', `{"sensor":"a","t":${T},"m":1}\n{"sensor":"a","t":${T},"n":2}\n`],
    ['text/csv; charset=utf-8', `sensor,t,m,n\na,${T},1,2\n`],
    ['text/plain', `m,sensor=a value=1 ${T}000000\nn,sensor=a value=2 ${T}000000\n`],
  ])('in %s are stored before it is answered', async (type, body) => {
    await start()
    const response = await post('/v1/measurements', body, { 'content-type': type })
    const { received, stored, refused } = response.json()
    expect([response.statusCode, received === stored, refused]).toEqual([200, true, []])
    expect(values()).toEqual([
      ['m', T, 1],
      ['n', T, 2],
    ])
  })

  test('are not answered before they are durable', async () => {
    await start()
    ingest.storage.isManual = true
    let isAnswered = false
    const answer = post('/v1/measurements', '{"sensor":"a","m":1}', {
      'content-type': 'application/json',
    }).then((response) => {
      isAnswered = true
      return response
    })
    await until(() => ingest.storage.requests.length > 0)
    expect(isAnswered).toBe(false)
    ingest.storage.isManual = false
    for (const request of ingest.storage.requests) request.end()
    expect((await answer).statusCode).toBe(200)
  })

  test('that are none are named and dead letters, the others stored', async () => {
    await start()
    const response = await post(
      '/v1/measurements',
      `{"sensor":"a","t":${T},"m":1}\n{oops\n{"sensor":"a","t":5,"m":1}`,
      { 'content-type': 'application/x-ndjson' },
    )
    expect([response.statusCode, response.json()]).toEqual([
      400,
      {
        type: 'urn:sandglass:problem:refused-items',
        title: expect.any(String),
        status: 400,
        detail: expect.stringContaining('2 of 3'),
        received: 3,
        stored: 1,
        refused: [
          { item: 1, reason: expect.stringContaining('JSON') },
          { item: 2, reason: expect.stringContaining('year 2000') },
        ],
      },
    ])
    const letters = ingest.storage.rowsOf('dead_letter')
    expect(letters.map(({ topic, payload }) => [topic, String(payload)])).toContainEqual([
      '/v1/measurements',
      '{oops',
    ])
  })

  test('of a body that is none of these are refused as a whole', async () => {
    await start()
    const json = { 'content-type': 'application/json' }
    for (const [status, body, headers] of /** @type {const} */ ([
      [400, '{', json],
      [400, 'x', { 'content-type': 'text/plain', 'content-encoding': 'br' }],
      [400, 'x', { ...json, 'content-encoding': 'gzip' }],
      [400, gzipSync(Buffer.alloc(17 * 2 ** 20)), { ...json, 'content-encoding': 'gzip' }],
      [413, 'x'.repeat(BODY_BYTES_MAX + 1), json],
      [415, '{}', { 'content-type': 'application/xml' }],
      [421, '{}', { ...json, host: 'evil.example' }],
    ])) {
      const response = await post('/v1/measurements', body, headers)
      const { detail, status: told } = response.json()
      expect([response.statusCode, told, detail.length > 10]).toEqual([status, status, true])
    }
    expect(ingest.counts.received).toBe(0)
  })

  test.each(['/v1/measurements', '/v1/dead-letters/replay', '/api/v2/write', '/write'])(
    'on %s are not taken from a page of another origin, on loopback and elsewhere',
    async (url) => {
      for (const isLoopback of [true, false]) {
        await start({}, isLoopback)
        /** @type {Record<string, string>[]} */
        const headers = [
          { origin: 'https://evil.example' },
          { origin: 'null' },
          { origin: 'http://127.0.0.1:3000' },
          { 'sec-fetch-site': 'cross-site' },
        ]
        for (const foreign of headers) {
          const response = await post(url, `m v=1 ${T}000000`, {
            'content-type': 'text/plain',
            ...foreign,
          })
          expect([response.statusCode, response.json().type]).toEqual([
            ...[403, 'urn:sandglass:problem:foreign-origin'],
          ])
        }
        expect(ingest.counts.received).toBe(0)
        if (isLoopback) {
          await app.close()
          await ingest.stop()
        }
      }
    },
  )

  test.each(['/v1/measurements', '/v1/dead-letters/replay'])(
    'that are nested very deep are refused on %s, and are no fault of ours',
    async (url) => {
      await start()
      const deep = '['.repeat(10_000) + ']'.repeat(10_000)
      for (const body of [deep, `{"sensor":"a","m":${deep}}`, `{"ids":${deep}}`]) {
        const response = await post(url, body, { 'content-type': 'application/json' })
        expect([response.statusCode, response.json().status]).toEqual([400, 400])
      }
    },
  )

  test('wait outside while too much is held', async () => {
    await start({ heldBytesMax: 2_000 })
    ingest.storage.isManual = true
    const json = { 'content-type': 'application/json' }
    const held = JSON.stringify(
      Array.from({ length: 10 }, (_, t) => ({ sensor: 'a', t: T + t, m: 1 })),
    )
    const first = post('/v1/measurements', held, json)
    await until(() => ingest.inFlight.isFull)
    const response = await post('/v1/measurements', '{"sensor":"a","m":1}', json)
    expect([response.statusCode, response.headers['retry-after']]).toEqual([503, '1'])
    ingest.storage.isManual = false
    for (const request of ingest.storage.requests) request.end()
    expect((await first).statusCode).toBe(200)
  })
})

describe('Telegraf', () => {
  test.each(['/api/v2/write?bucket=b&org=o&precision=ns', '/write?db=d'])(
    'writes to %s, packed, integers as integers',
    async (url) => {
      await start()
      const lines = `cpu,host=h,cpu=cpu0 idle=98.5,n=7i ${T}000000\ncpu,host=h,cpu=cpu1 idle=1 ${T}000000\n`
      const response = await post(url, gzipSync(lines), {
        'content-type': 'text/plain; charset=utf-8',
        'content-encoding': 'gzip',
      })
      expect([response.statusCode, response.body]).toEqual([204, ''])
      expect(values()).toEqual([
        ['idle', T, 1],
        ['idle', T, 98.5],
        ['n', T, '7'],
      ])
    },
  )

  test('is told which line is at fault, and the others are stored', async () => {
    await start()
    const response = await post('/api/v2/write', `m v=1 ${T}000000\nm v=x\n`)
    expect([response.statusCode, response.json()]).toMatchObject([
      400,
      { code: 'invalid', message: expect.stringContaining('line 2: the value of v') },
    ])
    expect(values()).toHaveLength(1)
    expect((await app.inject({ url: '/ping', headers: HOST })).statusCode).toBe(204)
  })
})

describe('bodies', () => {
  const json = { 'content-type': 'application/json' }
  const gzip = { ...json, 'content-encoding': 'gzip' }
  const objects = (/** @type {number} */ count) =>
    JSON.stringify(Array.from({ length: count }, (_, at) => ({ sensor: 's', t: T + at, m: at })))

  test('are counted while they are taken, and not after', async () => {
    await start()
    const { bodies } = ingest.memory.shares
    ingest.storage.isManual = true
    const packed = gzipSync(objects(1_000))
    const answer = post('/v1/measurements', packed, gzip)
    await until(() => {
      for (const request of ingest.storage.requests.splice(1)) request.end()
      return bodies.bytes > 3 * packed.length + 1_000 * 200
    })
    ingest.storage.isManual = false
    await until(() => {
      for (const request of ingest.storage.requests.splice(0)) request.end()
      return bodies.bytes === 0
    })
    expect((await answer).json()).toMatchObject({ stored: 1_000 })
    await post('/v1/measurements', '{', json)
    await post('/v1/measurements', 'x', gzip)
    expect(bodies.bytes).toBe(0)
  })

  test('that are too many at once wait outside, whatever they unpack to', async () => {
    await start({ memoryBytesMax: 32 * 2 ** 20 })
    const { bodies } = ingest.memory.shares
    const bomb = gzipSync(Buffer.alloc(15 * 2 ** 20, ' '))
    const answers = await Promise.all(
      Array.from({ length: 24 }, () => post('/v1/measurements', bomb, gzip)),
    )
    expect(new Set(answers.map(({ statusCode }) => statusCode))).toEqual(new Set([503]))
    expect(answers[0].headers['retry-after']).toBe('1')
    expect(bodies.refused).toBe(24)
    expect(bodies.bytes).toBe(0)
    expect((await post('/v1/measurements', objects(10), json)).statusCode).toBe(200)
  })

  test('that unpack to more than 16 MiB are refused, though memory has room', async () => {
    await start({ memoryBytesMax: 2 ** 30 })
    const answer = await post('/v1/measurements', gzipSync(Buffer.alloc(17 * 2 ** 20, ' ')), gzip)
    expect([answer.statusCode, answer.json().detail]).toEqual([
      400,
      expect.stringContaining('more than 16777216 bytes'),
    ])
  })

  test('that are not UTF-8 are refused: JSON as a whole, of lines those alone', async () => {
    await start()
    const lines = Buffer.concat([Buffer.from('m,sensor=a v=1\nm,sensor='), Buffer.from([0xff, 10])])
    const partial = await post('/v1/measurements', lines, { 'content-type': 'text/plain' })
    expect(partial.json()).toMatchObject({
      received: 2,
      stored: 1,
      refused: [{ item: 1, reason: 'this is not UTF-8' }],
    })
    const body = Buffer.from([...Buffer.from('{"sensor":"s","m":"'), 0xff, ...Buffer.from('"}')])
    const answer = await post('/v1/measurements', body, json)
    expect([answer.statusCode, answer.json().detail]).toEqual([400, 'the body is not UTF-8'])
  })

  test('that do not arrive are given up, and their connection with them', async () => {
    await start({}, true, 200)
    await app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = /** @type {import('node:net').AddressInfo} */ (app.server.address())
    const slow = connect(port, '127.0.0.1')
    slow.on('error', () => {})
    let answer = ''
    slow.on('data', (chunk) => {
      answer += chunk
    })
    slow.write('POST /v1/measurements HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 999\r\n\r\n{')
    await until(() => slow.destroyed, 30_000)
    expect(answer).toContain('408')
    await until(() => ingest.memory.shares.bodies.bytes === 0)
    await app.close()
  })

  test.each([1, 3])(
    'whose client leaves before the answer are counted until they are stored: %d of a connection',
    async (count) => {
      await start()
      const { bodies } = ingest.memory.shares
      ingest.storage.isManual = true
      await app.listen({ host: '127.0.0.1', port: 0 })
      let hasLeft = false
      app.server.once('connection', (socket) =>
        socket.once('close', () => {
          hasLeft = true
        }),
      )
      const { port } = /** @type {import('node:net').AddressInfo} */ (app.server.address())
      const client = connect(port, '127.0.0.1')
      const body = objects(10)
      const request =
        'POST /v1/measurements HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n' +
        `content-length: ${body.length}\r\n\r\n${body}`
      client.write(request.repeat(count))
      await until(() => ingest.inFlight.count === 10 * count)
      client.destroy()
      await until(() => hasLeft)
      expect(bodies.bytes).toBeGreaterThanOrEqual(count * body.length)
      ingest.storage.isManual = false
      await until(() => {
        for (const request of ingest.storage.requests.splice(0)) request.end()
        return ingest.inFlight.count === 0
      })
      await until(() => bodies.bytes === 0)
    },
  )
})

describe('dead letters', () => {
  const json = { 'content-type': 'application/json' }
  const letters = () => ingest.storage.rowsOf('dead_letter')
  const replayAll = () => {
    const ids = letters().map(({ id }) => String(id))
    return post('/v1/dead-letters/replay', JSON.stringify({ ids }), json)
  }

  test('are stored once what was wrong is mended, as of their receipt, and marked', async () => {
    await start()
    ingest.storage.refuses = ({ params }) => params.includes('refused')
    const bodies = /** @type {const} */ ([
      ['application/json', `{"sensor":"a","note":"refused"}`],
      ['text/plain', `m,sensor=a v="refused"`],
    ])
    for (const [type, body] of bodies) {
      expect((await post('/v1/measurements', body, { 'content-type': type })).statusCode).toBe(400)
    }
    const receipts = letters().map(({ received }) => received)
    expect((await replayAll()).json()).toMatchObject({ replayed: 0, refused: [{}, {}] })
    expect(letters().map(({ replayed }) => replayed)).toEqual([undefined, undefined])

    ingest.storage.refuses = () => false
    expect((await replayAll()).json()).toEqual({ replayed: 2, refused: [], unknown: [] })
    const rows = ingest.storage.rowsOf('measurement_30d')
    expect(rows.map(({ metric, s, ts }) => [metric, s, ts]).sort()).toEqual(
      [
        ['m.v', 'refused', receipts[1]],
        ['note', 'refused', receipts[0]],
      ].sort(),
    )
    expect(letters().every(({ replayed }) => replayed > 0)).toBe(true)
    expect(ingest.counts.replayed).toBe(2)
  })

  test('that are still none stay the dead letters they are', async () => {
    await start()
    await post('/v1/measurements', '{"sensor":"a"}', json)
    const before = letters()
    const { refused } = (await replayAll()).json()
    expect(refused).toEqual([
      { id: String(before[0].id), reason: expect.stringContaining('no value') },
    ])
    expect(letters()).toHaveLength(1)
  })

  test('that are not there, or no ids, are said to be so', async () => {
    await start()
    const id = '0d1b3c5e-0000-1000-8000-000000000001'
    const unknown = await post('/v1/dead-letters/replay', JSON.stringify({ ids: [id] }), json)
    expect(unknown.json()).toEqual({ replayed: 0, refused: [], unknown: [id] })
    for (const body of ['', '{}', '{"ids":[]}', '{"ids":["x"]}', '[1]']) {
      const { statusCode } = await post('/v1/dead-letters/replay', body, json)
      expect([body, statusCode]).toEqual([body, 400])
    }
  })

  test('of one client are kept up to its limits; more are acknowledged and counted', async () => {
    await start({ deadLettersMax: 3, deadLetterBytesMax: 1_000 })
    for (let count = 0; count < 5; count++) await post('/v1/measurements', '{}', json)
    expect([letters().length, ingest.counts.deadLettered, ingest.counts.unkeptLetters]).toEqual([
      ...[3, 5, 2],
    ])
    expect(ingest.inFlight.count).toBe(0)
  })
})

test('metrics, health and counts are told; health is 503 while it is not well', async () => {
  await start()
  const get = (/** @type {string} */ url) => app.inject({ url, headers: HOST })
  expect((await get('/metrics')).body).toContain('sandglass_test_process_cpu')
  expect((await get('/stats')).json()).toEqual({ received: 0 })
  expect((await get('/health')).statusCode).toBe(200)
  isWell = false
  const sick = await get('/health')
  isWell = true
  expect([sick.statusCode, sick.json()]).toEqual([503, { ok: false }])
  expect((await get('/nothing')).statusCode).toBe(404)
})

describe('retention', () => {
  beforeEach(() => start())
  const json = { 'content-type': 'application/json' }
  const classes = () => ingest.storage.rowsOf('layout').map((row) => row.class)
  const body = `{"sensor":"a","t":${T},"m":1}`

  test('is that of sensors which register themselves by a request; others keep theirs', async () => {
    const first = await post('/v1/measurements?retention=keep', body, json)
    expect(first.json()).toEqual({ received: 1, stored: 1, refused: [] })
    expect(classes()).toEqual(['keep'])
    expect(ingest.storage.rowsOf('measurement_keep')).toHaveLength(1)
    const again = await post('/v1/measurements?retention=7d', body, json)
    expect(again.json()).toMatchObject({ kept: [{ sensor: 'a', retention: 'keep' }] })
    const line = await post('/api/v2/write?precision=ms&retention=7d', `m,sensor=a value=2 ${T}`)
    expect([line.statusCode, line.headers['sandglass-kept-sensors']]).toEqual([204, '1'])
    expect(classes()).toEqual(['keep'])
  })

  test('that there is not is refused, and names those there are', async () => {
    const { statusCode, body: text } = await post('/v1/measurements?retention=5d', body, json)
    expect([statusCode, text.includes('must be one of 7d, 30d')]).toEqual([400, true])
    expect(classes()).toEqual([])
  })

  test('is that of sensors of dead letters which are replayed', async () => {
    const early = `{"sensor":"a","t":${Date.now() + 90_000_000},"m":1}`
    await post('/v1/measurements', early, json)
    const [{ id }] = ingest.storage.rowsOf('dead_letter')
    const letter = ingest.storage.rowsOf('dead_letter')[0]
    letter.payload = Buffer.from(body)
    const ids = JSON.stringify({ ids: [String(id)] })
    const answer = await post('/v1/dead-letters/replay?retention=400d', ids, json)
    expect([answer.json().replayed, classes()]).toEqual([1, ['400d']])
  })
})
