// What a client of the api does, at little cost of its own: requests over open connections.
import { Agent, get } from 'node:http'

/** So many that no request waits for a connection: its time would count. */
const agent = new Agent({ keepAlive: true, maxSockets: 64 })

/**
 * @param {string} url
 * @returns {Promise<Buffer>}  The body; an error unless the status is 200.
 */
export function fetchBody(url) {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent, timeout: 10_000 }, (response) => {
      /** @type {Buffer[]} */
      const chunks = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('end', () => {
        const body = Buffer.concat(chunks)
        if (response.statusCode === 200) resolve(body)
        else reject(new Error(`${url}: ${response.statusCode} ${body}`))
      })
    })
    request.on('error', reject)
    request.on('timeout', () => request.destroy(new Error(`${url}: no answer in 10 s`)))
  })
}
