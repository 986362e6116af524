// Keyspaces that earlier versions have made: one in which rows could take each other's place, and
// one whose tables lack columns.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { ADDED_COLUMNS, schemaStatements } from '@sandglass/common/schema'
import { sensorId } from '@sandglass/common/sensor'
import { startStack } from '../support/stack.js'
import { until } from '../support/until.js'

/** @type {import('../support/stack.js').Stack} */
let stack

beforeAll(async () => {
  stack = await startStack({ parts: ['engine'] })
  const client = await stack.client()
  const replication = { class: 'SimpleStrategy', replication_factor: 1 }
  for (const statement of schemaStatements(stack.keyspace, replication)) {
    await client.execute(statement.replace('seq bigint', 'seq smallint'))
  }
})
afterAll(() => stack?.end())

test("in which rows could take each other's place is not written to: ingest says why, and what is to be done", async () => {
  const part = await stack.addIngest('later', {})
  part.spawn()
  await until('it says so', () => part.logTail().includes('is of an earlier version'))
  expect(part.logTail()).toContain('--cql-keyspace')
  const health = await fetch(part.options.healthUrl)
  expect(health.status).toBe(503)
  await part.stop()
})

test('whose tables lack columns gets them, and dead letters are kept and replayed', async () => {
  const client = await stack.client()
  const keyspace = `${stack.keyspace}_b`
  const replication = { class: 'SimpleStrategy', replication_factor: 1 }
  for (const statement of schemaStatements(keyspace, replication)) {
    if (statement.includes('.type_metric (')) continue
    const lacking = ADDED_COLUMNS.filter(({ table }) => statement.includes(`.${table} (`))
    const without = lacking.reduce(
      (text, { column, type }) => text.replace(new RegExp(`\\s${column} ${type},`), ''),
      statement,
    )
    await client.execute(without)
  }
  await expect(client.execute(`SELECT format FROM ${keyspace}.dead_letter`)).rejects.toThrow()
  await expect(client.execute(`SELECT told_unit FROM ${keyspace}.series`)).rejects.toThrow()
  const before = `INSERT INTO ${keyspace}.series (sensor_id, metric, last_ts) VALUES (?, ?, ?)`
  await client.execute(before, [sensorId('a'), 'x', 1], { prepare: true })
  const part = await stack.addIngest('added', {
    CQL_KEYSPACE: keyspace,
    MQTT_LISTEN: '127.0.0.1:0',
  })
  await part.start()
  const url = part.options.healthUrl.replace('/health', '')
  const post = (/** @type {string} */ path, /** @type {string} */ body) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
  expect((await post('/v1/measurements', '{"sensor":"a"}')).status).toBe(400)
  const { rows } = await client.execute(`SELECT id, format, rights FROM ${keyspace}.dead_letter`)
  expect(rows).toMatchObject([{ format: 1, rights: null }])
  const answer = await post('/v1/dead-letters/replay', JSON.stringify({ ids: [rows[0].id] }))
  expect(await answer.json()).toMatchObject({
    replayed: 0,
    refused: [{ reason: 'the object holds no value' }],
  })
  const series = await client.execute(`SELECT metric, told_unit, decimals FROM ${keyspace}.series`)
  expect(series.rows).toMatchObject([{ metric: 'x', told_unit: null, decimals: null }])
  await part.stop()
})
