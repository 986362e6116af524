/** All rows of an answer, in as many pages as the database makes of them. */

/** Rows of a page; the database may make it shorter. */
const PAGE_ROWS = 5_000

/**
 * @param {{ client: { execute: Function }, keyspace: string }} database
 * @param {string} query  `$` is the keyspace.
 * @param {unknown[]} params
 * @param {object} [more]  Options of the driver.
 * @returns {Promise<any[]>}
 */
export async function allRows({ client, keyspace }, query, params, more = {}) {
  const options = { prepare: true, isIdempotent: true, fetchSize: PAGE_ROWS, ...more }
  const rows = []
  /** @type {string | undefined} */
  let pageState
  do {
    const page = { ...options, ...(pageState && { pageState }) }
    const result = await client.execute(query.replace('$', keyspace), params, page)
    for (const row of result.rows ?? []) rows.push(row)
    pageState = result.pageState
  } while (pageState)
  return rows
}
