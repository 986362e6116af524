/**
 * The API key, where one is needed: asked for in a dialog when an answer is 401, kept for this tab
 * until it is closed, and sent in a header alone, so that no address, history or log has it.
 */

import { part } from './dom.js'

const STORED_AS = 'sandglass-key'

export class Keyring {
  #dialog = /** @type {HTMLDialogElement} */ (document.getElementById('key-dialog'))
  #button = /** @type {HTMLButtonElement} */ (document.getElementById('key'))
  #input = /** @type {HTMLInputElement} */ (part(this.#dialog, 'key'))
  /** @type {Promise<string | undefined> | undefined} */
  #asking
  /** Nobody is asked again without wishing to be. */
  #isDeclined = false

  /** @param {() => void} onChange  There is another key, or none any more. */
  constructor(onChange) {
    this.#button.addEventListener('click', () => {
      if (this.key === undefined) {
        this.#isDeclined = false
      } else {
        sessionStorage.removeItem(STORED_AS)
      }
      this.#showButton()
      onChange()
    })
    this.#showButton()
  }

  /** @returns {string | undefined} */
  get key() {
    return sessionStorage.getItem(STORED_AS) ?? undefined
  }

  /**
   * A key other than the one that was refused; everybody who waits for one gets the same.
   *
   * @param {string | undefined} refused
   * @param {string} reason  What the api says.
   * @returns {Promise<string | undefined>}  Undefined if there is to be none.
   */
  async ask(refused, reason) {
    if (this.key !== refused) return this.key
    if (this.#isDeclined) return undefined
    this.#asking ??= this.#open(reason).finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  /** @param {string} reason  @returns {Promise<string | undefined>} */
  #open(reason) {
    part(this.#dialog, 'reason').textContent = reason
    this.#input.value = ''
    this.#dialog.returnValue = ''
    this.#dialog.showModal()
    return new Promise((resolve) => {
      this.#dialog.addEventListener(
        'close',
        () => {
          const key = this.#dialog.returnValue === 'use' ? this.#input.value.trim() : ''
          this.#input.value = ''
          if (key) sessionStorage.setItem(STORED_AS, key)
          else this.#isDeclined = true
          this.#showButton()
          resolve(key || undefined)
        },
        { once: true },
      )
    })
  }

  #showButton() {
    this.#button.hidden = this.key === undefined && !this.#isDeclined
    this.#button.textContent = this.key === undefined ? 'Enter a key' : 'Forget the key'
  }
}
