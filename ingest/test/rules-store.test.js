// What alert rules ask of the database, where its answer depends on timestamps.
import { expect, test } from '@jest/globals'
import { RuleStore } from '../src/rules/store.js'

/** A table of one partition in which the later timestamp wins, as in Cassandra. */
class Table {
  /** @type {Map<string, { row: any, us: number }>} */
  #rows = new Map()

  /** @param {string} query  @param {any[]} params */
  async read(query, params) {
    if (query.startsWith('INSERT')) {
      const [, id, created, receiver_id, alert_id, change, body, us] = params
      const row = { id, created: new Date(created), receiver_id, alert_id, change, body }
      this.#write(id, row, us)
      return []
    }
    if (query.startsWith('DELETE')) {
      const [us, , id] = params
      this.#write(id, undefined, us)
      return []
    }
    const found = this.#rows.get(params[1])
    return found?.row ? [{ ...found.row, written: found.us }] : []
  }

  /** @param {string} id  @param {any} row  @param {any} us */
  #write(id, row, us) {
    const before = this.#rows.get(id)
    if (!before || Number(us) > before.us || (Number(us) === before.us && !row)) {
      this.#rows.set(id, { row, us: Number(us) })
    }
  }
}

test.each([
  ['of now', 0],
  // As of a rule that was made by an api whose clock is ahead.
  ['of a moment that is to come', 30_000],
])('a notification %s is gone once it was taken, however often it is found', async (_, aheadMs) => {
  const table = new Table()
  const store = new RuleStore(/** @type {any} */ (table), 'k')
  const nowMs = 1_767_225_600_000
  const what = { id: 'n', createdMs: nowMs, receiverId: 'duty', alertId: 'a', change: 'fired' }
  const found = store.notificationRow(0, { ...what, body: '{}' }, nowMs + aheadMs)
  await table.read(found.query, found.params)
  const stored = await store.notification(0, 'n')
  expect(stored).toMatchObject(what)
  await store.forget(0, 'n', nowMs + 1, stored?.writtenUs ?? 0)
  expect(await store.notification(0, 'n')).toBeUndefined()
  await table.read(found.query, found.params)
  expect(await store.notification(0, 'n')).toBeUndefined()
})
