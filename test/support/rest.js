// What a client does over HTTP.

/** Items of one body. */
const ITEMS = 5_000

/**
 * Stores measurements over HTTP; resolves once all are durable.
 *
 * @param {string} apiUrl
 * @param {readonly Record<string, unknown>[]} items  With sensor, metric, t and v.
 */
export async function publishAll(apiUrl, items) {
  for (let at = 0; at < items.length; at += ITEMS) {
    const some = items.slice(at, at + ITEMS)
    const response = await fetch(`${apiUrl}/v1/measurements`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body: some.map((item) => JSON.stringify(item)).join('\n'),
      signal: AbortSignal.timeout(60_000),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${response.status} ${text}`)
  }
}
