/**
 * Tells a receiver by HTTP, as Standard Webhooks describes it (standardwebhooks.com): a JSON body,
 * and an id, a time and an HMAC of all three in headers.
 */

import { createHmac } from 'node:crypto'
import { secretBytes } from '@sandglass/common/rules/receiver'
import { Refused } from './sender.js'

/** How long a receiver may take to answer, in milliseconds. */
const ANSWER_MS_MAX = 10_000

/**
 * The headers that prove who sent a body, when, and which one it is.
 *
 * @param {object} what
 * @param {string} what.id
 * @param {string} what.body
 * @param {string} what.secret
 * @param {number} what.nowMs
 */
function signedHeaders({ id, body, secret, nowMs }) {
  const timestamp = Math.floor(nowMs / 1000)
  const hmac = createHmac('sha256', secretBytes(secret))
  const signature = hmac.update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    'content-type': 'application/json',
    'user-agent': 'Sandglass',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${signature}`,
  }
}

/** @type {import('./sender.js').Carrier} */
export const webhook = {
  async send({ url = '', secret = '' }, { id, body }, nowMs) {
    const response = await fetch(url, {
      method: 'POST',
      body,
      headers: signedHeaders({ id, body, secret, nowMs }),
      // Another address than the operator's has no business with it.
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    }).catch((error) => {
      throw new Error(reasonOf(error))
    })
    await response.body?.cancel()
    if (response.status >= 200 && response.status < 300) return
    const reason = `it answers ${response.status}`
    throw response.status >= 500 || response.status === 429
      ? new Error(reason)
      : new Refused(reason)
  },
}

/** What fetch means by "fetch failed". @param {any} error */
function reasonOf(error) {
  if (error.name === 'TimeoutError') return `no answer within ${ANSWER_MS_MAX / 1000} seconds`
  return String(error.cause?.code ?? error.cause?.message ?? error.message)
}
