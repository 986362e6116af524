/**
 * A file that is sent while its answer, a line of JSON now and then, is read. XMLHttpRequest is
 * what a browser has that tells how much of a body is sent.
 */

import { RestError } from './rest.js'

/**
 * @param {object} request
 * @param {string} request.path
 * @param {Blob} request.file
 * @param {Record<string, string>} request.headers
 * @param {AbortSignal} request.signal  Breaks it off.
 * @param {(bytes: number) => void} request.onSent  So much of the file is sent.
 * @param {(line: any) => void} request.onLine
 * @returns {Promise<void>}  When the answer is over.
 * @throws {RestError}
 */
export function upload({ path, file, headers, signal, onSent, onLine }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    let read = 0
    const readLines = () => {
      if (request.status !== 200) return
      const end = request.responseText.lastIndexOf('\n') + 1
      const lines = request.responseText.slice(read, end).split('\n')
      read = end
      for (const line of lines) if (line !== '') onLine(JSON.parse(line))
    }
    const brokenOff = () => reject(new RestError(0, 'api-away', 'The connection broke off.'))
    request.open('POST', path)
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    request.upload.onprogress = ({ loaded }) => onSent(loaded)
    request.onprogress = readLines
    request.onload = () => {
      if (request.status !== 200) return reject(refusal(request))
      readLines()
      resolve()
    }
    request.onerror = brokenOff
    request.onabort = brokenOff
    signal.addEventListener('abort', () => request.abort(), { once: true })
    request.send(file)
  })
}

/** @param {XMLHttpRequest} request */
function refusal({ status, responseText }) {
  try {
    const { type = '', detail, parameter } = JSON.parse(responseText)
    return new RestError(status, String(type.split(':').at(-1)), detail, parameter)
  } catch {
    return new RestError(status, '', `The api answers with status ${status}.`)
  }
}
