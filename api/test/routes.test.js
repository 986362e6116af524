import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { Problem } from '@sandglass/common/problem'
import { parseTopics } from '@sandglass/common/topics'
import { Registry } from 'prom-client'
import { buildApp } from '../src/app.js'
import { databaseAway } from '../src/store.js'
import { createFakeStore, NO_KEYS } from './support/fake-store.js'

/** @typedef {Partial<import('../src/app.js').Parts>} Parts */

const HOST = { host: 'localhost' }
const LIMITS = { requestsPerS: 0, bodyBytesMax: 1_048_576, importBytesMax: 1e6, streamsMax: 2 }
const rows = Array.from({ length: 25 }, (_, index) => ({
  metric: index % 2 ? 'b' : 'a',
  t: 1_767_225_600_000 + index,
  seq: 0,
  value: index / 2,
}))

/** What ingest answers. @type {import('../src/ingest-client.js').Answer} */
const stored = { status: 400, type: 'application/json', retryAfter: '1', body: '{"stored":2}' }

/** @param {Parts} [parts] */
async function build(parts = {}) {
  return buildApp({
    store: createFakeStore({ rows }),
    isDatabaseUp: () => true,
    ingest: { stats: async () => ({ received: 3 }), post: async () => stored },
    registry: new Registry(),
    limits: LIMITS,
    isLoopback: true,
    ...NO_KEYS,
    ...parts,
  })
}

/** @param {import('light-my-request').Response} response @param {number} status */
function expectProblem(response, status) {
  expect(response.statusCode).toBe(status)
  expect(response.headers['content-type']).toMatch('application/problem+json')
  const body = response.json()
  expect(body).toMatchObject({ status, title: expect.any(String), detail: expect.any(String) })
  expect(body.type).toMatch(/^urn:sandglass:problem:/)
  return body
}

