/** Times as people give them on a command line, and as they are shown to people, in UTC. */

import { SettingError } from '@sandglass/common/options'
import { parseTime } from '@sandglass/common/time'
import moment from 'moment'

const AGO = /^(\d+(?:\.\d+)?)(s|m|h|d|w)$/

/**
 * Understands a time, or how long ago it is, e.g. `36h` or `7d`.
 *
 * @param {string} text
 * @returns {number}  Milliseconds since the Unix epoch.
 * @throws {SettingError}
 */
export function parseMoment(text) {
  const ago = AGO.exec(text)
  if (ago) {
    const unit = /** @type {moment.unitOfTime.Base} */ (ago[2])
    return Math.round(moment().valueOf() - moment.duration(Number(ago[1]), unit).asMilliseconds())
  }
  const timeMs = parseTime(text)
  if (timeMs === undefined) {
    throw new SettingError(
      'Give a time, e.g. 2026-01-31T12:00, or how long ago: 90s, 30m, 36h, 7d or 4w.',
    )
  }
  return timeMs
}

/**
 * Understands a span of time, e.g. `36h` or `7d`; `0` is none.
 *
 * @param {string} text
 * @returns {number}  Milliseconds.
 * @throws {SettingError}
 */
export function parseSpan(text) {
  if (text === '0') return 0
  const [, count, unit] = AGO.exec(text) ?? []
  if (unit === undefined) {
    throw new SettingError('Give a span of time: 90s, 30m, 36h, 7d or 4w; or 0.')
  }
  const of = /** @type {moment.unitOfTime.Base} */ (unit)
  return moment.duration(Number(count), of).asMilliseconds()
}

/** @param {number} timeMs  Milliseconds since the Unix epoch. */
export function formatMoment(timeMs) {
  return moment.utc(timeMs).format('YYYY-MM-DD HH:mm:ss')
}
