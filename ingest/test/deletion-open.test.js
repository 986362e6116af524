// Which deletions are open is read from a list of them, however many are over.
import { expect, test } from '@jest/globals'
import { deletionStampUs, openStampUs } from '@sandglass/common/deletion'
import { sensorId } from '@sandglass/common/sensor'
import cassandra from 'cassandra-driver'
import { DeletionStore } from '../src/deletion/store.js'
import { Rows } from '../src/write/rows.js'

const { TimeUuid } = cassandra.types
const DONE = JSON.stringify({ phase: 'done' })
const ASKED_MS = Date.UTC(2026, 0, 7)

/** The tables `deletion` and `deletion_open`, and how many rows were read. */
class Tables {
  rowsRead = 0
  /** @type {Map<string, any>} */
  deletions = new Map()
  /** Timestamps of what is listed and was taken off, by key. @type {Map<string, any>} */
  listed = new Map()
  /** @type {Map<string, number>} */
  #closed = new Map()

  /** @param {string} query  @param {any[]} [params]  @returns {Promise<any[]>} */
  async read(query, params = []) {
    const table = / k\.(\w+)/.exec(query)?.[1]
    const isSelect = query.startsWith('SELECT')
    if (!isSelect && table === 'deletion_open') this.#list(query, params)
    if (!isSelect) return []
    const rows = [...(table === 'deletion' ? this.deletions : this.listed).values()].filter(
      (row) =>
        params.length === 0 || (`${row.sensor_id}` === params[0] && `${row.id}` === params[1]),
    )
    this.rowsRead += rows.length
    return rows
  }

  /** @param {string} query  @param {any[]} [params] */
  async *pages(query, params) {
    yield* await this.read(query, params)
  }

  /** @param {string} query  @param {any[]} params */
  #list(query, params) {
    if (query.startsWith('DELETE')) {
      const [stamp, ...key] = params
      this.#closed.set(`${key}`, Number(stamp))
    } else {
      const [sensor_id, id, stamp] = params
      this.listed.set(`${[sensor_id, id]}`, { sensor_id, id, stamp: Number(stamp) })
    }
    for (const [key, { stamp }] of this.listed) {
      if (stamp <= (this.#closed.get(key) ?? 0)) this.listed.delete(key)
    }
  }

  /** @param {number} n  @param {string | null} state */
  add(n, state) {
    const id = TimeUuid.fromDate(new Date(ASKED_MS + n))
    const sensor_id = sensorId(`s${n}`)
    this.deletions.set(`${[sensor_id, id]}`, { sensor_id, id, state, whole: false })
    return { sensorId: sensor_id, id: `${id}`, askedMs: ASKED_MS + n }
  }

  /** As the api does. @param {number} n */
  async ask(n) {
    const job = this.add(n, null)
    await this.read('INSERT INTO k.deletion_open', [job.sensorId, job.id, openStampUs(job)])
    return job
  }

  /** @param {{ sensorId: string, id: string }} job */
  finish({ sensorId: sensor, id }) {
    this.deletions.get(`${[sensor, id]}`).state = DONE
  }

  /** As a process that begins. */
  store() {
    const storage = { read: this.read.bind(this), pages: this.pages.bind(this) }
    const newest = async () => []
    return new DeletionStore({
      storage: { ...storage, newest },
      keyspace: 'k',
      rows: new Rows('k'),
    })
  }
}

test('an idle look reads nothing, whatever is in the history', async () => {
  const tables = new Tables()
  for (let n = 0; n < 1_000; n++) tables.add(n, DONE)
  const store = tables.store()
  expect(await store.jobs()).toEqual([])
  tables.rowsRead = 0
  expect(await store.jobs()).toEqual([])
  expect(tables.rowsRead).toBe(0)
})

test('a deletion is found until it is over, also after a restart, and costs nothing then', async () => {
  const tables = new Tables()
  const store = tables.store()
  await store.jobs()
  const job = await tables.ask(1)
  for (const one of [store, tables.store()]) {
    expect((await one.jobs()).map(({ id }) => id)).toEqual([job.id])
  }
  tables.finish(job)
  // As after a crash between the end and the list: the next look takes it off.
  expect(await store.jobs()).toEqual([])
  expect(tables.listed.size).toBe(0)
  tables.rowsRead = 0
  expect(await store.jobs()).toEqual([])
  expect(tables.rowsRead).toBe(0)
})

test('one that an earlier version, which had no list, left open is found at the start', async () => {
  const tables = new Tables()
  tables.add(1, DONE)
  const begun = tables.add(2, JSON.stringify({ phase: 'settle' }))
  const asked = tables.add(3, null)
  const store = tables.store()
  for (let look = 0; look < 2; look++) {
    expect((await store.jobs()).map(({ id }) => id)).toEqual([begun.id, asked.id])
  }
  tables.finish(begun)
  tables.finish(asked)
  expect(await store.jobs()).toEqual([])
  expect(tables.listed.size).toBe(0)
})

test('one that is listed before its row is there stays listed', async () => {
  const tables = new Tables()
  const store = tables.store()
  await store.jobs()
  const job = await tables.ask(1)
  const key = `${[job.sensorId, job.id]}`
  const row = tables.deletions.get(key)
  tables.deletions.delete(key)
  expect(await store.jobs()).toEqual([])
  tables.deletions.set(key, row)
  expect(await store.jobs()).toHaveLength(1)
})

test('what is over is listed no more, whatever the clocks of api and ingest say', () => {
  expect(openStampUs({ askedMs: 5 })).toBeLessThan(deletionStampUs({ askedMs: 5 }))
})
