/** Pages of keys and of claim keys: what of them is found, and which are shown, in the address. */

import { link, part, setText } from './dom.js'
import { printMany } from './format.js'
import { routeHash } from './route.js'

/** @typedef {{ items: { name: string, sensor: string | null }[], next: string | null,
 *   total: number }} Page */

/**
 * What is asked for a page of a list.
 *
 * @param {URLSearchParams} query  Of the address.
 * @param {'keys' | 'claims'} list
 */
export function pageQuery(query, list) {
  const [q, cursor] = [query.get('q'), query.get(list)]
  return new URLSearchParams({ ...(q && { q }), ...(cursor && { cursor }) })
}

/**
 * Says how many there are and which are shown, and leads to the others.
 *
 * @param {HTMLElement} root
 * @param {object} shown
 * @param {'keys' | 'claims'} shown.list
 * @param {URLSearchParams} shown.query  Of the address.
 * @param {Page} shown.page
 * @param {string[]} shown.names  Of those that are shown.
 * @param {[one: string, several: string]} shown.words
 * @param {string} shown.none  What is said if there are none at all.
 */
export function showPages(root, { list, query, page, names, words, none }) {
  const { [list]: cursor, ...others } = Object.fromEntries(query)
  const { next, total } = page
  const count = printMany(total, ...words)
  const all = others.q ? `${count} found` : count
  const span = `${all}; these are ${names[0]} to ${names.at(-1)}`
  const isOne = !cursor && !next
  const empty = others.q ? all : none
  const some = isOne ? (others.q ? all : '') : span
  setText(part(root, `${list}-note`), names.length === 0 ? empty : some)
  part(root, `${list}-table`).hidden = names.length === 0
  link(part(root, `first-${list}`), cursor && routeHash('keys', others))
  link(part(root, `next-${list}`), next && routeHash('keys', { ...others, [list]: next }))
}
