// What the simulator says of its sensors over REST.
import { describe, expect, test } from '@jest/globals'
import { metadataFault } from '@sandglass/common/metadata'
import { MEANINGS } from '../src/about.js'
import { DESCRIBED_MAX, DescribeError, Describer } from '../src/describe.js'
import { buildFleet } from '../src/fleet.js'
import { KINDS } from '../src/kinds.js'

const FLEET = buildFleet({ sensors: 5, seed: 1, fleet: 'mixed', clocklessPercent: 0 })

/** The api as far as it is asked: what it knows, and what it was told. */
class FakeApi {
  /** @type {Map<string, any>} */
  sensors = new Map()
  /** @type {Map<string, Map<string, any>>} */
  types = new Map()
  /** @type {string[]} */
  changes = []
  /** Answers before all others. @type {(() => Response)[]} */
  first = []

  /** @type {typeof fetch} */
  fetch = async (input, { method = 'GET', body } = {}) => {
    const early = this.first.shift()
    if (early) return early()
    const [, , kind, owner, , metric] = new URL(String(input)).pathname
      .split('/')
      .map(decodeURIComponent)
    const said = body === undefined ? undefined : JSON.parse(String(body))
    if (method !== 'GET') this.changes.push([method, owner, metric].filter(Boolean).join(' '))
    if (kind === 'sensors') {
      const known = this.sensors.get(owner)
      if (!known) return Response.json({}, { status: 404 })
      if (method === 'PATCH') Object.assign(known, said)
      return Response.json(known)
    }
    const ofType = this.types.get(owner) ?? new Map()
    this.types.set(owner, ofType)
    if (method === 'PUT') ofType.set(metric, said)
    return Response.json({ items: [...ofType.keys()].map((one) => ({ metric: one })) })
  }

  /** @param {string} name  @param {object} [more] */
  add(name, more = {}) {
    this.sensors.set(name, { type: null, unit: null, tags: {}, ...more })
  }
}

/** @param {FakeApi} api  @param {(nowMs: number) => void} [onSleep] */
function describerOf(api, onSleep = () => {}, fleet = FLEET) {
  const end = new AbortController()
  let nowMs = 0
  const describer = new Describer({
    apiUrl: 'http://api:8080',
    fleet,
    fleetName: 'mixed',
    signal: end.signal,
    fetch: api.fetch,
    now: () => nowMs,
    sleep: async (ms) => {
      nowMs += ms
      onSleep(nowMs)
    },
  })
  return { describer, end }
}

test('every metric of every kind has a meaning that the api takes', () => {
  const metricsOf = (/** @type {Record<string, Record<string, unknown>>} */ kinds) =>
    Object.fromEntries(Object.entries(kinds).map(([kind, all]) => [kind, Object.keys(all).sort()]))
  expect(metricsOf(MEANINGS)).toEqual(metricsOf(KINDS))
  for (const meanings of Object.values(MEANINGS)) {
    for (const meaning of Object.values(meanings)) expect(metadataFault(meaning)).toBeUndefined()
  }
})

describe('sensors', () => {
  test('get type and tags, and their types meanings', async () => {
    const api = new FakeApi()
    for (const { name } of FLEET) api.add(name)
    const { describer } = describerOf(api)
    await describer.run()
    expect([describer.sensors, describer.all]).toEqual([5, 5])
    for (const { name, kind, place } of FLEET) {
      const tags = { source: 'simulator', fleet: 'mixed', place }
      expect(api.sensors.get(name)).toMatchObject({ type: kind, tags })
    }
    expect([...api.types.keys()].sort()).toEqual(['climate', 'machine', 'meter', 'tank'])
    expect(Object.fromEntries(api.types.get('climate') ?? [])).toEqual(
      JSON.parse(JSON.stringify(MEANINGS.climate)),
    )
  })

  test('that are described stay as they are, and so do metrics of which something is said', async () => {
    const api = new FakeApi()
    for (const { name } of FLEET) api.add(name)
    await describerOf(api).describer.run()
    api.changes = []
    api.types.get('tank')?.delete('pump')
    api.sensors.get(FLEET[0].name).tags = {}
    api.sensors.get(FLEET[0].name).type = null
    api.sensors.get(FLEET[1].name).type = 'mine'
    await describerOf(api).describer.run()
    expect(api.changes).toEqual(['PUT tank pump', `PATCH ${FLEET[0].name}`])
    expect(api.sensors.get(FLEET[1].name).type).toBe('mine')
  })

  test('that are not there yet are looked for again, until it is ended', async () => {
    const api = new FakeApi()
    for (const { name } of FLEET.slice(1)) api.add(name)
    const { describer } = describerOf(api, (nowMs) => nowMs > 10_000 && api.add(FLEET[0].name))
    await describer.run()
    expect(describer.sensors).toBe(5)
    api.sensors.delete(FLEET[0].name)
    const { describer: other, end } = describerOf(api, (nowMs) => nowMs > 10_000 && end.abort())
    await other.run()
    expect(other.sensors).toBe(4)
  })

  test('are described when an api that was away is there', async () => {
    const api = new FakeApi()
    for (const { name } of FLEET) api.add(name)
    api.first = [
      () => {
        throw new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } })
      },
      () => new Response('{}', { status: 503 }),
      () => new Response('{}', { status: 429 }),
    ]
    const { describer } = describerOf(api)
    await describer.run()
    expect(describer.sensors).toBe(5)
  })

  test('are left alone by an api that wants a key, or stays away', async () => {
    const api = new FakeApi()
    api.first = [() => Response.json({ detail: 'send a key' }, { status: 401 })]
    await expect(describerOf(api).describer.run()).rejects.toThrow(/401 send a key/)
    const away = new FakeApi()
    away.fetch = async () => {
      throw new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } })
    }
    const { describer } = describerOf(away)
    await expect(describer.run()).rejects.toThrow(DescribeError)
    expect(describer.isHeard).toBe(false)
  })

  test('are described up to a limit', async () => {
    const api = new FakeApi()
    const fleet = buildFleet({ sensors: 1_003, seed: 1, fleet: 'mixed', clocklessPercent: 0 })
    for (const { name } of fleet) api.add(name)
    const { describer } = describerOf(api, undefined, fleet)
    await describer.run()
    expect([describer.sensors, describer.all]).toEqual([DESCRIBED_MAX, DESCRIBED_MAX])
  })
})
