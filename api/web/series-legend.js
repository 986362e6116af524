/** Which series a chart shows: the colour of each, and what takes it out. */

import { element } from './dom.js'
import { printMetric } from './format.js'
import { lineColor } from './plot.js'
import { routeHash } from './route.js'

/** @typedef {{ sensor: string, metric: string }} Series */

/**
 * @typedef {Series & { known: import('./format.js').Known, color: string | undefined }} Entry  Of
 *   no colour is what is not drawn as a line.
 */

/**
 * The entry of a line.
 *
 * @param {import('./lines.js').Line} line
 * @param {boolean} isRefused
 * @returns {Entry}
 */
export function lineEntry({ sensor, metric, known, index }, isRefused) {
  return { sensor, metric, known, color: isRefused ? 'var(--line)' : `var(${lineColor(index)})` }
}

export class SeriesLegend {
  #list
  #onRemove
  #shown = ''

  /** @param {HTMLElement} list  @param {(series: Series) => void} [onRemove] */
  constructor(list, onRemove) {
    this.#list = list
    this.#onRemove = onRemove
  }

  /** @param {readonly Entry[]} entries */
  show(entries) {
    const shown = JSON.stringify(entries)
    // What has the focus is not made again.
    if (this.#shown === shown) return
    this.#shown = shown
    this.#list.hidden = entries.length === 0
    this.#list.replaceChildren(...entries.map((entry) => this.#entry(entry)))
  }

  /** @param {Entry} entry */
  #entry({ sensor, metric, known, color }) {
    const href = routeHash('sensors', { metric }, sensor)
    const name = `${sensor}, ${printMetric(metric, known)}`
    const unit = known.symbol ? ` in ${known.symbol}` : ''
    const entry = element('li', {}, element('a', { href }, name), unit)
    if (color) {
      const swatch = element('span', { class: 'swatch' })
      swatch.style.background = color
      entry.prepend(swatch)
    }
    const remove = this.#onRemove
    if (remove) {
      const button = element('button', { type: 'button', class: 'quiet small' }, 'Remove')
      button.setAttribute('aria-label', `Remove ${name}`)
      button.addEventListener('click', () => remove({ sensor, metric }))
      entry.append(' ', button)
    }
    return entry
  }
}
