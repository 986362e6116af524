/** The dialog in which a sensor is hidden, or deleted for good with all that it measured. */

import { part, setText } from './dom.js'
import { printMany } from './format.js'
import { pause } from './repeat.js'
import { RestError, sensorPath } from './rest.js'

/** How long and how often it is looked whether a sensor is gone, in milliseconds. */
const GONE_MS_MAX = 10_000
const GONE_LOOK_MS = 250

export class SensorDelete {
  #context
  #dialog
  #form
  #error
  #onDeleted
  #sensor = ''

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root
   * @param {() => void} onDeleted
   */
  constructor(context, root, onDeleted) {
    this.#context = context
    this.#onDeleted = onDeleted
    this.#dialog = /** @type {HTMLDialogElement} */ (part(root, 'delete-dialog'))
    this.#form = /** @type {HTMLFormElement} */ (part(root, 'delete-form'))
    this.#error = part(root, 'delete-error')
    part(root, 'delete-cancel').addEventListener('click', () => this.#dialog.close())
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      void this.#do(() => this.#delete())
    })
  }

  /** @param {string} sensor  Its name. */
  open(sensor) {
    this.#sensor = sensor
    this.#form.reset()
    this.#error.textContent = ''
    setText(part(this.#dialog, 'delete-name'), sensor)
    setText(part(this.#dialog, 'delete-count'), 'all that was measured')
    this.#dialog.showModal()
    void this.#do(async () => {
      const path = `${sensorPath(sensor)}?measurements=true&dry_run=true`
      const { rest, signal } = this.#context
      const answer = await rest.open(path, { method: 'DELETE', signal })
      const { rows, complete, items } = await answer.json()
      const many = `${complete ? '' : 'more than '}${printMany(rows, 'measurement')}`
      setText(part(this.#dialog, 'delete-count'), `${many} of ${printMany(items.length, 'metric')}`)
    })
  }

  async #delete() {
    const data = new FormData(this.#form)
    if (String(data.get('name')).trim() !== this.#sensor) {
      this.#error.textContent = `Type ${this.#sensor} to confirm.`
      return
    }
    const query = data.get('how') === 'all' ? '?measurements=true' : ''
    const { rest, signal } = this.#context
    await rest.remove(`${sensorPath(this.#sensor)}${query}`, signal)
    if (query !== '') await this.#gone()
    this.#dialog.close()
    this.#onDeleted()
  }

  /** One that is deleted for good is in the fleet until ingest has begun with it. */
  async #gone() {
    const { rest, signal } = this.#context
    const endMs = Date.now() + GONE_MS_MAX
    while (Date.now() < endMs && !signal.aborted) {
      try {
        await rest.get(sensorPath(this.#sensor), signal)
      } catch (error) {
        // It is gone; or nobody knows, and it is deleted all the same.
        if (error instanceof RestError) return
        throw error
      }
      await pause(GONE_LOOK_MS, signal)
    }
  }

  /** @param {() => Promise<void>} action */
  async #do(action) {
    try {
      await action()
    } catch (error) {
      if (!(error instanceof RestError)) throw error
      this.#error.textContent = error.message
    }
  }
}
