/**
 * Dead letters: what could not be stored, and why; to be replayed once what was wrong is mended.
 *
 * The api lists them by time alone. A filter is applied here to page after page, up to a limit, and
 * the next page goes on where that one ended.
 */

import { element, fromTemplate, keepRoles, link, part, setText } from './dom.js'
import { printCount, printMoment } from './format.js'
import { attempts } from './repeat.js'
import { routeHash } from './route.js'
import { fillForm, listenToForm } from './sensor-filter.js'

/** Letters of a page; with a filter it may be one request's more. */
const PAGE = 50

/** Letters of a request, and most requests of a page: a payload may have 64 KiB. */
const REQUEST = 100
const REQUESTS_MAX = 10

/** A payload longer than this is shown as far. */
const PAYLOAD_LENGTH_MAX = 2_000

/**
 * @typedef {object} Letter
 * @property {string} id
 * @property {number} received
 * @property {string} topic
 * @property {string} client
 * @property {string} reason
 * @property {string} payload
 * @property {'utf8' | 'base64'} encoding
 * @property {number | null} replayed
 */

export class LettersView {
  element = fromTemplate('letters')
  #context
  #attempt
  #query = new URLSearchParams()
  #asked = 0
  /** @type {Map<string, LetterRow>} */
  #rows = new Map()
  #replay = part(this.element, 'replay')
  #all = /** @type {HTMLInputElement} */ (part(this.element, 'all'))

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
    this.#attempt = attempts(context, part(this.element, 'note'))
    listenToForm(
      /** @type {HTMLFormElement} */ (part(this.element, 'filters')),
      (values) => context.replace(routeHash('dead-letters', values)),
      context.signal,
    )
    this.#replay.addEventListener('click', () => {
      const chosen = this.#chosen()
      if (chosen.length > 0) this.#send(chosen)
      else setText(part(this.element, 'outcome'), 'Select those to replay first.')
    })
    this.#all.addEventListener('change', () => {
      for (const row of this.#rows.values()) row.isChosen = this.#all.checked
      this.#count()
    })
    part(this.element, 'rows').addEventListener('change', () => this.#count())
  }

  /** @param {URLSearchParams} query */
  show(query) {
    this.#query = query
    fillForm(/** @type {HTMLFormElement} */ (part(this.element, 'filters')), query)
    this.#attempt(() => this.#load())
  }

  async #load() {
    const asked = ++this.#asked
    const { rest, signal } = this.#context
    const { cursor = '', ...filter } = Object.fromEntries(this.#query)
    const fits = matcher(filter)
    const isFiltered = Boolean(filter.reason || filter.open)
    /** @type {Letter[]} */
    const letters = []
    let next = cursor
    let seen = 0
    for (let request = 0; request < REQUESTS_MAX; request += 1) {
      const limit = isFiltered ? REQUEST : PAGE
      const after = next ? `&cursor=${encodeURIComponent(next)}` : ''
      const answer = await rest.get(`v1/dead-letters?limit=${limit}${after}`, signal)
      if (asked !== this.#asked || signal.aborted) return
      letters.push(...answer.items.filter(fits))
      seen += answer.items.length
      next = answer.next ?? ''
      if (!next || letters.length >= PAGE) break
    }
    this.#render(letters)
    const of = isFiltered ? ` of ${printCount(seen)} looked at` : ''
    const more = next ? '; older ones follow' : ''
    const some = `${printCount(letters.length)} dead letter${letters.length === 1 ? '' : 's'}`
    const none = isFiltered || cursor ? `None${of}${more}.` : 'None: everything could be stored.'
    setText(part(this.element, 'note'), letters.length > 0 ? `${some}${of}${more}.` : none)
    link(part(this.element, 'first'), cursor && routeHash('dead-letters', filter))
    link(part(this.element, 'next'), next && routeHash('dead-letters', { ...filter, cursor: next }))
  }

  /** @param {Letter[]} letters */
  #render(letters) {
    this.#rows = new Map(
      letters.map((letter) => [letter.id, new LetterRow(letter, (id) => this.#send([id]))]),
    )
    part(this.element, 'rows').replaceChildren(
      ...[...this.#rows.values()].map(({ element }) => element),
    )
    part(this.element, 'table').hidden = letters.length === 0
    keepRoles(this.element)
    setText(part(this.element, 'outcome'), '')
    this.#count()
  }

  #chosen() {
    return [...this.#rows].filter(([, row]) => row.isChosen).map(([id]) => id)
  }

  #count() {
    const { length } = this.#chosen()
    setText(this.#replay, length === 0 ? 'Replay selected' : `Replay ${length} selected`)
    this.#all.disabled = this.#rows.size === 0
    this.#all.checked = length > 0 && length === this.#rows.size
    this.#all.indeterminate = length > 0 && length < this.#rows.size
  }

  /** Replays letters, and says what became of each. @param {string[]} ids */
  #send(ids) {
    const { rest, signal } = this.#context
    this.#attempt(async () => {
      const path = 'v1/dead-letters/replay'
      const { replayed, refused, unknown } = await rest.send('POST', path, { ids }, signal)
      const reasons = new Map(
        refused.map((/** @type {{ id: string, reason: string }} */ { id, reason }) => [id, reason]),
      )
      const gone = new Set(unknown)
      for (const id of ids) {
        const row = this.#rows.get(id)
        if (gone.has(id)) row?.tell('It is not there any more.', false)
        else if (reasons.has(id)) row?.tell(`Refused again: ${reasons.get(id)}`, false)
        else row?.tell('Stored now.', true)
      }
      const parts = [
        `${printCount(replayed)} stored`,
        ...(refused.length > 0 ? [`${printCount(refused.length)} refused again`] : []),
        ...(unknown.length > 0 ? [`${printCount(unknown.length)} not there any more`] : []),
      ]
      setText(part(this.element, 'outcome'), `Replayed: ${parts.join(', ')}.`)
      this.#count()
    })
  }
}

