// Which rewrites are open is read from a list of them, however many there were.
import { expect, test } from '@jest/globals'
import { openRewriteStampUs, openRewriteStatement } from '@sandglass/common/rewrite'
import { sensorId } from '@sandglass/common/sensor'
import cassandra from 'cassandra-driver'
import { RewriteStore } from '../src/rewrite/store.js'

const { Long } = cassandra.types
const ASKED_MS = Date.UTC(2026, 0, 7)

/** The tables `rewrite` and `rewrite_open`, and how many rows were read. */
class Tables {
  rowsRead = 0
  /** @type {Map<string, any>} */
  rewrites = new Map()
  /** With the timestamps of what is listed and was taken off. @type {Map<string, any>} */
  listed = new Map()

  /** @param {string} query  @param {any[]} [params]  @returns {Promise<any[]>} */
  async read(query, params = []) {
    const isList = query.includes('k.rewrite_open')
    if (query.startsWith('INSERT') && isList) {
      const [sensor, asked, stamp] = params
      this.#put(sensor, asked, { openUs: Number(stamp) })
      return []
    }
    if (query.startsWith('DELETE')) {
      const [stamp, sensor, asked] = params
      this.#put(sensor, asked, { closeUs: Number(stamp) })
      return []
    }
    const rows = isList ? this.open() : [...this.rewrites.values()]
    const found = rows.filter(({ sensor_id }) => params.length === 0 || sensor_id === params[0])
    this.rowsRead += found.length
    return found
  }

  /** @param {string} query */
  async *pages(query) {
    yield* await this.read(query)
  }

  /** @param {string} sensor_id  @param {number} askedMs  @param {object} stamp */
  #put(sensor_id, askedMs, stamp) {
    const key = `${sensor_id} ${askedMs}`
    const row = { openUs: 0, closeUs: 0, ...this.listed.get(key), ...stamp }
    this.listed.set(key, { ...row, sensor_id, asked: new Date(askedMs) })
  }

  open() {
    return [...this.listed.values()].filter(({ openUs, closeUs }) => openUs > closeUs)
  }

  /** @param {number} n  @param {number} askedMs */
  async list(n, askedMs) {
    const stamp = Long.fromNumber(openRewriteStampUs(askedMs))
    await this.read(openRewriteStatement('k'), [sensorId(`s${n}`), askedMs, stamp])
  }

  /** @param {number} n  @param {number} askedMs  @param {string | null} className */
  put(n, askedMs, className = '90d') {
    const id = sensorId(`s${n}`)
    const row = { ...this.rewrites.get(id), asked: new Date(askedMs), class: className }
    this.rewrites.set(id, { ...row, sensor_id: id })
  }

  /** As the api does. @param {number} n  @param {number} [askedMs] */
  async ask(n, askedMs = ASKED_MS) {
    await this.list(n, askedMs)
    this.put(n, askedMs)
  }

  /** @param {number} n  @param {string} [phase]  @param {number} [askedMs] */
  save(n, phase = 'done', askedMs = ASKED_MS) {
    this.rewrites.get(sensorId(`s${n}`)).state = JSON.stringify({ phase, askedMs })
  }

  /** As a process that begins. */
  store() {
    const storage = { read: this.read.bind(this), pages: this.pages.bind(this) }
    return new RewriteStore(/** @type {any} */ (storage), 'k')
  }
}

/** @param {RewriteStore} store */
const open = async (store) => (await store.jobs()).map(({ sensorId: id, askedMs }) => [id, askedMs])

test('an idle look reads nothing, however much was rewritten', async () => {
  const tables = new Tables()
  for (let n = 0; n < 1_000; n++) {
    tables.put(n, ASKED_MS)
    tables.save(n)
  }
  const store = tables.store()
  expect(await open(store)).toEqual([])
  tables.rowsRead = 0
  expect(await open(store)).toEqual([])
  expect(tables.rowsRead).toBe(0)
})

test('a rewrite is found until it is over, also after a restart, and costs nothing then', async () => {
  const tables = new Tables()
  const store = tables.store()
  await store.jobs()
  for (let n = 0; n < 100; n++) await tables.ask(n)
  for (const one of [store, tables.store()]) expect(await open(one)).toHaveLength(100)
  for (let n = 1; n < 100; n++) tables.save(n, n % 2 === 0 ? 'done' : 'cancelled')
  tables.save(0, 'settle')
  expect(await open(store)).toEqual([[sensorId('s0'), ASKED_MS]])
  tables.save(0)
  expect(await open(store)).toEqual([])
  tables.rowsRead = 0
  expect(await open(store)).toEqual([])
  expect(tables.rowsRead).toBe(0)
})

test('one that an earlier version, which had no list, left open is found at the start', async () => {
  const tables = new Tables()
  tables.put(1, ASKED_MS)
  tables.put(2, ASKED_MS)
  tables.save(2)
  tables.put(3, ASKED_MS)
  tables.save(3, 'settle')
  // Called off before it began: nothing is to be done.
  tables.put(4, ASKED_MS, null)
  const store = tables.store()
  const wanted = [1, 3].map((n) => [sensorId(`s${n}`), ASKED_MS])
  for (let look = 0; look < 2; look++) expect(await open(store)).toEqual(wanted)
})

test('another one that is asked for in its place is found, whatever ends meanwhile', async () => {
  const tables = new Tables()
  const store = tables.store()
  await store.jobs()
  await tables.ask(1)
  // The next one is listed and not yet asked for: it stays listed.
  await tables.list(1, ASKED_MS + 5)
  tables.save(1)
  expect(await open(store)).toEqual([])
  expect(tables.open()).toHaveLength(1)
  tables.put(1, ASKED_MS + 5)
  const wanted = [[sensorId('s1'), ASKED_MS + 5]]
  expect(await open(store)).toEqual(wanted)
  // A list that says the old one, too, has it done once.
  await tables.list(1, ASKED_MS + 1)
  expect(await open(store)).toEqual(wanted)
  expect(tables.open()).toHaveLength(1)
})
