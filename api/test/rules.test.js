// Rules, receivers and alerts over HTTP: what is taken, refused, shown and never shown.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { alertDay, alertId } from '@sandglass/common/rules/alert'
import { sensorId } from '@sandglass/common/sensor'
import { encodeCursor } from '../src/cursor.js'
import { readAlerts } from '../src/rules/alerts.js'
import { ruleQuestions } from '../src/rules/store.js'
import { createFakeStore } from './support/fake-store.js'
import { appOver } from './support/inject.js'

const store = createFakeStore()
/** @type {import('fastify').FastifyInstance} */
let app
beforeAll(async () => {
  app = await appOver(store)
})
afterAll(() => app.close())

/** @param {any} method  @param {string} url  @param {any} [body] */
async function send(method, url, body) {
  const headers = { host: '127.0.0.1:8080' }
  const response = await app.inject({ method, url, headers, payload: body })
  return { status: response.statusCode, body: response.body === '' ? undefined : response.json() }
}

const HOT = { name: 'hot', kind: 'threshold', metric: 'heat', above: 80 }
const HOOK = { name: 'duty', kind: 'webhook', url: 'http://127.0.0.1:9/hook' }

test('the secret of a receiver is told once, and stays when the rest is replaced', async () => {
  const made = await send('POST', '/v1/receivers', HOOK)
  expect([made.status, made.body.secret]).toEqual([201, expect.stringMatching(/^whsec_/)])
  const path = `/v1/receivers/${made.body.id}`
  const put = await send('PUT', path, { ...HOOK, name: 'night' })
  const one = await send('GET', path)
  const all = await send('GET', '/v1/receivers')
  for (const { body } of [put, one, all]) expect(JSON.stringify(body)).not.toContain('whsec')
  expect(one.body).toMatchObject({ name: 'night', url: HOOK.url, told: null, failed: null })
  expect((await store.receiver(made.body.id))?.body.secret).toBe(made.body.secret)
  const wrong = await send('POST', '/v1/receivers', { ...HOOK, secret: 'guess' })
  expect([wrong.status, wrong.body.parameter]).toEqual([400, 'secret'])
  expect(JSON.stringify(wrong.body)).not.toContain('guess')
  expect((await send('DELETE', path)).status).toBe(204)
  expect((await send('GET', path)).status).toBe(404)
})

test('a rule is made, replaced, silenced and deleted; what is wrong is named', async () => {
  const { body: receiver } = await send('POST', '/v1/receivers', HOOK)
  const made = await send('POST', '/v1/rules', { ...HOT, receivers: [receiver.id] })
  expect(made.status).toBe(201)
  expect(made.body).toMatchObject({ ...HOT, for_s: 0, severity: 'warning', silenced: null })
  const path = `/v1/rules/${made.body.id}`
  const put = await send('PUT', path, { ...HOT, above: 90, receivers: [receiver.id] })
  expect(put.body.above).toBe(90)
  expect(put.body.changed).toBeGreaterThan(made.body.changed)
  const until = new Date(Date.now() + 60_000).toISOString()
  const silenced = await send('POST', `${path}/silence`, { until })
  expect(silenced.body.silenced).toBe(Date.parse(until))
  expect((await send('POST', `${path}/silence`, { until: null })).body.silenced).toBeNull()
  /** @type {[any, string][]} */
  const table = [
    [{ clear: 81 }, 'clear'],
    [{ receivers: ['6f2c4b0e-5a65-4b3e-9a55-0f3a5a3b1c11'] }, 'receivers'],
    [{ surprise: 1 }, 'surprise'],
    [{ above: 'hot' }, 'above'],
    [{ kind: 'silence' }, 'above'],
  ]
  for (const [change, field] of table) {
    const { status, body } = await send('POST', '/v1/rules', { ...HOT, ...change })
    expect([change, status, body.parameter]).toEqual([change, 400, field])
  }
  for (const wrong of ['2020-01-01', '2099-01-01']) {
    const { status, body } = await send('POST', `${path}/silence`, { until: wrong })
    expect([wrong, status, body.parameter]).toEqual([wrong, 400, 'until'])
  }
  expect((await send('GET', '/v1/rules')).body.items).toHaveLength(1)
  expect((await send('DELETE', path)).status).toBe(204)
  expect((await send('GET', path)).status).toBe(404)
})

