/** Tags as they are typed: `key:value`, one a line. Pure. */

/** A line that is no tag. */
export class TagError extends Error {}

/**
 * @param {string} text  One `key:value` a line; what follows the first colon is the value.
 * @returns {Record<string, string>}
 * @throws {TagError}  Names the line.
 */
export function parseTags(text) {
  /** @type {[string, string][]} */
  const pairs = []
  for (const line of text.split('\n').map((one) => one.trim())) {
    if (line === '') continue
    const at = line.indexOf(':')
    if (at < 1) throw new TagError(`“${line}” is not a tag: write it as key:value.`)
    pairs.push([line.slice(0, at).trim(), line.slice(at + 1).trim()])
  }
  return Object.fromEntries(pairs)
}

/** @param {Record<string, string>} tags */
export function printTags(tags) {
  return Object.entries(tags)
    .map(([key, value]) => `${key}:${value}`)
    .join('\n')
}
