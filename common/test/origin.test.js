import { expect, test } from '@jest/globals'
import { foreignRequest, isOwnOrigin } from '@sandglass/common/origin'

const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE', 'MOVE']
const SITES = [undefined, 'none', 'same-origin', 'same-site', 'cross-site']

/** Hosts, whether they are loopback's, and the origins that are their own. */
const SERVERS = /** @type {const} */ ([
  ['localhost:8080', true, 'loopback 8080'],
  ['127.0.0.1:8080', true, 'loopback 8080'],
  ['127.9.9.9:8080', true, 'loopback 8080'],
  ['[::1]:8080', true, 'loopback 8080'],
  ['localhost', true, 'loopback'],
  ['127.0.0.1:80', true, 'loopback'],
  ['sandglass.example', false, 'sandglass'],
  ['SANDGLASS.example:80', false, 'sandglass'],
  ['sandglass.example:8443', false, 'sandglass 8443'],
  ['localhost.evil.example', false, 'rebound'],
  ['', false, 'nobody'],
  [undefined, false, 'nobody'],
])

/** Origins, and whose they are by name and port. */
const ORIGINS = /** @type {const} */ ([
  ['http://localhost:8080', 'loopback 8080'],
  ['https://127.0.0.1:8080', 'loopback 8080'],
  ['http://[::1]:8080', 'loopback 8080'],
  ['http://localhost', 'loopback'],
  ['http://127.0.0.1:3000', 'loopback 3000'],
  ['http://sandglass.example', 'sandglass'],
  ['http://sandglass.example:8443', 'sandglass 8443'],
  ['https://sandglass.example:8443', 'sandglass 8443'],
  ['http://sandglass.example:8444', 'sandglass 8444'],
  ['http://localhost.evil.example', 'rebound'],
  ['http://evil.example:8080', 'evil 8080'],
  ['http://sandglass.example@evil.example', 'evil-2'],
  ['null', 'null'],
  ['', 'empty'],
  ['sandglass.example', 'no address'],
  ['file://', 'a file'],
  ['http://localhost:8080, http://evil.example', 'two'],
])

test('a change is let in from the own host, and from programs, which name no origin', () => {
  const codes = new Set()
  for (const isLocal of [true, false]) {
    for (const [host, isLoopback, server] of SERVERS) {
      for (const [origin, page] of [...ORIGINS, /** @type {const} */ ([undefined, server])]) {
        for (const site of SITES) {
          for (const method of METHODS) {
            const isChange = !['GET', 'HEAD', 'OPTIONS'].includes(method)
            const isForeign = page !== server || site === 'cross-site'
            const expected =
              isLocal && !isLoopback
                ? 'wrong-host'
                : isChange && isForeign
                  ? 'foreign-origin'
                  : undefined
            const headers = { host, origin, 'sec-fetch-site': site }
            const code = foreignRequest({ method, headers }, isLocal)?.code
            expect({ method, ...headers, isLocal, code }).toEqual({
              method,
              ...headers,
              isLocal,
              code: expected,
            })
            codes.add(code)
          }
        }
      }
    }
  }
  expect(codes).toEqual(new Set([undefined, 'foreign-origin', 'wrong-host']))
})

test('a WebSocket is opened by a page on any port of the same host', () => {
  for (const [host, , server] of SERVERS) {
    for (const [origin, page] of ORIGINS) {
      const isSame = page.split(' ')[0] === server.split(' ')[0]
      expect([host, origin, isOwnOrigin({ host, origin }, true)]).toEqual([host, origin, isSame])
    }
    expect(isOwnOrigin({ host }, true)).toBe(true)
  }
})

test('what is refused says where it came from, and what would be let in', () => {
  const headers = { host: 'a.example', origin: 'https://b.example' }
  const problem = foreignRequest({ method: 'POST', headers }, false)
  expect(problem?.toJSON()).toMatchObject({
    status: 403,
    type: 'urn:sandglass:problem:foreign-origin',
    detail: expect.stringMatching(
      /https:\/\/b\.example .* a\.example: use .* own page, or a program/,
    ),
  })
})
