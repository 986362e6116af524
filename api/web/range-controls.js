/** What chooses the time of a chart: ranges that end now, from and to, earlier and later. */

import { element, part, setText } from './dom.js'
import { localField, moveRange, rangeQuery, SPANS } from './range.js'

/** Links that move the range: how, and by how much. */
const MOVES = [
  { text: '← Earlier', change: { by: -0.5 } },
  { text: 'Zoom in', change: { factor: 0.5 } },
  { text: 'Zoom out', change: { factor: 2 } },
  { text: 'Later →', change: { by: 0.5 } },
]

export class RangeControls {
  #root
  #hashOf

  /**
   * @param {HTMLElement} root  With the parts ranges, custom, moves and chart-note.
   * @param {(change: Record<string, string>) => string} hashOf  The address of another range.
   */
  constructor(root, hashOf) {
    this.#root = root
    this.#hashOf = hashOf
    part(root, 'custom').addEventListener('submit', (event) => {
      event.preventDefault()
      const form = new FormData(/** @type {HTMLFormElement} */ (event.target))
      const [fromMs, toMs] = ['from', 'to'].map((field) => Date.parse(String(form.get(field))))
      if (fromMs < toMs) this.goTo({ fromMs, toMs })
      else setText(part(root, 'chart-note'), 'From must be before to.')
    })
  }

  /** @param {{ fromMs: number, toMs: number }} range */
  goTo(range) {
    location.hash = this.#hashOf(rangeQuery({ span: undefined, ...range }))
  }

  /** @param {import('./range.js').Range} range */
  show(range) {
    const hash = this.#hashOf
    part(this.#root, 'ranges').replaceChildren(
      ...[...SPANS].map(([span, { text }]) => {
        const isHere = span === range.span ? 'true' : undefined
        return element('a', { href: hash({ range: span }), 'aria-current': isHere }, text)
      }),
    )
    const form = /** @type {HTMLFormElement} */ (part(this.#root, 'custom'))
    if (!form.contains(document.activeElement)) {
      for (const [name, timeMs] of Object.entries({ from: range.fromMs, to: range.toMs })) {
        const field = /** @type {HTMLInputElement} */ (form.elements.namedItem(name))
        field.value = localField(timeMs)
      }
    }
    part(this.#root, 'moves').replaceChildren(
      ...MOVES.map(({ text, change }) => {
        const href = hash(rangeQuery(moveRange(range, change)))
        return element('a', { class: 'button', href }, text)
      }),
    )
  }
}
