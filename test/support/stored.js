// What is stored, read back in both ways: every row of a table over CQL, every page over REST.
import { sensorId } from '@sandglass/common/sensor'

/** Rows that the database gives at a time. */
const FETCH_ROWS = 5000
/** Pages that one reading may have; more would be a cursor that does not end. */
const PAGES_MAX = 10_000

/** @typedef {import('./ledger.js').Stored} Stored */

/**
 * Every measurement of a keyspace, by a scan of one retention class's table.
 *
 * @param {import('cassandra-driver').Client} client
 * @param {string} keyspace
 * @param {string} [className]
 * @returns {Promise<Stored[]>}
 */
export async function scanMeasurements(client, keyspace, className = '30d') {
  const query = `SELECT sensor_id, metric, ts, seq, v, i, b, s, lat, lon
    FROM ${keyspace}.measurement_${className}`
  const rows = await client.execute(query, [], { prepare: true, fetchSize: FETCH_ROWS })
  /** @type {Stored[]} */
  const found = []
  for await (const row of rows) {
    const { sensor_id, metric, ts, seq } = row
    found.push({
      sensorId: String(sensor_id),
      metric,
      timeMs: Number(ts),
      seq: Number(seq),
      value: valueIn(row),
    })
  }
  return found
}

/**
 * The one value of a row; an error if it has none or several.
 *
 * @param {Record<string, any>} row
 */
function valueIn({ v, i, b, s, lat, lon }) {
  const place = lat === null && lon === null ? null : { lat, lon }
  const values = [v, i, b, s, place].filter((value) => value !== null)
  if (values.length !== 1) throw new Error(`a row has ${values.length} values, not one`)
  return values[0]
}

/**
 * One answer of the api, which must be a success.
 *
 * @param {string} url
 * @returns {Promise<any>}
 */
export async function getJson(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(20_000) })
  const body = await response.text()
  if (!response.ok) throw new Error(`${url}: ${response.status} ${body}`)
  return JSON.parse(body)
}

/**
 * Every measurement of a sensor over REST, page by page until `next` is null.
 *
 * @param {string} apiUrl
 * @param {string} sensor  Name or id.
 * @param {Record<string, string | number>} [parameters]  Of the query.
 * @returns {Promise<{ items: Stored[], pages: number }>}
 */
export async function readMeasurements(apiUrl, sensor, parameters = {}) {
  const id = sensorId(sensor)
  /** @type {Stored[]} */
  const items = []
  /** @type {string | null} */
  let cursor = null
  for (let pages = 1; pages <= PAGES_MAX; pages++) {
    const query = new URLSearchParams(
      Object.entries(parameters).map(([name, value]) => [name, String(value)]),
    )
    if (cursor !== null) query.set('cursor', cursor)
    const page = await getJson(`${apiUrl}/v1/sensors/${id}/measurements?${query}`)
    for (const item of page.items) items.push(storedItem(id, item))
    if (page.next === null) return { items, pages }
    cursor = page.next
  }
  throw new Error(`the cursor of ${sensor} did not end in ${PAGES_MAX} pages`)
}

/**
 * @param {string} id
 * @param {any} item
 * @returns {Stored}
 */
function storedItem(id, { metric, t, seq = 0, v }) {
  return { sensorId: id, metric, timeMs: t, seq, value: v }
}

/**
 * Every dead letter over REST, newest first.
 *
 * @param {string} apiUrl
 * @returns {Promise<any[]>}
 */
export async function readDeadLetters(apiUrl) {
  const items = []
  /** @type {string | null} */
  let cursor = null
  for (let pages = 1; pages <= PAGES_MAX; pages++) {
    const query = new URLSearchParams({ limit: '1000', ...(cursor !== null && { cursor }) })
    const page = await getJson(`${apiUrl}/v1/dead-letters?${query}`)
    items.push(...page.items)
    if (page.next === null) return items
    cursor = page.next
  }
  throw new Error(`the cursor of dead letters did not end in ${PAGES_MAX} pages`)
}
