/** The dialog in which a sensor is registered before its device has sent anything. */

import { DialogForm, FieldError } from './dialog-form.js'
import { RestError } from './rest.js'
import { parseTags, TagError } from './tags.js'

export class SensorNew {
  #context
  #dialog
  #onMade

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root
   * @param {(sensor: { id: string, name: string }) => void} onMade
   */
  constructor(context, root, onMade) {
    this.#context = context
    this.#onMade = onMade
    this.#dialog = new DialogForm(context, root, 'sensor-new', (data) => this.#save(data))
  }

  open() {
    this.#dialog.open()
  }

  /** @param {FormData} data */
  async #save(data) {
    const word = (/** @type {string} */ name) => String(data.get(name)).trim() || null
    const body = {
      name: String(data.get('name')).trim(),
      type: word('type'),
      unit: word('unit'),
      tags: tagsOf(String(data.get('tags'))),
      retention: data.get('retention'),
    }
    const { rest, signal } = this.#context
    try {
      this.#onMade(await rest.send('POST', 'v1/sensors', body, signal))
    } catch (error) {
      if (!(error instanceof RestError) || error.code !== 'sensor-exists') throw error
      throw new FieldError('name', 'There is a sensor of this name already.')
    }
  }
}

/** @param {string} text */
function tagsOf(text) {
  try {
    return parseTags(text)
  } catch (error) {
    if (!(error instanceof TagError)) throw error
    throw new FieldError('tags', error.message)
  }
}
