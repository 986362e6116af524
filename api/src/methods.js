/** Which methods a path has: HTTP wants 405 and `Allow` for another one, and 404 for no path. */

import { Problem } from '@sandglass/common/problem'

/** What stands for a parameter in the path of a route. */
const PARAMETER = /:\w+/g

export class Methods {
  /** By path as routes have it: what it matches, and its methods. */
  #paths = /** @type {Map<string, { pattern: RegExp, methods: Set<string> }>} */ (new Map())

  /** @param {import('fastify').FastifyInstance} app  Before it has routes. */
  constructor(app) {
    app.addHook('onRoute', ({ url, method }) => {
      // A wildcard is the page, of whose files there are those that there are.
      if (!url.includes('*')) for (const one of [method].flat()) this.#add(url, one)
    })
  }

  /** @param {string} url  @param {string} method */
  #add(url, method) {
    const known = this.#paths.get(url)
    if (known) {
      known.methods.add(method)
      return
    }
    const parts = url.split(PARAMETER).map((part) => part.replaceAll('.', '\\.'))
    const pattern = new RegExp(`^${parts.join('[^/]+')}$`)
    this.#paths.set(url, { pattern, methods: new Set([method]) })
  }

  /**
   * Why no route serves a request.
   *
   * @param {Pick<import('fastify').FastifyRequest, 'method' | 'url'>} request
   * @param {import('fastify').FastifyReply} reply  Is told what would be allowed.
   */
  explain({ method, url }, reply) {
    const [path] = url.split('?')
    const fitting = [...this.#paths.values()].filter(({ pattern }) => pattern.test(path))
    const allowed = [...new Set(fitting.flatMap(({ methods }) => [...methods]))].sort().join(', ')
    if (allowed === '') {
      return new Problem('unknown-path', `nothing answers ${method} ${path}: see /docs`)
    }
    reply.header('allow', allowed)
    return new Problem('wrong-method', `${path} takes ${allowed}: see /docs`)
  }
}
