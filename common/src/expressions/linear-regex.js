/**
 * Regular expressions of expressions, matched in time that grows with the text alone: a pattern
 * such as `(a+)+$` takes those of JavaScript years. Look-around and back references, which cannot
 * be matched so, are refused. In the shape that JSONata asks of an engine.
 */

import { RE2JS } from 're2js'

/** Of patterns, by the literals of an expression. @type {WeakMap<RegExp, RE2JS>} */
const compiled = new WeakMap()

/**
 * @param {RegExp} pattern  As JSONata read it; it is never matched.
 * @returns {RE2JS}
 * @throws {Error}  It cannot be matched in such time.
 */
export function compileRegex(pattern) {
  const known = compiled.get(pattern)
  if (known) return known
  let flags = 0
  if (pattern.ignoreCase) flags |= RE2JS.CASE_INSENSITIVE
  if (pattern.multiline) flags |= RE2JS.MULTILINE
  const made = RE2JS.compile(pattern.source, flags)
  compiled.set(pattern, made)
  return made
}

export class LinearRegex {
  /** Where the next match is looked for. */
  lastIndex = 0
  #regex

  /** @param {RegExp} pattern */
  constructor(pattern) {
    this.#regex = compileRegex(pattern)
  }

  /**
   * @param {string} text
   * @returns {(string | undefined)[] & { index: number } | null}
   */
  exec(text) {
    const matcher = this.#regex.matcher(text)
    if (this.lastIndex > text.length || !matcher.find(this.lastIndex)) {
      this.lastIndex = 0
      return null
    }
    this.lastIndex = matcher.end()
    const groups = Array.from(
      { length: matcher.groupCount() + 1 },
      (_, at) => matcher.group(at) ?? undefined,
    )
    return Object.assign(groups, { index: matcher.start() })
  }
}
