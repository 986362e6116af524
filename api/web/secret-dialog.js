/**
 * Shows a secret, once. It is in this dialog alone, and is gone when that is closed: no address, no
 * log and no storage of the browser has it.
 */

import { fromTemplate, part, setText } from './dom.js'

/** @typedef {{ title: string, secret: string, about: string }} Told */

export class SecretDialog {
  #root
  #dialog
  #field

  /** @param {HTMLElement} root  Where the dialog is put. */
  constructor(root) {
    this.#dialog = /** @type {HTMLDialogElement} */ (fromTemplate('secret'))
    this.#root = root
    this.#field = /** @type {HTMLInputElement} */ (part(this.#dialog, 'secret'))
    part(this.#dialog, 'copy').addEventListener('click', () => void this.#copy())
    part(this.#dialog, 'done').addEventListener('click', () => {
      // The event of a dialog that closes comes a moment later: the secret is gone before it.
      this.#field.value = ''
      this.#dialog.close()
    })
    this.#dialog.addEventListener('close', () => {
      this.#field.value = ''
      this.#dialog.remove()
    })
  }

  /** @param {Told} told */
  show({ title, secret, about }) {
    setText(part(this.#dialog, 'title'), title)
    setText(part(this.#dialog, 'about'), about)
    setText(part(this.#dialog, 'copied'), '')
    this.#field.value = secret
    this.#root.append(this.#dialog)
    this.#dialog.showModal()
    this.#field.select()
  }

  async #copy() {
    this.#field.select()
    const isCopied = await copied(this.#field.value)
    const failed = 'The browser does not let the page copy: the key is selected, press Ctrl+C.'
    setText(part(this.#dialog, 'copied'), isCopied ? 'Copied.' : failed)
  }
}

/** @param {string} text */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    // Without HTTPS there is no clipboard but the one of what is selected.
    return document.execCommand('copy')
  }
}
