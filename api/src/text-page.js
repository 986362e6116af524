/** A page of a list that is had whole: by a text, and by id where texts are the same. */

import { broken, decodeCursor, encodeCursor, foreign } from './cursor.js'
import * as schemas from './schemas.js'

const LIMIT = 100
const LIMIT_MAX = 1_000

/** What is asked of such a list. @param {string} found  What the text is looked for in. */
export function textQuery(found) {
  return {
    type: 'object',
    properties: {
      q: { type: 'string', maxLength: 128, description: `Only those of which ${found}.` },
      limit: schemas.limit(LIMIT_MAX, LIMIT),
      cursor: schemas.cursor,
    },
    additionalProperties: false,
  }
}

/** Such a page. @param {Record<string, unknown>} item */
export function textPage(item) {
  const page = schemas.page(item)
  const total = { type: 'integer', description: 'Of all pages.' }
  return {
    ...page,
    properties: { ...page.properties, total },
    required: [...page.required, 'total'],
  }
}

/** @typedef {{ q?: string, limit: number, cursor?: string }} TextQuery */

/**
 * @template T
 * @param {readonly T[]} list  Those that fit what was asked, in order of their keys.
 * @param {TextQuery} query
 * @param {object} parts
 * @param {string} parts.kind  Of its cursors.
 * @param {(item: T) => [text: string, id: string]} parts.keyOf
 * @returns {{ items: T[], next: string | null, total: number }}
 * @throws {import('@sandglass/common/problem').Problem}  If the cursor is of another list.
 */
export function pageByText(list, { q, limit, cursor }, { kind, keyOf }) {
  const question = [q ?? null]
  const decoded = cursor === undefined ? undefined : decodeCursor(kind, cursor)
  if (decoded && decoded.question[0] !== question[0]) throw foreign('another text')
  const after = decoded && positionIn(decoded.position)
  const rest = after ? list.filter((item) => compare(keyOf(item), after) > 0) : list
  const items = rest.slice(0, limit)
  const last = items.at(-1)
  const next = rest.length > limit && last ? encodeCursor(kind, question, keyOf(last)) : null
  return { items, next, total: list.length }
}

/**
 * @param {import('./cursor.js').Fields} position
 * @returns {[string, string]}
 * @throws {import('@sandglass/common/problem').Problem}
 */
function positionIn([text, id]) {
  if (typeof text !== 'string' || typeof id !== 'string') throw broken()
  return [text, id]
}

/**
 * The order of such a list.
 *
 * @param {[string, string]} a
 * @param {[string, string]} b
 */
export function compare([text, id], [otherText, otherId]) {
  if (text !== otherText) return text < otherText ? -1 : 1
  if (id === otherId) return 0
  return id < otherId ? -1 : 1
}