describe('the api', () => {
  /** @type {Awaited<ReturnType<typeof build>>} */
  let app
  beforeAll(async () => {
    app = await build()
  })
  afterAll(() => app.close())

  /** @param {string} url @param {object} [more] */
  const ask = (url, more) => app.inject({ url, headers: HOST, ...more })

  test('answers measurements newest first, with a next page in body and header', async () => {
    const response = await ask('/v1/sensors/s/measurements?limit=2')
    expect(response.headers['content-type']).toMatch('application/json')
    const { items, next } = response.json()
    expect(items).toEqual([
      { metric: 'a', t: rows[24].t, v: 12 },
      { metric: 'b', t: rows[23].t, v: 11.5 },
    ])
    const link = /^<(.*)>; rel="next"$/.exec(String(response.headers.link))
    const followed = await ask(link?.[1] ?? '')
    expect(followed.json().items[0]).toEqual({ metric: 'a', t: rows[22].t, v: 11 })
    const alone = await ask(`/v1/sensors/s/measurements?limit=2&cursor=${next}`)
    expect(alone.json()).toEqual(followed.json())
  })

  test('ends with next null', async () => {
    const { items, next } = (await ask('/v1/sensors/s/measurements')).json()
    expect([items.length, next]).toEqual([25, null])
  })

  test('takes ISO times and several metrics', async () => {
    const query = 'from=2026-01-01T00:00:00.005Z&to=1767225600008&metric=a&metric=b&order=asc'
    const { items } = (await ask(`/v1/sensors/s/measurements?${query}`)).json()
    expect(items.map((/** @type {{ t: number }} */ { t }) => t - rows[0].t)).toEqual([5, 6, 7])
  })

  test.each([
    ['limit', 'limit=0'],
    ['limit', 'limit=10001'],
    ['limit', 'limit=x'],
    ['limit', 'limit=1.5'],
    ['from', 'from=5&to=5'],
    ['from', 'from=never'],
    ['to', 'to=2026-02-30'],
    ['order', 'order=up'],
    ['cursor', 'cursor=abc'],
    ['cursor', 'cursor='],
    ['colour', 'colour=red'],
  ])('refuses a wrong %s by name: %s', async (parameter, query) => {
    const problem = expectProblem(await ask(`/v1/sensors/s/measurements?${query}`), 400)
    expect(problem.parameter).toBe(parameter)
    expect(problem.detail).toContain(parameter)
  })

  test('refuses the cursor of another sensor', async () => {
    const { next } = (await ask('/v1/sensors/s/measurements?limit=2')).json()
    const problem = expectProblem(await ask(`/v1/sensors/t/measurements?cursor=${next}`), 400)
    expect(problem.parameter).toBe('cursor')
  })

  test.each(['', '/latest', '/measurements'])(
    'knows no sensor that is not there%s',
    async (path) => {
      expectProblem(await ask(`/v1/sensors/nobody${path}`), 404)
    },
  )

  test('knows nothing at other paths', async () => {
    expectProblem(await ask('/v2/sensors'), 404)
    expectProblem(await ask('/v1/sensors/s/metrics/a/b'), 404)
  })

  test('gives the newest value of each metric, of one sensor and of all', async () => {
    const one = (await ask('/v1/sensors/s/latest')).json()
    expect(one.items).toContainEqual({ metric: 'a', t: rows[24].t, v: 12, received: rows[24].t })
    const all = (await ask('/v1/latest?metric=b')).json()
    expect(all).toMatchObject({ items: [{ sensor: 's', metric: 'b', v: 11.5 }], next: null })
    expect((await ask('/v1/latest?q=nobody')).json()).toMatchObject({ items: [], next: null })
  })

  test('registers, shows, changes, finds and hides a sensor', async () => {
    const body = { name: 'oven', unit: '°C', tags: { room: 'kitchen' } }
    const created = await ask('/v1/sensors', { method: 'POST', body })
    expect(created.statusCode).toBe(201)
    expect(created.headers.location).toBe('/v1/sensors/oven')
    const { id } = created.json()
    expectProblem(await ask('/v1/sensors', { method: 'POST', body }), 409)

    await ask(`/v1/sensors/${id}`, { method: 'PATCH', body: { type: 'heat', unit: null } })
    const changed = (await ask('/v1/sensors/oven')).json()
    expect(changed).toMatchObject({ id, type: 'heat', unit: null, tags: body.tags })
    for (const query of ['q=OVE', 'type=heat', 'tag=room', 'tag=room:kitchen']) {
      const { retention, layouts, rewrite, ...listed } = changed
      expect((await ask(`/v1/sensors?${query}`)).json().items).toEqual([listed])
    }
    expect((await ask('/v1/sensors?tag=room:hall')).json().items).toEqual([])

    expect((await ask('/v1/sensors/oven', { method: 'DELETE' })).statusCode).toBe(204)
    expectProblem(await ask('/v1/sensors/oven'), 404)
    expect((await ask('/v1/sensors?q=oven')).json().items).toEqual([])
    expect((await ask('/v1/sensors', { method: 'POST', body })).statusCode).toBe(201)
  })

  test('keeps measurements in another class from an event time on that it says', async () => {
    const { id } = (
      await ask('/v1/sensors', { method: 'POST', body: { name: 'kiln', retention: '7d' } })
    ).json()
    const first = { from: 0, retention: '7d', bucketS: 21_600 }
    const patch = (/** @type {object} */ body) => ask('/v1/sensors/kiln', { method: 'PATCH', body })
    const startMs = Date.now()
    const changed = (await patch({ retention: '400d', unit: '°C' })).json()
    expect(changed).toMatchObject({ id, unit: '°C', retention: '7d' })
    const [, { from, ...added }] = changed.layouts
    expect(changed.layouts[0]).toEqual(first)
    expect(added).toEqual({ retention: '400d', bucketS: 604_800 })
    expect(from - startMs).toBeGreaterThan(25 * 3_600_000)
    expect(from - startMs).toBeLessThan(26.1 * 3_600_000)
    expect((await ask('/v1/sensors/kiln')).json()).toEqual(changed)

    // The same again adds nothing; another one comes after it; very many are refused.
    expect((await patch({ retention: '400d' })).json().layouts).toHaveLength(2)
    expect(changed.rewrite).toBeNull()
    // What is stored already, too: into the class that holds last.
    const asked = (await patch({ rewrite: true })).json().rewrite
    expect(asked).toMatchObject({ state: 'asked', retention: '400d', until: null, rows: 0 })
    expect((await patch({ rewrite: false })).json().rewrite).toMatchObject({ retention: null })
    for (const retention of ['7d', '30d', '7d']) await patch({ retention })
    const { layouts } = (await patch({ type: 'oven' })).json()
    expect(layouts.map((/** @type {any} */ one) => one.from - from)).toEqual([
      ...[-from, 0, 3_600_000, 7_200_000, 10_800_000],
    ])
    const problem = expectProblem(await patch({ retention: '30d', type: 'no' }), 409)
    expect(problem).toMatchObject({ parameter: 'retention' })
    expect(problem.detail).toContain(new Date(from).toISOString())
    expect((await ask('/v1/sensors/kiln')).json()).toMatchObject({ type: 'oven', layouts })
    expectProblem(await patch({ retention: 'never' }), 400)
  })

  test('pages through sensors by name, as people count', async () => {
    const names = ['p-1', 'p-2', 'P-3', 'p-4', 'p-10']
    for (const name of [...names].reverse())
      await ask('/v1/sensors', { method: 'POST', body: { name } })
    const seen = []
    let cursor = ''
    do {
      const page = (await ask(`/v1/sensors?limit=2${cursor || '&q=p-'}`)).json()
      seen.push(...page.items.map((/** @type {{ name: string }} */ { name }) => name))
      cursor = page.next && `&cursor=${page.next}`
    } while (cursor)
    expect(seen).toEqual(names)
    const { next } = (await ask('/v1/sensors?limit=1&q=p-')).json()
    expectProblem(await ask(`/v1/sensors?q=other&cursor=${next}`), 400)
    // What stands beside a list of sensors is paged with it.
    expect((await ask('/v1/latest?limit=1&q=p-')).json().next).toBe(next)
  })

  test.each([
    ['name', { name: 'a/b' }],
    ['name', { name: '..' }],
    ['name', { name: 'a\u202eb' }],
    ['name', { name: '\ud800' }],
    ['name', {}],
    ['retention', { name: 'x', retention: 'never' }],
    ['wings', { name: 'x', wings: 2 }],
  ])('refuses a body with a wrong %s', async (parameter, body) => {
    const problem = expectProblem(await ask('/v1/sensors', { method: 'POST', body }), 400)
    expect(problem.parameter).toBe(parameter)
  })

  test('refuses what is no JSON, and what is too large', async () => {
    const headers = { ...HOST, 'content-type': 'application/json' }
    const post = { method: 'POST', headers }
    expectProblem(await ask('/v1/sensors', { ...post, body: '{' }), 400)
    const large = JSON.stringify({ name: 'x'.repeat(1_048_576) })
    expectProblem(await ask('/v1/sensors', { ...post, body: large }), 413)
    const other = { ...post, headers: { ...HOST, 'content-type': 'text/csv' }, body: 'a' }
    expectProblem(await ask('/v1/sensors', other), 415)
  })

  test('refuses JSON that is nested very deep, wherever it stands', async () => {
    const deep = '['.repeat(10_000) + ']'.repeat(10_000)
    const headers = { ...HOST, 'content-type': 'application/json' }
    for (const body of [deep, `{"name":${deep}}`, `{"name":"n","tags":{"a":${deep}}}`]) {
      for (const url of ['/v1/sensors', '/v1/query', '/v1/keys', '/v1/decode']) {
        expectProblem(await ask(url, { method: 'POST', headers, body }), 400)
      }
      const imported = await ask('/v1/import?format=ndjson', { method: 'POST', headers, body })
      const last = JSON.parse(imported.body.trimEnd().split('\n').at(-1) ?? '')
      expect(last).toMatchObject({ done: true, refused: [{ line: 1 }] })
    }
  })

  test('refuses a Host that is another name', async () => {
    expectProblem(await ask('/v1/sensors', { headers: { host: 'evil.example' } }), 421)
  })

  test('describes every route it has', async () => {
    const all = Object.keys((await ask('/openapi.json')).json().paths)
    expect(all.filter((path) => !/alerts|receivers|rules/.test(path)).sort()).toEqual([
      '/health',
      '/metrics',
      '/ready',
      '/v1/access',
      ...['/v1/claim', '/v1/claims', '/v1/claims/{id}', '/v1/claims/{id}/reset'],
      ...['/v1/dashboards', '/v1/dashboards/{dashboard}', '/v1/dead-letters'],
      '/v1/dead-letters/replay',
      ...['/v1/decode', '/v1/decode/expression', '/v1/decoders', '/v1/decoders/{decoder}'],
      '/v1/export',
      '/v1/import',
      '/v1/ingest',
      ...['/v1/keys', '/v1/keys/{id}'],
      '/v1/latest',
      '/v1/measurements',
      '/v1/metadata',
      '/v1/query',
      '/v1/sensors',
      '/v1/sensors/{sensor}',
      '/v1/sensors/{sensor}/deletions',
      '/v1/sensors/{sensor}/deletions/{deletion}',
      ...['/v1/sensors/{sensor}/desired', '/v1/sensors/{sensor}/latest'],
      '/v1/sensors/{sensor}/measurements',
      ...['/v1/sensors/{sensor}/metrics', '/v1/sensors/{sensor}/metrics/{metric}'],
      '/v1/sensors/{sensor}/series',
      '/v1/sensors/{sensor}/status',
      '/v1/stream',
      '/v1/types/{type}/metrics',
      '/v1/types/{type}/metrics/{metric}',
    ])
    expect((await ask('/docs/')).statusCode).toBe(200)
  })

  test('serves the page without foreign or inline scripts', async () => {
    const page = await ask('/')
    expect(page.headers['content-security-policy']).toContain("default-src 'self'")
    expect(page.body).not.toMatch(/<script(?![^>]*\bsrc=)|https?:\/\//)
    for (const [, source] of page.body.matchAll(/(?:src|href)="([^"#]+)"/g)) {
      expect([source, (await ask(`/${source}`)).statusCode]).toEqual([source, 200])
    }
  })

  test('counts requests by route and status', async () => {
    await ask('/v1/sensors/nobody')
    expect((await ask('/metrics')).body).toMatch(
      /sandglass_api_requests_total\{route="\/v1\/sensors\/:sensor",status="404"\} \d/,
    )
  })
})

describe('a page of another origin', () => {
  test.each([true, false])('changes nothing (on loopback: %p)', async (isLoopback) => {
    const app = await build({ isLoopback })
    const host = isLoopback ? '127.0.0.1:8080' : 'sandglass.example'
    const { paths } = (await app.inject({ url: '/openapi.json', headers: { host } })).json()
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => [
        method.toUpperCase(),
        path.replaceAll(/\{\w+\}/g, 's'),
      ]),
    )
    const changes = [
      ...described.filter(([method]) => method !== 'GET'),
      ...[
        ['POST', '/write'],
        ['POST', '/api/v2/write'],
      ],
    ]
    expect(changes.length).toBeGreaterThan(9)
    for (const [method, url] of changes) {
      const ask = (/** @type {Record<string, string>} */ headers) =>
        app.inject({
          method: /** @type {'POST'} */ (method),
          url,
          payload: 'm,sensor=s value=1',
          headers: { host, 'content-type': 'text/plain', ...headers },
        })
      for (const foreign of [
        { origin: 'https://evil.example' },
        { origin: 'null' },
        { 'sec-fetch-site': 'cross-site' },
      ]) {
        const problem = expectProblem(await ask(/** @type {any} */ (foreign)), 403)
        expect(problem.type).toBe('urn:sandglass:problem:foreign-origin')
        expect(problem.detail).toContain('must pass the header Host on')
      }
      const own = await ask({ origin: `https://${host}`, 'sec-fetch-site': 'same-origin' })
      expect([url, own.statusCode]).not.toEqual([url, 403])
    }
    await app.close()
  })
})

