/** The dialog in which type, unit, tags and retention of a sensor are changed. */

import { part } from './dom.js'
import { RestError, sensorPath } from './rest.js'
import { parseTags, printTags, TagError } from './tags.js'

/** @typedef {{ name: string, type: string | null, unit: string | null,
 *   tags: Record<string, string>, retention: string,
 *   layouts: { from: number, retention: string }[],
 *   rewrite: import('./retention.js').Rewrite | null }} About */

export class SensorEdit {
  #context
  #dialog
  #form
  #error
  #sensor = ''
  #retention = ''
  #onSaved

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root
   * @param {(about: About) => void} onSaved
   */
  constructor(context, root, onSaved) {
    this.#context = context
    this.#onSaved = onSaved
    this.#dialog = /** @type {HTMLDialogElement} */ (part(root, 'edit-dialog'))
    this.#form = /** @type {HTMLFormElement} */ (part(root, 'edit-form'))
    this.#error = part(root, 'edit-error')
    part(root, 'edit-cancel').addEventListener('click', () => this.#dialog.close())
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      void this.#save()
    })
  }

  /** @param {About} about  What is known now. */
  open({ name, type, unit, tags, layouts }) {
    this.#sensor = name
    this.#error.textContent = ''
    this.#set('type', type ?? '')
    this.#set('unit', unit ?? '')
    this.#set('tags', printTags(tags))
    this.#retention = layouts.at(-1)?.retention ?? ''
    this.#set('retention', this.#retention)
    const all = /** @type {HTMLInputElement} */ (this.#form.elements.namedItem('rewrite'))
    all.checked = false
    this.#dialog.showModal()
  }

  /** @param {string} name  @param {string} value */
  #set(name, value) {
    const field = /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name))
    field.value = value
  }

  /** Of retention, only what is new. @param {string} retention  @param {boolean} all */
  #kept(retention, all) {
    const isNew = retention !== '' && retention !== this.#retention
    return { ...(isNew && { retention }), ...(all && { rewrite: true }) }
  }

  async #save() {
    const data = new FormData(this.#form)
    const word = (/** @type {string} */ name) => String(data.get(name)).trim() || null
    try {
      const body = {
        type: word('type'),
        unit: word('unit'),
        tags: parseTags(String(data.get('tags'))),
        ...this.#kept(String(data.get('retention')), data.has('rewrite')),
      }
      const { rest, signal } = this.#context
      this.#onSaved(await rest.send('PATCH', sensorPath(this.#sensor), body, signal))
      this.#dialog.close()
    } catch (error) {
      if (!(error instanceof RestError || error instanceof TagError)) throw error
      this.#error.textContent = error.message
    }
  }
}