test('a receiver goes once no rule names it', async () => {
  const { body: receiver } = await send('POST', '/v1/receivers', HOOK)
  const path = `/v1/receivers/${receiver.id}`
  const { body: rule } = await send('POST', '/v1/rules', { ...HOT, receivers: [receiver.id] })
  const refused = await send('DELETE', path)
  expect([refused.status, refused.body.detail]).toEqual([
    409,
    `${HOOK.name} is told by ${HOT.name}: take it out of these rules, or delete them, first`,
  ])
  expect((await send('GET', path)).status).toBe(200)
  expect((await send('DELETE', `/v1/rules/${rule.id}`)).status).toBe(204)
  expect((await send('DELETE', path)).status).toBe(204)
  expect((await send('GET', path)).status).toBe(404)
})

test('a test is put into the queue of each receiver', async () => {
  const { body: receiver } = await send('POST', '/v1/receivers', HOOK)
  const { body: rule } = await send('POST', '/v1/rules', { ...HOT, receivers: [receiver.id] })
  const tested = await send('POST', `/v1/rules/${rule.id}/test`)
  expect(tested.status).toBe(202)
  expect(store.tests).toMatchObject([{ receiverId: receiver.id }])
  expect(tested.body.notifications).toEqual([{ id: store.tests[0].id, receiver: receiver.id }])
  expect(JSON.parse(store.tests[0].body)).toMatchObject({ type: 'alert.test' })
  const { body: deaf } = await send('POST', '/v1/rules', HOT)
  const refused = await send('POST', `/v1/rules/${deaf.id}/test`)
  expect([refused.status, refused.body.parameter]).toEqual([400, 'receivers'])
})

test('a receiver is tested by itself', async () => {
  const { body: receiver } = await send('POST', '/v1/receivers', HOOK)
  const before = store.tests.length
  const tested = await send('POST', `/v1/receivers/${receiver.id}/test`)
  expect(tested.status).toBe(202)
  const [test, ...more] = store.tests.slice(before)
  expect(more).toEqual([])
  expect([test.id, test.createdMs]).toEqual([tested.body.notification, tested.body.created])
  expect(test.receiverId).toBe(receiver.id)
  const { type, data } = JSON.parse(test.body)
  expect([type, data.text]).toEqual(['alert.test', 'This is a test.'])
  const unknown = '00000000-0000-0000-0000-000000000000'
  expect((await send('POST', `/v1/receivers/${unknown}/test`)).status).toBe(404)
})

test('what is left of a deleted alert hides none that began before it that day', async () => {
  const dayMs = Date.UTC(2026, 0, 10)
  const rows = Array.from({ length: 300 }, (_, n) => {
    const id = alertId({ ruleId: 'r', sensorId: 's', metric: `m${n}` }, dayMs + 300 - n)
    return { id, at: new Date(dayMs + 300 - n), metric: `m${n}`, about: n === 7 ? null : '{}' }
  })
  const questions = ruleQuestions('k', async (query, parameters) => {
    if (parameters[0] !== alertDay(dayMs)) return []
    const before = query.includes('(at, id) <') ? Number(parameters[1]) : Number.POSITIVE_INFINITY
    const rest = rows.filter(({ at }) => at.getTime() < before)
    return /** @type {any[]} */ (rest.slice(0, Number(parameters.at(-1))))
  })
  const { alerts } = await readAlerts(questions, {
    limit: 10,
    nowMs: dayMs,
    isWanted: ({ metric }) => metric === 'm299',
    signal: AbortSignal.timeout(60_000),
  })
  expect(alerts.map(({ metric }) => metric)).toEqual(['m299'])
})

