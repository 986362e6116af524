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
