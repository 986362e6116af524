/** What a file is called that is taken away: after what is in it. */

/** Characters of a name of a sensor or metric that are taken. */
const NAME_LENGTH_MAX = 60

/**
 * The header `content-disposition` of an export. Names may have characters that file systems do not
 * take, or mean something by: only letters, digits, `.`, `_` and `-` stay as they are.
 *
 * @param {object} about
 * @param {readonly string[]} about.sensors  Names; none: of many.
 * @param {readonly string[]} [about.metrics]
 * @param {number} [about.fromMs]  Milliseconds since the Unix epoch.
 * @param {number} [about.toMs]
 * @param {string} ending
 */
export function attachment({ sensors, metrics = [], fromMs, toMs }, ending) {
  const parts = [
    (sensors.length === 1 && plain(sensors[0])) || 'sandglass',
    metrics.length === 1 && plain(metrics[0]),
    fromMs !== undefined && `from-${timeIn(fromMs)}`,
    toMs !== undefined && `to-${timeIn(toMs)}`,
  ]
  const name = `${parts.filter(Boolean).join('_')}.${ending}`
  const ascii = name.replace(/[^\x20-\x7e]/g, '-')
  // What is not ASCII is told in the way of RFC 8187, which wins where it is understood.
  const other = ascii === name ? '' : `; filename*=UTF-8''${encodeURIComponent(name)}`
  return `attachment; filename="${ascii}"${other}`
}

/** @param {string} text */
function plain(text) {
  return [...text.replace(/[^\p{L}\p{N}._-]+/gu, '-')]
    .slice(0, NAME_LENGTH_MAX)
    .join('')
    .replace(/^[.-]+|[.-]+$/g, '')
}

/** A day, and the time if it is not its beginning; in UTC. @param {number} ms */
function timeIn(ms) {
  const [day, time] = new Date(ms).toISOString().split('T')
  return time === '00:00:00.000Z' ? day : `${day}T${time.slice(0, 8).replaceAll(':', '')}Z`
}
