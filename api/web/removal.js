/** A button that does what cannot be undone only when it is pressed twice. */

import { element } from './dom.js'

/**
 * @param {object} words
 * @param {string} words.text  Such as `Delete`.
 * @param {string} words.really  Such as `Really delete?`.
 * @param {string} words.label  For a screen reader: what it is about, too.
 * @param {() => void} onSure
 */
export function sureButton({ text, really, label }, onSure) {
  const button = element('button', { type: 'button', 'aria-label': label }, text)
  let isAsked = false
  button.addEventListener('click', () => {
    if (isAsked) {
      onSure()
      return
    }
    isAsked = true
    button.textContent = really
    button.removeAttribute('aria-label')
  })
  button.addEventListener('blur', () => {
    isAsked = false
    button.textContent = text
    button.setAttribute('aria-label', label)
  })
  return button
}
