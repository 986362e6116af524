/** The raw measurements of a metric, page by page, and the links by which they are taken away. */

import { element, link, part, setText } from './dom.js'
import { DIGITS_ALL, printMoment, printValue } from './format.js'
import { attempt } from './repeat.js'
import { sensorPath } from './rest.js'

/** Measurements of a page. */
const PAGE = 50

/** The formats of exports, and how their files' names end. */
const FORMATS = [
  ['csv', 'csv'],
  ['ndjson', 'ndjson'],
  ['arrow', 'arrows'],
]

/**
 * @typedef {object} Question
 * @property {string} sensor
 * @property {import('./format.js').Known} known  Of the metric.
 * @property {string} metric
 * @property {import('./range.js').Range} range
 * @property {string | null} cursor
 */

/**
 * Shows a page of measurements.
 *
 * @param {import('./page.js').Context} context
 * @param {HTMLElement} root
 * @param {object} page
 * @param {Question} page.question
 * @param {(cursor: string | undefined) => string} page.hashOf  The address of another page.
 * @param {() => boolean} page.isWanted  Asked once the answer is there.
 */
export async function showRows({ rest, signal }, root, { question, hashOf, isWanted }) {
  const { sensor, known, metric, range, cursor } = question
  const query = new URLSearchParams({ limit: `${PAGE}` })
  if (cursor) {
    query.set('cursor', cursor)
  } else {
    query.set('metric', metric)
    query.set('from', `${range.fromMs}`)
    query.set('to', `${range.toMs}`)
  }
  const { items, next } = await rest.get(`${sensorPath(sensor)}/measurements?${query}`, signal)
  if (!isWanted()) return
  part(root, 'rows').replaceChildren(
    ...items.map((/** @type {{ t: number, v: unknown }} */ { t, v }) =>
      element(
        'tr',
        {},
        element('td', {}, element('time', { datetime: new Date(t).toISOString() }, printMoment(t))),
        element('td', {}, printValue(v, known, DIGITS_ALL)),
      ),
    ),
  )
  setText(part(root, 'rows-note'), items.length === 0 ? 'Nothing was measured in this time.' : '')
  link(part(root, 'newest'), cursor && hashOf(undefined))
  link(part(root, 'older'), next && hashOf(next))
}

/**
 * Sets the links by which a series is taken away. A link cannot carry a key: where there is one,
 * the file is fetched with it first.
 *
 * @param {HTMLElement} root
 * @param {Question} question
 */
export function showExports(root, { sensor, metric, range }) {
  for (const [format, ending] of FORMATS) {
    const query = new URLSearchParams({
      format,
      sensor,
      metric,
      from: `${range.fromMs}`,
      to: `${range.toMs}`,
    })
    const anchor = part(root, format)
    anchor.setAttribute('href', `v1/export?${query}`)
    anchor.setAttribute('download', `${sensor} ${metric}.${ending}`)
  }
}

/**
 * @param {import('./page.js').Context} context
 * @param {HTMLElement} root
 * @param {(error: import('./rest.js').RestError) => void} fail
 */
export function listenToExports({ rest, signal }, root, fail) {
  for (const [format] of FORMATS) {
    const anchor = /** @type {HTMLAnchorElement} */ (part(root, format))
    anchor.addEventListener('click', (event) => {
      if (!rest.hasKey) return
      event.preventDefault()
      const take = async () => save(await rest.file(anchor.href, signal), anchor.download)
      void attempt(take, signal, fail)
    })
  }
}

/** @param {Blob} blob  @param {string} name */
function save(blob, name) {
  const href = URL.createObjectURL(blob)
  element('a', { href, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(href), 60_000)
}
