/**
 * A dialog with a form. What is refused is said next to the field that it is about, which gets the
 * focus; what is about no field, at the end of the form.
 */

import { element, fromTemplate, part, setText } from './dom.js'
import { RestError } from './rest.js'

/** Something typed that cannot be sent as it is. */
export class FieldError extends Error {
  /** @param {string} field  @param {string} message */
  constructor(field, message) {
    super(message)
    this.field = field
  }
}

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field */

export class DialogForm {
  #submit
  #root
  #context
  #onSubmit

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root  Where the dialog is put.
   * @param {string} template
   * @param {(data: FormData) => Promise<(() => void) | void>} onSubmit  When it is done the dialog
   *   is closed; then what it resolves to is called.
   */
  constructor(context, root, template, onSubmit) {
    this.#context = context
    this.#onSubmit = onSubmit
    this.element = /** @type {HTMLDialogElement} */ (fromTemplate(template))
    // While it is closed it is not on the page, where its fields would be found.
    this.element.addEventListener('close', () => this.element.remove())
    this.#root = root
    this.form = /** @type {HTMLFormElement} */ (this.element.querySelector('form'))
    this.#submit = /** @type {HTMLButtonElement} */ (this.form.querySelector('[type="submit"]'))
    part(this.element, 'cancel').addEventListener('click', () => this.element.close())
    this.form.addEventListener('submit', (event) => {
      event.preventDefault()
      void this.#send()
    })
  }

  open() {
    this.form.reset()
    this.#refuse(undefined, '')
    this.#root.append(this.element)
    this.element.showModal()
  }

  /** @param {string} name  @returns {Field} */
  field(name) {
    return /** @type {Field} */ (this.form.elements.namedItem(name))
  }

  async #send() {
    this.#refuse(undefined, '')
    this.#submit.disabled = true
    try {
      const next = await this.#onSubmit(new FormData(this.form))
      this.element.close()
      next?.()
    } catch (error) {
      if (this.#context.signal.aborted) return
      if (error instanceof FieldError) this.#refuse(error.field, error.message)
      else if (error instanceof RestError) this.#refuse(error.parameter, error.message)
      else throw error
    } finally {
      this.#submit.disabled = false
    }
  }

  /** @param {string | undefined} name  Of the field at fault.  @param {string} message */
  #refuse(name, message) {
    for (const wrong of this.form.querySelectorAll('[data-refusal]')) wrong.remove()
    for (const field of this.form.querySelectorAll('[aria-invalid]')) {
      field.removeAttribute('aria-invalid')
      field.removeAttribute('aria-describedby')
    }
    const found = name === undefined ? null : this.form.elements.namedItem(name)
    const field = found instanceof HTMLElement && found.offsetParent !== null ? found : undefined
    setText(part(this.element, 'error'), field ? '' : sentence(message))
    if (!field) return
    const id = `refusal-of-${name}`
    field.setAttribute('aria-invalid', 'true')
    field.setAttribute('aria-describedby', id)
    const refusal = element('p', { id, class: 'wrong', role: 'alert', 'data-refusal': true })
    setText(refusal, sentence(message))
    field.closest('label')?.after(refusal)
    field.focus()
  }
}

/** @param {string} text */
function sentence(text) {
  return text === ''
    ? ''
    : `${text[0].toUpperCase()}${text.slice(1)}${/[.?!]$/.test(text) ? '' : '.'}`
}