test('alerts are paged newest first, filtered, acknowledged and silenced', async () => {
  const now = Date.now()
  for (let n = 0; n < 700; n++) {
    // Some in one millisecond, most over a hundred days.
    const firedMs = now - Math.floor(n / 3) * 40_000_000
    const subject = { ruleId: 'r', sensorId: sensorId(`s${n % 3}`), metric: `m${n}` }
    store.alertRows.push({
      ...subject,
      id: alertId(subject, firedMs),
      firedMs,
      about: { rule: 'hot', kind: 'threshold', severity: 'info', sensor: 's', value: 1, text: 't' },
      resolvedMs: n % 5 === 0 ? null : firedMs + 1,
      resolvedValue: null,
      resolvedWhy: null,
      acknowledgedMs: null,
      acknowledgedBy: null,
      note: null,
      told: {},
    })
  }
  const byTime = [...store.alertRows].sort(
    (a, b) => b.firedMs - a.firedMs || (a.id < b.id ? 1 : -1),
  )
  const middleMs = now - 50 * 40_000_000
  for (const [query, wanted] of /** @type {const} */ ([
    ['', byTime],
    ['&state=firing', byTime.filter(({ resolvedMs }) => resolvedMs === null)],
    [
      '&sensor=s1&state=resolved',
      byTime.filter((one) => one.sensorId === sensorId('s1') && one.resolvedMs !== null),
    ],
    [
      '&sensor=s1&sensor=s2',
      byTime.filter((one) => ['s1', 's2'].map(sensorId).includes(one.sensorId)),
    ],
    [`&from=${middleMs}`, byTime.filter(({ firedMs }) => firedMs >= middleMs)],
    [`&to=${middleMs}`, byTime.filter(({ firedMs }) => firedMs < middleMs)],
    [
      `&from=${middleMs}&to=${now - 40_000_000}`,
      byTime.filter(({ firedMs }) => firedMs >= middleMs && firedMs < now - 40_000_000),
    ],
    [`&to=${now + 9e9}`, byTime],
  ])) {
    const found = []
    let cursor = ''
    do {
      const page = await send('GET', `/v1/alerts?limit=99${query}${cursor}`)
      found.push(...page.body.items.map((/** @type {any} */ { id }) => id))
      cursor = page.body.next === null ? '' : `&cursor=${page.body.next}`
    } while (cursor !== '')
    expect(found).toEqual(wanted.map(({ id }) => id))
  }
  const { body } = await send('GET', '/v1/alerts?limit=1')
  const foreign = await send('GET', `/v1/alerts?limit=1&state=firing&cursor=${body.next}`)
  expect([foreign.status, foreign.body.parameter]).toEqual([400, 'cursor'])
  const some = await send('GET', '/v1/alerts?limit=1&sensor=s1&sensor=s2')
  const other = await send('GET', `/v1/alerts?limit=1&sensor=s1&cursor=${some.body.next}`)
  expect([other.status, other.body.parameter]).toEqual([400, 'cursor'])

  // Of a few days no others are read.
  store.alertDays.length = 0
  await send('GET', `/v1/alerts?from=${now - 3 * 86_400_000}&to=${now}`)
  expect(store.alertDays).toHaveLength(4)

  // Nor of a cursor's that is far ahead those until then.
  store.alertDays.length = 0
  const none = [null, null, null, null, now - 86_400_000, null]
  const ahead = encodeCursor('alerts', none, [8e15, byTime[0].id])
  expect((await send('GET', `/v1/alerts?from=${now - 86_400_000}&cursor=${ahead}`)).status).toBe(
    200,
  )
  expect(store.alertDays).toHaveLength(3)

  const path = `/v1/alerts/${byTime[0].id}`
  const acknowledged = await send('POST', `${path}/acknowledge`, { by: 'Ada', note: 'on my way' })
  expect(acknowledged.body).toMatchObject({
    by: 'Ada',
    note: 'on my way',
    acknowledged: expect.any(Number),
  })
  expect((await send('GET', '/v1/alerts?acknowledged=true')).body.items).toHaveLength(1)
  const until = String(now + 3_600_000)
  const silenced = async () => {
    const items = [
      ...(await send('GET', '/v1/alerts?limit=7')).body.items,
      (await send('GET', path)).body,
    ]
    return items.filter((one) => one.silenced !== null).map((one) => [one.id, one.silenced])
  }
  expect(await silenced()).toEqual([])
  expect((await send('POST', `${path}/silence`, { until })).body.silenced).toBe(Number(until))
  const { ruleId, sensorId: id, metric } = byTime[0]
  expect(store.silences).toEqual([{ ruleId, sensorId: id, metric, untilMs: Number(until) }])
  expect(await silenced()).toEqual([1, 2].map(() => [byTime[0].id, Number(until)]))
  expect((await send('POST', `${path}/silence`, { until: null })).body.silenced).toBeNull()
  expect(await silenced()).toEqual([])
  const unknown = await send('GET', '/v1/alerts/6f2c4b0e-5a65-4b3e-9a55-0f3a5a3b1c11')
  expect(unknown.status).toBe(404)
})

test('every route is described', async () => {
  const { paths } = (await send('GET', '/openapi.json')).body
  const own = Object.keys(paths).filter((path) => /^.v1.(alerts|receivers|rules)/.test(path))
  expect(own.sort()).toEqual([
    '/v1/alerts',
    '/v1/alerts/{alert}',
    '/v1/alerts/{alert}/acknowledge',
    '/v1/alerts/{alert}/silence',
    '/v1/receivers',
    '/v1/receivers/{receiver}',
    '/v1/receivers/{receiver}/test',
    '/v1/rules',
    '/v1/rules/{rule}',
    '/v1/rules/{rule}/silence',
    '/v1/rules/{rule}/test',
  ])
})
