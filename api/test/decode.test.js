// Decoding much lets others have their turn, and ends when nobody waits for it.
import { expect, test } from '@jest/globals'
import { FORMAT, itemsOf, NOWHERE } from '@sandglass/common/bodies'
import { decodeAll, LISTED_MAX } from '../src/decode.js'
import { TURN_MS, Turns } from '../src/turns.js'

const ITEMS = itemsOf('ndjson', Buffer.from('{"sensor":"s","m":1}\n'.repeat(100)))

test('what is decoded at once pauses between its items', async () => {
  let nowMs = 0
  const turns = new Turns(undefined, () => (nowMs += TURN_MS / 4))
  let others = 0
  const other = () => {
    others++
    immediate = setImmediate(other)
  }
  let immediate = setImmediate(other)
  expect((await decodeAll(ITEMS, turns)).item_count).toBe(100)
  clearImmediate(immediate)
  expect(others).toBeGreaterThan(10)
})

test('it ends when its client is gone', async () => {
  let nowMs = 0
  const turns = new Turns(AbortSignal.abort(), () => (nowMs += TURN_MS))
  await expect(decodeAll(ITEMS, turns)).rejects.toThrow()
})

test('of much the first is listed, in order, and all is counted', async () => {
  const rows = Array.from({ length: 1_500 }, (_, n) => ({ sensor: 's', m: n, x: [] }))
  const bodyOf = (/** @type {unknown} */ body) => itemsOf('json', Buffer.from(JSON.stringify(body)))
  const some = await decodeAll(bodyOf(rows), new Turns())
  expect(some).toMatchObject({ item_count: 1_500, refused_count: 0, refused_field_count: 1_500 })
  expect(some.items.map(({ v }) => v)).toEqual([...Array(LISTED_MAX).keys()])
  expect(some.refused_fields.map(({ item }) => item)).toEqual([...Array(LISTED_MAX).keys()])
  const none = await decodeAll(bodyOf(rows.map(() => ({ sensor: 's', m: [] }))), new Turns())
  expect(none).toMatchObject({ items: [], item_count: 0, refused_count: 1_500 })
  expect(none.refused).toHaveLength(LISTED_MAX)
})

test('of one payload with very many values the first are listed', async () => {
  const payload = Buffer.from(JSON.stringify(Array.from({ length: 1_500 }, (_, n) => ({ v: n }))))
  const placeOf = () => ({ ...NOWHERE, sensor: 's', metric: 'm' })
  const { items, item_count: count } = await decodeAll(
    [{ format: FORMAT.topic, payload }],
    new Turns(),
    placeOf,
  )
  expect([items.length, count]).toEqual([LISTED_MAX, 1_500])
})