describe('while something is away', () => {
  test('a lost database is 503 with Retry-After, and the page and ingest go on', async () => {
    const app = await build({ isDatabaseUp: () => false })
    for (const url of ['/v1/sensors', '/v1/sensors/s/latest', '/v1/stream?sensor=s']) {
      const response = await app.inject({ url, headers: HOST })
      expect(expectProblem(response, 503).type).toBe('urn:sandglass:problem:database-away')
      expect(response.headers['retry-after']).toBe('1')
    }
    expect((await app.inject({ url: '/ready', headers: HOST })).statusCode).toBe(503)
    expect((await app.inject({ url: '/', headers: HOST })).statusCode).toBe(200)
    expect((await app.inject({ url: '/v1/ingest', headers: HOST })).json()).toEqual({ received: 3 })
    await app.close()
  })

  test('a database that says nothing is 503 within two seconds', async () => {
    const store = createFakeStore({ rows })
    const isAsked = new Promise((resolve) => {
      store.rows = () => {
        resolve(undefined)
        return new Promise(() => {})
      }
    })
    const app = await build({ store })
    await app.ready()
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] })
    try {
      const answer = app.inject({ url: '/v1/sensors/s/measurements', headers: HOST })
      await isAsked
      jest.advanceTimersByTime(2_000)
      expectProblem(await answer, 503)
    } finally {
      jest.useRealTimers()
    }
    await app.close()
  })

  test('a query that fails is 503 or 500, and says nothing of what is inside', async () => {
    const store = createFakeStore({ rows })
    const app = await build({ store })
    store.sensor = async () => {
      throw databaseAway()
    }
    expectProblem(await app.inject({ url: '/v1/sensors/s', headers: HOST }), 503)
    store.sensor = async () => {
      throw new Error('a secret')
    }
    const response = await app.inject({ url: '/v1/sensors/s', headers: HOST })
    expectProblem(response, 500)
    expect(response.body).not.toContain('secret')
    await app.close()
  })

  test('lost ingest is 503', async () => {
    const away = async () => {
      throw new Problem('ingest-away', 'ingest does not answer now')
    }
    const app = await build({ ingest: { stats: away, post: away } })
    expectProblem(await app.inject({ url: '/v1/ingest', headers: HOST }), 503)
    for (const url of ['/v1/measurements', '/api/v2/write', '/write']) {
      expectProblem(await app.inject({ method: 'POST', url, headers: HOST, payload: 'm v=1' }), 503)
    }
    await app.close()
  })
})

