/** Which sensors are heard: found by the filter, chosen one by one. */

import { element, part, setText } from './dom.js'
import { printCount } from './format.js'

/** Sensors that are proposed at once; of more, one looks for others by name. */
const PROPOSED_MAX = 60

export class LivePicker {
  #list
  #details
  #note
  #onChoose
  #shown = ''

  /**
   * @param {HTMLElement} root
   * @param {(name: string, isChosen: boolean) => void} onChoose
   */
  constructor(root, onChoose) {
    this.#details = /** @type {HTMLDetailsElement} */ (part(root, 'picker'))
    this.#list = part(root, 'proposed')
    this.#note = part(root, 'proposed-note')
    this.#onChoose = onChoose
    this.#list.addEventListener('change', ({ target }) => {
      const box = /** @type {HTMLInputElement} */ (target)
      this.#onChoose(box.value, box.checked)
    })
  }

  get isOpen() {
    return this.#details.open
  }

  /** Nothing can be heard until somebody chooses. */
  open() {
    this.#details.open = true
  }

  /**
   * @param {readonly string[]} names  That fit the filter.
   * @param {boolean} hasMore
   * @param {ReadonlySet<string>} chosen
   */
  show(names, hasMore, chosen) {
    const some = names.slice(0, PROPOSED_MAX)
    const rest = hasMore || names.length > some.length
    setText(
      this.#note,
      names.length === 0
        ? 'No sensor is like that.'
        : rest
          ? `The first ${printCount(some.length)} by name: filter to find others.`
          : '',
    )
    // What has the focus is not made again.
    const shown = JSON.stringify(some)
    if (shown !== this.#shown) {
      this.#shown = shown
      this.#list.replaceChildren(
        ...some.map((name) =>
          element(
            'label',
            { class: 'check' },
            element('input', { type: 'checkbox', value: name }),
            element('span', {}, name),
          ),
        ),
      )
    }
    for (const box of this.#list.querySelectorAll('input')) box.checked = chosen.has(box.value)
  }
}
