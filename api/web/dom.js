/** Making and finding elements. Text is always set as text, never as HTML. */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean | undefined>} [attributes]  true is an empty
 *   one; false and undefined are none.
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? '' : String(value))
    }
  }
  made.append(...children)
  return made
}

/**
 * The same of a drawing.
 *
 * @param {string} tag
 * @param {Record<string, string | number | undefined>} [attributes]
 * @param {...(Node | string)} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(name, String(value))
  }
  made.append(...children)
  return made
}

/**
 * The element of a view that has this `data-part`.
 *
 * @template {HTMLElement} [Kind=HTMLElement]
 * @param {ParentNode} root
 * @param {string} name
 * @returns {Kind}
 */
export function part(root, name) {
  const found = root.querySelector(`[data-part="${name}"]`)
  if (!found) throw new Error(`the page has no part ${name}`)
  return /** @type {Kind} */ (found)
}

/** What a template of `index.html` holds, once more. @param {string} id */
export function fromTemplate(id) {
  const template = /** @type {HTMLTemplateElement} */ (document.getElementById(id))
  return /** @type {HTMLElement} */ (template.content.firstElementChild?.cloneNode(true))
}

/**
 * Sets a text only if it is another one: what is announced is announced once.
 *
 * @param {HTMLElement} target
 * @param {string} text
 */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text
}

/**
 * @param {HTMLElement} anchor
 * @param {string | null | undefined} hash  Where it goes; it is hidden where that is nowhere.
 */
export function link(anchor, hash) {
  anchor.hidden = !hash
  if (hash) anchor.setAttribute('href', hash)
}

/**
 * Says again what the parts of a table are: a narrow window shows its rows as blocks, and a block
 * is no row to a screen reader unless it is called one.
 *
 * @param {Element} table  Or a part of one.
 */
export function keepRoles(table) {
  for (const [selector, role] of Object.entries(TABLE_ROLES)) {
    for (const one of table.querySelectorAll(selector)) one.setAttribute('role', role)
  }
}

const TABLE_ROLES = {
  table: 'table',
  'thead, tbody': 'rowgroup',
  tr: 'row',
  td: 'cell',
  'th[scope="col"]': 'columnheader',
  'th[scope="row"]': 'rowheader',
}
