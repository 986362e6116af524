/** The line that says how the platform does, from what ingest counts. */

/**
 * What ingest answers at `/stats`: numbers of messages since it started.
 *
 * @typedef {object} Stats
 * @property {number} received
 * @property {number} stored
 * @property {number} deadLettered
 * @property {number} held
 * @property {number} spooled
 * @property {number} droppedQos0
 * @property {{ p50: number | null, p99: number | null }} publishToStoredMs
 * @property {'up' | 'down'} database
 */

/** @typedef {{ stats: Stats, atMs: number }} Sample */

/** @param {number} value */
const count = (value) => Math.max(0, Math.round(value)).toLocaleString('en')

/** @param {number | null} value */
const milliseconds = (value) =>
  value === null ? '-' : `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`

/**
 * @param {Sample | undefined} before
 * @param {Sample | undefined} now  Undefined when ingest did not answer.
 */
export function statusLine(before, now) {
  if (!now) return 'ingest does not answer'
  const { stats } = now
  const seconds = before ? (now.atMs - before.atMs) / 1000 : 0
  // A count that has fallen was started anew.
  const restarted = !before || stats.received < before.stats.received
  /** @param {'received' | 'stored' | 'deadLettered'} key */
  const rate = (key) =>
    restarted || seconds === 0 ? '-' : count((stats[key] - before.stats[key]) / seconds)
  const { p50, p99 } = stats.publishToStoredMs
  return (
    `received ${rate('received')}/s · stored ${rate('stored')}/s · ` +
    `dead-lettered ${rate('deadLettered')}/s · stored after ${milliseconds(p50)} ` +
    `(p99 ${milliseconds(p99)}) · in all ${count(stats.stored)} stored, ` +
    `${count(stats.deadLettered)} dead-lettered` +
    `${stats.spooled > 0 ? `, ${count(stats.spooled)} spooled` : ''}` +
    `${stats.held > 0 ? `, ${count(stats.held)} held` : ''}` +
    `${stats.droppedQos0 > 0 ? `, ${count(stats.droppedQos0)} dropped (QoS 0)` : ''}` +
    `${stats.database === 'down' ? ' · THE DATABASE DOES NOT ANSWER' : ''}`
  )
}

/**
 * Asks ingest.
 *
 * @param {string} url  Of its HTTP server.
 * @returns {Promise<Sample | undefined>}  Undefined when it does not answer.
 */
export async function sample(url) {
  try {
    const response = await fetch(`${url}/stats`, { signal: AbortSignal.timeout(1000) })
    if (!response.ok) return undefined
    const stats = /** @type {Stats} */ (await response.json())
    return { stats, atMs: performance.now() }
  } catch {
    return undefined
  }
}
