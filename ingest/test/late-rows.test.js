// Rows that are late for their rollup: durable late, or of a day whose hours are gone.
import { DAY_MS, HOUR_MS, startOf } from '@sandglass/common/rollup'
import { sensorId } from '@sandglass/common/sensor'
import { Message } from '../src/message/message.js'
import { alone, settle, store, tick } from './support/rollup-model.js'

const T = Date.UTC(2026, 0, 10, 12)

test('rows of a message that is refused in part are summed up, however late they are', async () => {
  const { model, process } = await alone(T)
  const hourMs = T - 5 * DAY_MS
  model.storage.refuses = ({ params }) => params.includes('refused')
  const message = new Message({
    origin: { settled() {} },
    clientId: 'c',
    topic: 'sensors/s',
    payload: Buffer.from(JSON.stringify({ t: hourMs, m: 1, text: 'refused' })),
    receivedMs: model.wallMs,
    arrivedMs: 0,
  })
  process.ingest.pipeline.accept(message)
  while (process.requests === 0) await tick()
  // The slot of its mark is worked off before the mark, and its rows, are durable.
  await settle(model, process)
  while (!message.isSettled) {
    process.land()
    await tick()
  }
  expect(message.refusal?.kind).toBe('database')
  await settle(model, process)
  expect(model.rollup('s', '1h', hourMs)?.n).toBe(1)
})

test.each([
  ['in an hour of its own', 5 * HOUR_MS, 1],
  ['in hours that count more than those that are gone', 5 * HOUR_MS, 7],
  ['in an hour that is gone', 1_000, 1],
])('a day that outlives its hours has what comes late, %s', async (_, lateMs, count) => {
  const { model, process } = await alone(T, 'keep')
  const dayMs = startOf(T - 1_200 * DAY_MS, DAY_MS)
  for (const v of [1, 2, 3]) await store(process, 's', dayMs + v * HOUR_MS, v)
  await store(process, 's', dayMs, 4)
  await settle(model, process)
  // As if they had been written three years ago.
  model.rollups.rollupsOf('1h', { sensorId: sensorId('s'), metric: 'm' }).clear()
  for (let at = 0; at < count; at++) await store(process, 's', dayMs + lateMs + at, 10)
  await settle(model, process)
  expect(model.rollup('s', '1d', dayMs)).toMatchObject({ n: 4 + count, sum: 10 + 10 * count })
})
