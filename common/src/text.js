/** Texts that stay the same when they are stored: UTF-8 has no halves of surrogate pairs. Pure. */

/**
 * The begin of a text, without half of a character at its end.
 *
 * @param {string} text
 * @param {number} lengthMax  In UTF-16 code units.
 */
export function cut(text, lengthMax) {
  return text.length > lengthMax ? text.slice(0, lengthMax).replace(/[\ud800-\udbff]$/, '') : text
}

/** The begin of a text, with an ellipsis. @param {string} text  @param {number} lengthMax */
export function shortened(text, lengthMax) {
  return text.length > lengthMax ? `${cut(text, lengthMax)}…` : text
}

/**
 * The same text, as no slice of a longer one, which would be kept with it.
 *
 * @param {string} text  Without halves of surrogate pairs.
 */
export function ownText(text) {
  return Buffer.from(text).toString()
}