describe('measurements over HTTP', () => {
  test('go to ingest as they are, and its answer comes back, also while the database is away', async () => {
    /** @type {unknown[]} */
    const posts = []
    const post = async (
      /** @type {[string, any, Buffer | undefined]} */ ...[url, headers, body]
    ) => {
      posts.push([url, headers['content-type'], headers['content-encoding'], String(body)])
      return stored
    }
    const ingest = { stats: async () => ({}), post }
    const app = await build({ ingest, isDatabaseUp: () => false })
    for (const url of ['/v1/measurements?precision=ms', '/api/v2/write?bucket=b', '/write?db=d']) {
      const headers = { ...HOST, 'content-type': 'text/csv', 'content-encoding': 'gzip' }
      const response = await app.inject({ method: 'POST', url, headers, payload: 'bytes' })
      expect([response.statusCode, response.headers['retry-after'], response.body]).toEqual([
        ...[400, '1', '{"stored":2}'],
      ])
      expect(posts.pop()).toEqual([url, 'text/csv', 'gzip', 'bytes'])
    }
    expect((await app.inject({ url: '/ping', headers: HOST })).statusCode).toBe(204)
    await app.close()
  })

  test('are shown as what they would become, and stored nowhere', async () => {
    const topics = parseTopics('plant/{line}/{unit}/{metric} as {line}.{unit}')
    const app = await build({ topics })
    const decode = async (
      /** @type {string} */ query,
      /** @type {string} */ payload,
      /** @type {string} */ type,
    ) => {
      const headers = { ...HOST, 'content-type': type }
      return app.inject({ method: 'POST', url: `/v1/decode${query}`, payload, headers })
    }
    const json = await decode('?topic=sensors/kitchen/m', '{"t":1767225600000,"v":21.5}', 'x/y')
    const [item] = json.json().items
    expect(item).toEqual({
      sensor: 'kitchen',
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      metric: 'm',
      t: 1_767_225_600_000,
      kind: 'number',
      v: 21.5,
    })
    const lines = 'm,sensor=a value=9223372036854775807i\nm v=x'
    const line = await decode('?precision=s', lines, 'text/plain')
    expect(line.json()).toMatchObject({
      items: [{ sensor: 'a', metric: 'm', t: null, kind: 'integer', v: '9223372036854775807' }],
      refused: [{ item: 1, reason: expect.stringContaining('the value of v') }],
    })
    const plant = await decode('?topic=plant/a/press/force', '5', 'x/y')
    expect(plant.json().items).toMatchObject([{ sensor: 'a.press', metric: 'force', v: 5 }])
    const early = await decode('?topic=sensors/s/m', '[1,{"t":915148800,"v":1}]', 'x/y')
    expect(early.json()).toMatchObject({
      items: [{ metric: 'm', v: 1, t: null }],
      refused: [],
      refused_fields: [{ item: 0, field: 'm', reason: expect.stringContaining('t is 1999') }],
    })
    const metrics = Array.from({ length: 1_001 }, (_, index) => [`m${index}`, 1])
    const many = JSON.stringify(Object.fromEntries(metrics))
    expect((await decode('?topic=sensors/s', many, 'x/y')).json()).toMatchObject({
      items: [],
      refused: [{ item: 0, reason: 'a sensor has at most 1000 metrics' }],
      refused_fields: [],
    })
    const lined = await decode('?topic=telegraf/host', 'm,sensor=a v=1i\nm v=x', 'x/y')
    expect(lined.json()).toMatchObject({
      items: [{ sensor: 'a', metric: 'm.v', kind: 'integer', v: 1 }],
      refused: [{ item: 1 }],
    })
    const wrong = await decode('?topic=elsewhere', '1', 'x/y')
    expect(wrong.json()).toMatchObject({ items: [], refused: [{ item: 0 }] })
    expectProblem(await decode('', '{', 'application/json'), 400)
    expectProblem(await decode('', '{', 'image/png'), 415)
    const packed = { ...HOST, 'content-type': 'text/csv', 'content-encoding': 'gzip' }
    const url = '/v1/decode'
    expectProblem(await app.inject({ method: 'POST', url, payload: 'x', headers: packed }), 415)
    expectProblem(await decode('?precision=h', 'm v=1', 'text/plain'), 400)
    await app.close()
  })
})

test('too many requests are 429 with Retry-After', async () => {
  const app = await build({ limits: { ...LIMITS, requestsPerS: 3 } })
  const once = () => app.inject({ url: '/v1/sensors/s', headers: HOST })
  const responses = [await once(), await once(), await once(), await once(), await once()]
  const refused = responses.filter(({ statusCode }) => statusCode === 429)
  expect(refused).toHaveLength(2)
  for (const response of refused) {
    expectProblem(response, 429)
    expect(Number(response.headers['retry-after'])).toBeGreaterThan(0)
  }
  await app.close()
})
