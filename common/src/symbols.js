/** How units are shown to people: `Cel` is °C, `m/s2` is m/s². */

/** What UCUM and SenML spell otherwise than people do. @type {ReadonlyMap<string, string>} */
const SYMBOLS = new Map([
  ['Cel', '°C'],
  ['[degF]', '°F'],
  ['Far', '°F'],
  ['deg', '°'],
  ['1', ''],
  ['/', ''],
  ['{}', ''],
  ['%RH', '% RH'],
  ['%EL', '%'],
  ['Ohm', 'Ω'],
  ['ohm', 'Ω'],
  ['[ppm]', 'ppm'],
  ['[ppb]', 'ppb'],
  ['[psi]', 'psi'],
  ['[lb_av]', 'lb'],
  ['[oz_av]', 'oz'],
  ['[in_i]', 'in'],
  ['[ft_i]', 'ft'],
  ['[mi_i]', 'mi'],
  ['[gal_us]', 'gal'],
  ['mm[Hg]', 'mmHg'],
  ["[in_i'Hg]", 'inHg'],
  ['[pH]', 'pH'],
  ['dB[SPL]', 'dB'],
  ['dBm', 'dBm'],
])

/** Names of units with a power: only their digits are exponents. */
const POWER = /(?<![a-zA-Z])([kcmdµ]?m|s)([23])(?![0-9a-zA-Z])/g
const EXPONENTS = { 2: '²', 3: '³' }

/** Micro, where it stands before a unit. */
const MICRO = /(?<![a-zA-Z])u(?=(m|g|s|S|A|V|W|L|l|mol|Sv|T|F|H)(?![a-zA-Z]))/g

/** An annotation, such as the beats of `{beats}/min`. */
const ANNOTATION = /\{([^{}]*)\}/g

/**
 * @param {string} unit
 * @returns {string}  Empty where numbers are shown alone.
 */
export function symbolOf(unit) {
  const known = SYMBOLS.get(unit)
  if (known !== undefined) return known
  return unit
    .replace(ANNOTATION, '$1')
    .replace(MICRO, 'µ')
    .replace(POWER, (_, name, power) => name + EXPONENTS[/** @type {2 | 3} */ (Number(power))])
    .replaceAll('.', '·')
}
