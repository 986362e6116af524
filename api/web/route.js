/**
 * Where the page is: a view, perhaps a sensor, and what is chosen there, all in the address's hash.
 * Every state that is worth a link or a step back is in it, so both are the browser's own.
 */

export const VIEWS = /** @type {const} */ ([
  'fleet',
  'sensors',
  'live',
  'charts',
  'dashboards',
  'alerts',
  'dead-letters',
  'decoders',
  'import',
  'keys',
  'health',
])

/**
 * @typedef {object} Route
 * @property {typeof VIEWS[number]} view
 * @property {string | undefined} sensor  Name or id; of the view `sensors` alone.
 * @property {URLSearchParams} query
 */

/**
 * @param {string} hash  Such as `#/sensors/kitchen?range=1d`; what is no view is the fleet.
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path, search = ''] = split(hash.replace(/^#/, ''))
  const [, name, sensor] = /^\/([^/]+)(?:\/(.+))?$/.exec(path) ?? []
  const view = VIEWS.find((one) => one === name)
  const decoded = sensor === undefined ? undefined : decode(sensor)
  if (!view || (view === 'sensors' || view === 'dashboards') !== (decoded !== undefined)) {
    return { view: 'fleet', sensor: undefined, query: new URLSearchParams() }
  }
  return { view, sensor: decoded, query: new URLSearchParams(search) }
}

/**
 * The address of a view; what is empty in the query is left out.
 *
 * @param {typeof VIEWS[number]} view
 * @param {Record<string, string | readonly string[] | undefined>} [query]
 * @param {string} [sensor]
 */
export function routeHash(view, query = {}, sensor) {
  const search = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) =>
      [value ?? []].flat().flatMap((one) => (one === '' ? [] : [[name, one]])),
    ),
  )
  const path = sensor === undefined ? view : `${view}/${encodeURIComponent(sensor)}`
  return `#/${path}${search.size > 0 ? `?${search}` : ''}`
}

/**
 * What a link calls a sensor: its name, or its id where a browser takes the name for a step of the
 * path. Such names are refused, but were not always.
 *
 * @param {string} name
 * @param {string} id
 */
export function sensorKey(name, id) {
  return name === '.' || name === '..' ? id : name
}

/** @param {string} text  @returns {string[]}  Before and after the first `?`. */
function split(text) {
  const at = text.indexOf('?')
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
