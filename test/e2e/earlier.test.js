// A keyspace that an earlier version has made, in which rows could take each other's place.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { schemaStatements } from '@sandglass/common/schema'
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

test('is not written to: ingest says why, and what is to be done', async () => {
  const part = await stack.addIngest('later', {})
  part.spawn()
  await until('it says so', () => part.logTail().includes('is of an earlier version'))
  expect(part.logTail()).toContain('--cql-keyspace')
  const health = await fetch(part.options.healthUrl)
  expect(health.status).toBe(503)
  await part.stop()
})
