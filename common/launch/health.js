/** Whether a part of ours answers. */

import { get as getHttp } from 'node:http'
import { get as getHttps } from 'node:https'

/**
 * @param {string} url  On this machine: its certificate is made out to another name.
 * @param {number} msMax
 * @returns {Promise<boolean>}  Whether it says that all is well.
 */
export function isWell(url, msMax) {
  return new Promise((resolve) => {
    const options = { timeout: msMax, rejectUnauthorized: false }
    const get = url.startsWith('https:') ? getHttps : getHttp
    const request = get(url, options, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    request.on('timeout', () => request.destroy())
    request.on('error', () => resolve(false))
  })
}
