// What VictoriaMetrics is asked, and what it answers.

/** The name of the series that Telegraf makes of `v` in our messages. */
const SERIES = 'm_v'

/**
 * How many samples are stored.
 *
 * @param {string} url  Where it listens.
 */
export async function storedSamples(url) {
  // What was taken a moment ago is not searched before it is put into a part.
  await ask(`${url}/internal/force_flush`)
  const query = encodeURIComponent(`sum(count_over_time(${SERIES}[1d]))`)
  return samplesOf(await ask(`${url}/api/v1/query?nocache=1&query=${query}`))
}

/** @param {string} url */
async function ask(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(60_000) })
  const text = await response.text()
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`)
  return text
}

/**
 * The one number of an answer to an instant query; 0 if no series was found.
 *
 * @param {string} text  JSON: `{ status, data: { resultType: 'vector', result } }`.
 */
export function samplesOf(text) {
  const { status, error, data } = JSON.parse(text)
  if (status !== 'success') throw new Error(`VictoriaMetrics does not answer: ${error ?? text}`)
  if (data.resultType !== 'vector' || data.result.length > 1) {
    throw new Error(`VictoriaMetrics was asked for one number, and answers ${text}`)
  }
  return data.result.length === 0 ? 0 : Number(data.result[0].value[1])
}
