/**
 * Places as a way on the plane: degrees to metres about their middle, which is right to a
 * thousandth for tens of kilometres, and for a whole country still shows its shape.
 */

/** Mean radius of the earth, in metres (IUGG). */
const EARTH_M = 6_371_009

/** A shorter way is drawn as if it were so long, in metres: a receiver's noise is no way. */
const EXTENT_M_MIN = 20

/** @typedef {{ t: number, lat: number, lon: number }} Place */
/** @typedef {Place & { x: number, y: number }} Point  In pixels. */

/** @param {readonly { t: number, v: unknown }[]} rows  @returns {Place[]} */
export function placesOf(rows) {
  return rows.flatMap(({ t, v }) => {
    const isPlace = typeof v === 'object' && v !== null && 'lat' in v && 'lon' in v
    return isPlace ? [{ t, lat: Number(v.lat), lon: Number(v.lon) }] : []
  })
}

/**
 * @param {readonly Place[]} places  In the order of time.
 * @param {{ width: number, height: number, margin: number }} box  In pixels.
 * @returns {{ points: Point[], metresPerPx: number }}
 */
export function project(places, { width, height, margin }) {
  const lons = unwrap(places.map(({ lon }) => lon))
  const [south, north] = ends(places.map(({ lat }) => lat))
  const [west, east] = ends(lons)
  const [middleLat, middleLon] = [(south + north) / 2, (west + east) / 2]
  const degreeM = (EARTH_M * Math.PI) / 180
  // At a pole a degree to the east has no length.
  const eastM = degreeM * Math.max(0.01, Math.cos((middleLat * Math.PI) / 180))
  const metresPerPx = Math.max(
    Math.max(EXTENT_M_MIN, (east - west) * eastM) / (width - 2 * margin),
    Math.max(EXTENT_M_MIN, (north - south) * degreeM) / (height - 2 * margin),
  )
  const points = places.map((place, index) => ({
    ...place,
    x: width / 2 + ((lons[index] - middleLon) * eastM) / metresPerPx,
    y: height / 2 - ((place.lat - middleLat) * degreeM) / metresPerPx,
  }))
  return { points, metresPerPx }
}

/** Longitudes that do not jump where the date changes. @param {readonly number[]} lons */
function unwrap(lons) {
  let turns = 0
  return lons.map((lon, index) => {
    const step = index === 0 ? 0 : lon - lons[index - 1]
    if (step > 180) turns -= 360
    if (step < -180) turns += 360
    return lon + turns
  })
}

/** @param {readonly number[]} numbers */
function ends(numbers) {
  let [lowest, highest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const number of numbers) {
    lowest = Math.min(lowest, number)
    highest = Math.max(highest, number)
  }
  return [lowest, highest]
}

/** Along a great circle, in metres. @param {Place} from  @param {Place} to */
export function distanceM(from, to) {
  const radians = (/** @type {number} */ degrees) => (degrees * Math.PI) / 180
  const half = (/** @type {number} */ degrees) => Math.sin(radians(degrees) / 2) ** 2
  const share =
    half(to.lat - from.lat) +
    Math.cos(radians(from.lat)) * Math.cos(radians(to.lat)) * half(to.lon - from.lon)
  return 2 * EARTH_M * Math.asin(Math.min(1, Math.sqrt(share)))
}

/** How far it was from the first place to each. @param {readonly Place[]} places */
export function waysM(places) {
  let sum = 0
  return places.map((place, index) => {
    if (index > 0) sum += distanceM(places[index - 1], place)
    return sum
  })
}

/**
 * A round length of a scale, in metres.
 *
 * @param {number} metresPerPx
 * @param {number} widthPxMax
 */
export function scaleM(metresPerPx, widthPxMax) {
  const longest = metresPerPx * widthPxMax
  const power = 10 ** Math.floor(Math.log10(longest))
  return ([5, 2, 1].find((digit) => digit * power <= longest) ?? 1) * power
}

/** @param {number} metres */
export function printDistance(metres) {
  if (metres < 1_000) return `${Math.round(metres)} m`
  const km = metres / 1_000
  return `${km < 100 ? Number(km.toFixed(1)) : Math.round(km)} km`
}