/**
 * @param {Record<string, string>} filter
 * @returns {(letter: Letter) => boolean}
 */
function matcher({ reason = '', open = '' }) {
  const wanted = reason.toLowerCase()
  return (letter) =>
    letter.reason.toLowerCase().includes(wanted) && (open === '' || letter.replayed === null)
}

/** One letter of the table. */
class LetterRow {
  #box
  #outcome = element('p', { class: 'note' })
  #button = element('button', { type: 'button' }, 'Replay')

  /** @param {Letter} letter  @param {(id: string) => void} onReplay */
  constructor(letter, onReplay) {
    const { id, received, topic, client, reason, replayed } = letter
    this.#box = element('input', { type: 'checkbox' })
    this.#button.addEventListener('click', () => onReplay(id))
    this.#button.setAttribute('aria-label', `Replay the message on ${topic}`)
    if (replayed !== null) this.tell(`Stored ${printMoment(replayed)}.`, true)
    this.element = element(
      'tr',
      {},
      cell(
        element(
          'label',
          { class: 'check' },
          this.#box,
          element('span', { class: 'unseen' }, `Select the message on ${topic}`),
        ),
      ),
      cell(printMoment(received)),
      cell(element('strong', {}, topic), element('p', { class: 'note' }, client)),
      cell(element('p', {}, reason), payload(letter)),
      cell(this.#button, this.#outcome),
    )
  }

  get isChosen() {
    return this.#box.checked
  }

  set isChosen(isChosen) {
    this.#box.checked = isChosen
  }

  /** Says what became of it. @param {string} text  @param {boolean} isStored */
  tell(text, isStored) {
    setText(this.#outcome, text)
    this.#outcome.className = isStored ? 'note right' : 'note wrong'
    this.#box.checked = false
    this.#button.textContent = isStored ? 'Replay again' : 'Replay'
  }
}

/** @param {...(Node | string)} children */
function cell(...children) {
  return element('td', {}, ...children)
}

/** @param {Letter} letter */
function payload({ payload: text, encoding }) {
  if (text === '') return element('p', { class: 'note' }, 'The payload is empty.')
  const shown = text.length > PAYLOAD_LENGTH_MAX ? `${text.slice(0, PAYLOAD_LENGTH_MAX)}…` : text
  const kind = encoding === 'utf8' ? 'Payload' : 'Payload, no text: in base64'
  return element(
    'details',
    {},
    element('summary', {}, `${kind}, ${printCount(text.length)} characters`),
    element('pre', { tabindex: 0 }, shown),
  )
}
