/** Saves a chart to a dashboard, an old one or a new one. */

import { element, part, setText } from './dom.js'
import { attempt } from './repeat.js'
import { routeHash } from './route.js'

/** The choice that makes a new dashboard. */
const NEW = ''

/**
 * @typedef {object} Chart
 * @property {string} [title]
 * @property {{ sensor: string, metric: string }[]} series
 *
 * @typedef {object} Dashboard
 * @property {string} id
 * @property {string} name
 * @property {string} [range]
 * @property {Chart[]} charts
 * @property {number} changed
 */

/**
 * The same dashboard with other charts or another name, for its replacement: refused if somebody
 * was faster.
 *
 * @param {Dashboard} before
 * @param {Partial<Dashboard>} change
 */
export function changedDashboard({ id: _, ...before }, change) {
  return { ...before, ...change }
}

/** The address of a dashboard's replacement. @param {string} id */
export function dashboardPath(id) {
  return `v1/dashboards/${encodeURIComponent(id)}`
}

export class ChartSave {
  #context
  #root
  #dialog
  #form
  #chart
  #range

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root
   * @param {() => Chart} chart  What is saved.
   * @param {() => string | undefined} range  With which a new dashboard opens.
   */
  constructor(context, root, chart, range) {
    this.#context = context
    this.#root = root
    this.#chart = chart
    this.#range = range
    this.#dialog = /** @type {HTMLDialogElement} */ (part(root, 'save-dialog'))
    this.#form = /** @type {HTMLFormElement} */ (part(root, 'save-form'))
    part(root, 'save').addEventListener('click', () => this.#try(() => this.#open()))
    part(root, 'save-cancel').addEventListener('click', () => this.#dialog.close())
    this.#field('dashboard').addEventListener('change', () => this.#showName())
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      this.#try(() => this.#save())
    })
  }

  /** @param {string} name  @returns {HTMLInputElement} */
  #field(name) {
    return /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name))
  }

  /** @param {() => Promise<void>} action */
  #try(action) {
    const error = part(this.#root, 'save-error')
    setText(error, '')
    void attempt(action, this.#context.signal, ({ message }) => setText(error, message))
  }

  /** Lists all there are. */
  async list() {
    const { rest, signal } = this.#context
    const { items } = await rest.get('v1/dashboards', signal)
    const list = part(this.#root, 'dashboards')
    list.replaceChildren(
      ...items.map((/** @type {{ id: string, name: string }} */ { id, name }) =>
        element('li', {}, element('a', { href: routeHash('dashboards', {}, id) }, name)),
      ),
    )
    const none = 'There are none yet. Make a chart, and save it to a new one.'
    setText(part(this.#root, 'dashboards-note'), items.length === 0 ? none : '')
    return items
  }

  async #open() {
    const items = await this.list()
    this.#field('dashboard').replaceChildren(
      ...items.map((/** @type {{ id: string, name: string }} */ { id, name }) =>
        element('option', { value: id }, name),
      ),
      element('option', { value: NEW }, 'a new dashboard'),
    )
    this.#showName()
    this.#dialog.showModal()
  }

  #showName() {
    const isNew = this.#field('dashboard').value === NEW
    part(this.#root, 'new-name').hidden = !isNew
    this.#field('name').required = isNew
  }

  async #save() {
    const { rest, signal } = this.#context
    const title = this.#field('title').value.trim()
    const chart = { ...this.#chart(), ...(title && { title }) }
    let id = this.#field('dashboard').value
    if (id === NEW) {
      const name = this.#field('name').value.trim()
      const range = this.#range()
      const made = { name, ...(range && { range }), charts: [chart] }
      id = (await rest.send('POST', 'v1/dashboards', made, signal)).id
    } else {
      const before = await rest.get(dashboardPath(id), signal)
      const body = changedDashboard(before, { charts: [...before.charts, chart] })
      await rest.send('PUT', dashboardPath(id), body, signal)
    }
    this.#dialog.close()
    location.hash = routeHash('dashboards', {}, id)
  }
}
