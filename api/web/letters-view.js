/**
 * Dead letters: what could not be stored, why, and what would make it right; to be replayed once
 * what was wrong is mended. The api filters them; a page of it may be shorter than was asked for,
 * and is filled up with the next ones here.
 */

import { element, fromTemplate, keepRoles, link, part, setText } from './dom.js'
import { printCount, printMany, printMoment } from './format.js'
import { printPayload } from './payload.js'
import { localField } from './range.js'
import { attempts } from './repeat.js'
import { routeHash } from './route.js'
import { fillForm, listenToForm } from './sensor-filter.js'

/** Letters of a page, and most requests for one: each reads for a second at most. */
const PAGE = 50
const REQUESTS_MAX = 5

/** A payload of so many characters is shown at once, a longer one when it is opened. */
const OPEN_LENGTH_MAX = 200

/** Fields of the form that the api takes as they are. */
const ASKED = /** @type {const} */ (['reason', 'topic', 'client', 'format', 'from', 'to'])

/** Fields that are moments: milliseconds in the address, local time in the form. */
const MOMENTS = ['from', 'to']

/**
 * @typedef {object} Letter
 * @property {string} id
 * @property {number} received
 * @property {string} topic
 * @property {string} client
 * @property {string} reason
 * @property {string} payload
 * @property {'utf8' | 'base64'} encoding
 * @property {string | null} format
 * @property {string | null} decoder
 * @property {number | null} replayed
 * @property {string | null} advice
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
      (values) => context.replace(routeHash('dead-letters', ofForm(values))),
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
    const filters = /** @type {HTMLFormElement} */ (part(this.element, 'filters'))
    fillForm(filters, forForm(query))
    this.#attempt(() => this.#load())
  }

  async #load() {
    const asked = ++this.#asked
    const { rest, signal } = this.#context
    const { cursor = '', ...filter } = Object.fromEntries(this.#query)
    /** @type {Letter[]} */
    const letters = []
    let next = cursor
    for (let request = 0; request < REQUESTS_MAX; request += 1) {
      const page = pageQuery(filter, PAGE - letters.length, next)
      const answer = await rest.get(`v1/dead-letters?${page}`, signal)
      if (asked !== this.#asked || signal.aborted) return
      letters.push(...answer.items)
      next = answer.next ?? ''
      if (!next || letters.length >= PAGE) break
    }
    this.#render(letters)
    const count = printMany(letters.length, 'dead letter')
    const more = next ? '; older ones follow' : ''
    setText(
      part(this.element, 'note'),
      `${letters.length > 0 ? count : none(filter, next)}${more}.`,
    )
    link(part(this.element, 'first'), cursor && routeHash('dead-letters', filter))
    link(part(this.element, 'next'), next && routeHash('dead-letters', { ...filter, cursor: next }))
  }

  /** In the words of the filter. @param {Letter} letter */
  #readBy({ format, decoder }) {
    if (decoder !== null) return `the decoder ${decoder}`
    const formats = /** @type {HTMLSelectElement} */ (this.element.querySelector('[name=format]'))
    return [...formats.options].find(({ value }) => value === format)?.text ?? format
  }

  /** @param {Letter[]} letters */
  #render(letters) {
    const replay = (/** @type {string} */ id) => this.#send([id])
    this.#rows = new Map(
      letters.map((letter) => [letter.id, new LetterRow(letter, this.#readBy(letter), replay)]),
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
 * What the api is asked.
 *
 * @param {Record<string, string>} filter
 * @param {number} limit
 * @param {string} cursor  Empty: the first page.
 */
function pageQuery(filter, limit, cursor) {
  const query = new URLSearchParams({ limit: String(limit) })
  for (const name of ASKED) if (filter[name]) query.set(name, filter[name])
  if (filter.open) query.set('replayed', 'false')
  if (cursor) query.set('cursor', cursor)
  return query
}

/** @param {Record<string, string>} filter  @param {string} next */
function none(filter, next) {
  const isFiltered = ASKED.some((name) => filter[name]) || Boolean(filter.open)
  if (isFiltered) return next ? 'None among the newest' : 'None of this kind'
  return 'None: everything could be stored'
}

/** What the form says, as the address has it. @param {Record<string, string>} values */
function ofForm(values) {
  const moments = MOMENTS.map((name) => {
    const timeMs = Date.parse(values[name] ?? '')
    return [name, Number.isNaN(timeMs) ? '' : String(timeMs)]
  })
  return { ...values, ...Object.fromEntries(moments) }
}

/** The address, as the form has it. @param {URLSearchParams} query */
function forForm(query) {
  const shown = new URLSearchParams(query)
  for (const name of MOMENTS) {
    const timeMs = Number(query.get(name) || Number.NaN)
    shown.set(name, Number.isSafeInteger(timeMs) ? localField(timeMs) : '')
  }
  return shown
}

/** One letter of the table. */
class LetterRow {
  #box
  #outcome = element('p', { class: 'note' })
  #button = element('button', { type: 'button' }, 'Replay')

  /**
   * @param {Letter} letter
   * @param {string | null} readBy  Its format; null: nobody knows.
   * @param {(id: string) => void} onReplay
   */
  constructor(letter, readBy, onReplay) {
    const { id, received, topic, client, replayed } = letter
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
      cell(
        element('strong', {}, topic),
        element('p', { class: 'note' }, client),
        ...(readBy === null ? [] : [element('p', { class: 'note' }, `Read as ${readBy}`)]),
      ),
      cell(element('p', {}, letter.reason), ...advice(letter), payload(letter)),
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
function advice({ id, received, advice: text, decoder }) {
  if (text === null) return []
  if (decoder === null) return [element('p', { class: 'advice' }, text)]
  // The decoders offer the newest letters: up to this one.
  const chosen = { decoder, letter: id, to: String(received + 1) }
  const link = element('a', { href: routeHash('decoders', chosen) }, `Try it in ${decoder}`)
  return [element('p', { class: 'advice' }, text, ' ', link)]
}

/** @param {Letter} letter */
function payload({ payload: content, encoding }) {
  if (content === '') return element('p', { class: 'note' }, 'The payload is empty.')
  const { text, about } = printPayload(content, encoding)
  return element(
    'details',
    { open: text.length <= OPEN_LENGTH_MAX },
    element('summary', {}, about),
    element('pre', { tabindex: 0 }, text),
  )
}
