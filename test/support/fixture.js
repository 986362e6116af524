// The real year of readings: times in milliseconds since the Unix epoch, one value a metric.
import { readFileSync } from 'node:fs'

const FILE = new URL('../fixtures/seattle-weather-hourly-normals.csv', import.meta.url)

/** The metrics of the year, in the order of the file. */
export const YEAR_METRICS = /** @type {const} */ (['pressure', 'temperature', 'wind'])

/**
 * @typedef {{ timeMs: number, pressure: number, temperature: number, wind: number }} Reading
 *
 * @returns {Reading[]}  Oldest first.
 */
export function readYear() {
  const [header, ...lines] = readFileSync(FILE, 'utf8').trimEnd().split('\n')
  if (header !== ['date', ...YEAR_METRICS].join(',')) throw new Error(`another header: ${header}`)
  return lines.map((line) => {
    const [date, pressure, temperature, wind] = line.split(',')
    return {
      timeMs: Date.parse(`${date}Z`),
      pressure: Number(pressure),
      temperature: Number(temperature),
      wind: Number(wind),
    }
  })
}
