// A receiver of webhooks that can be away, slow or unwilling, and keeps what it took.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

/** @typedef {{ id: string, type: string, data: any, arrivedMs: number }} Taken */

/** @param {{ port?: number }} [options]  Port 0: any. */
export async function startReceiver({ port = 0 } = {}) {
  /** What it took, also again. @type {Taken[]} */
  const taken = []
  /** What it was asked and did not take. */
  const refused = /** @type {string[]} */ ([])
  /** @type {{ status: number, secret: string | undefined }} */
  const answers = { status: 204, secret: undefined }
  const server = createServer((request, response) => {
    const chunks = /** @type {Buffer[]} */ ([])
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      const id = String(request.headers['webhook-id'])
      if (answers.secret && !isSigned(answers.secret, request.headers, body)) answers.status = 401
      if (answers.status >= 300) refused.push(id)
      else taken.push({ id, ...JSON.parse(body), arrivedMs: Date.now() })
      response.writeHead(answers.status).end()
    })
  })
  /** @param {number} on */
  const listen = (on) =>
    new Promise((resolve) => server.listen(on, '127.0.0.1', () => resolve(undefined)))
  await listen(port)
  const address = /** @type {import('node:net').AddressInfo} */ (server.address())
  return {
    taken,
    refused,
    answers,
    url: `http://127.0.0.1:${address.port}/hook`,
    /** Nobody listens any more. */
    async away() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
    back: () => listen(address.port),
  }
}

/**
 * As Standard Webhooks has a receiver verify it.
 *
 * @param {string} secret
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @param {string} body
 */
function isSigned(secret, headers, body) {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': text } = headers
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false
  const wanted = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest()
  const given = Buffer.from(String(text).replace(/^v1,/, ''), 'base64')
  return given.length === wanted.length && timingSafeEqual(given, wanted)
}
