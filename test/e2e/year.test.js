// A real year: published by a real MQTT client, read back over REST, before and after the database
// is killed.
import mqtt from 'mqtt'
import { readYear, YEAR_METRICS } from '../support/fixture.js'
import { startStack } from '../support/stack.js'
import { readMeasurements } from '../support/stored.js'

/** Messages in flight: below the thousand that ingest holds of one client. */
const IN_FLIGHT_MAX = 500
const SENSOR = 'seattle'

describe('a year of hourly readings', () => {
  const year = readYear()
  /** @type {import('../support/stack.js').Stack} */
  let stack

  beforeAll(async () => {
    stack = await startStack()
  })
  afterAll(() => stack?.end())

  test('is acknowledged, every message', async () => {
    const client = await mqtt.connectAsync(stack.mqttUrl, { clientId: SENSOR, reconnectPeriod: 0 })
    const rest = year.values()
    let acknowledged = 0
    await Promise.all(
      Array.from({ length: IN_FLIGHT_MAX }, async () => {
        for (const { timeMs, ...values } of rest) {
          const payload = JSON.stringify({ t: timeMs, ...values })
          await client.publishAsync(`sensors/${SENSOR}`, payload, { qos: 1 })
          acknowledged++
        }
      }),
    )
    await client.endAsync()
    await stack.emptied()
    expect(acknowledged).toBe(8759)
  })

  test.each(YEAR_METRICS)(
    'reads back the same: every %s, page by page',
    async (metric) => {
      await expectYear(metric)
    },
    120_000,
  )

  test('reads back the same, oldest first and all metrics in one', async () => {
    const limit = 777
    const { items, pages } = await readMeasurements(stack.apiUrl, SENSOR, { order: 'asc', limit })
    expect(pages).toBe(Math.ceil((3 * 8759) / limit))
    expect(items.map(({ timeMs, metric, value }) => [timeMs, metric, value])).toEqual(
      year.flatMap((reading) =>
        YEAR_METRICS.map((metric) => [reading.timeMs, metric, reading[metric]]),
      ),
    )
  })

  test('reads back the same after the database was killed and started again', async () => {
    await stack.databaseAway()
    await stack.databaseBack()
    await stack.readable()
    for (const metric of YEAR_METRICS) await expectYear(metric)
  }, 240_000)

  /** @param {typeof YEAR_METRICS[number]} metric */
  async function expectYear(metric) {
    const { items, pages } = await readMeasurements(stack.apiUrl, SENSOR, { metric, limit: 1000 })
    expect(pages).toBe(9)
    const expected = year.map((reading) => [reading.timeMs, reading[metric]]).reverse()
    expect(items.map(({ timeMs, value }) => [timeMs, value])).toEqual(expected)
  }
})
