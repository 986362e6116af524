/** Decoders: formats of people's own, written, tried on a real message, saved, deleted. */

import { element, fromTemplate, keepRoles, part, setText } from './dom.js'
import { printMoment, printValue } from './format.js'
import { sureButton } from './removal.js'
import { attempt, attempts } from './repeat.js'

/** Dead letters that are offered, and the longest payload of one that is, in characters. */
const LETTERS = 50
const PAYLOAD_LENGTH_MAX = 65_000

/** Longest part of an expression that the list shows, in characters. */
const SHOWN_LENGTH_MAX = 120

/** Measurements that a trial shows. */
const ROWS_MAX = 100

const FIELDS = /** @type {const} */ (['name', 'template', 'reads', 'expression'])

/**
 * @typedef {object} Decoder
 * @property {string} name
 * @property {string} template
 * @property {string} reads
 * @property {string} expression
 * @property {string | null} refused
 *
 * @typedef {object} Letter
 * @property {string} id
 * @property {number} received
 * @property {string} topic
 * @property {string} payload
 * @property {'utf8' | 'base64'} encoding
 *
 * @typedef {object} Tried
 * @property {{ sensor: string, metric: string, t: number | null, v: any }[]} items
 * @property {{ reason: string }[]} refused
 * @property {{ field: string, reason: string }[]} refused_fields
 * @property {number} item_count  Of which `items` has the first.
 * @property {number} refused_field_count
 */

export class DecodersView {
  element = fromTemplate('decoders')
  #context
  #attempt
  #form = /** @type {HTMLFormElement} */ (part(this.element, 'form'))
  /** @type {Letter[]} */
  #letters = []
  /** Of the payload that is shown. @type {'utf8' | 'base64'} */
  #encoding = 'utf8'

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
    this.#attempt = attempts(context, part(this.element, 'note'))
    part(this.element, 'new').addEventListener('click', () => this.#open(undefined))
    part(this.element, 'try').addEventListener('click', () => this.#try())
    this.#field('letter').addEventListener('change', () => this.#take())
    this.#field('payload').addEventListener('input', () => this.#typed())
    // What it would become was said of something else.
    this.#form.addEventListener('input', () => part(this.element, 'result').replaceChildren())
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      this.#save()
    })
  }

  /** @param {URLSearchParams} query  May name a decoder, and a dead letter to try it on. */
  show(query) {
    this.#load(query.get('decoder'))
    this.#attempt(async () => {
      const { rest, signal } = this.#context
      const asked = new URLSearchParams({ limit: String(LETTERS) })
      const to = query.get('to')
      if (to) asked.set('to', to)
      const { items } = await rest.get(`v1/dead-letters?${asked}`, signal)
      if (!signal.aborted) this.#offer(items, query.get('letter'))
    })
  }

  /** @param {string | null} [opened]  The name of a decoder that is to be edited. */
  #load(opened = null) {
    this.#attempt(async () => {
      const { rest, signal } = this.#context
      const { items } = await rest.get('v1/decoders', signal)
      if (signal.aborted) return
      part(this.element, 'rows').replaceChildren(
        ...items.map((/** @type {Decoder} */ one) => this.#row(one)),
      )
      part(this.element, 'table').hidden = items.length === 0
      keepRoles(this.element)
      setText(part(this.element, 'note'), items.length === 0 ? 'There are no decoders yet.' : '')
      const decoder = items.find((/** @type {Decoder} */ { name }) => name === opened)
      if (decoder) this.#open(decoder)
    })
  }

  /** @param {Decoder} decoder */
  #row(decoder) {
    const { name, template, expression, refused } = decoder
    const edit = element('button', { type: 'button', 'aria-label': `Edit ${name}` }, 'Edit')
    edit.addEventListener('click', () => this.#open(decoder))
    const words = { text: 'Delete', really: 'Really delete?', label: `Delete ${name}` }
    const remove = sureButton(words, () => {
      this.#attempt(async () => {
        const { rest, signal } = this.#context
        await rest.remove(`v1/decoders/${encodeURIComponent(name)}`, signal)
        this.#load()
      })
    })
    const unused =
      refused === null ? [] : [element('p', { class: 'wrong' }, `Not used: ${refused}`)]
    const isLong = expression.length > SHOWN_LENGTH_MAX
    const shown = isLong ? `${expression.slice(0, SHOWN_LENGTH_MAX)}…` : expression
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, name, ...unused),
      element('td', { class: 'code' }, template),
      element('td', { class: 'code' }, shown),
      element('td', {}, element('div', { class: 'buttons' }, edit, remove)),
    )
  }

  /** @param {Decoder | undefined} decoder  None: a new one. */
  #open(decoder) {
    const values = decoder ?? { name: '', template: '', reads: 'json', expression: '' }
    for (const name of FIELDS) this.#field(name).value = values[name]
    this.#head(decoder?.name)
    this.#tell('', '')
    part(this.element, 'result').replaceChildren()
    const first = this.#field(decoder ? 'expression' : 'name')
    first.focus()
    first.scrollIntoView({ block: 'center' })
  }

  /** Says which one is edited. @param {string | undefined} name  None: a new one. */
  #head(name) {
    // Under another name it would be another one.
    this.#field('name').readOnly = name !== undefined
    setText(part(this.element, 'title'), name === undefined ? 'New decoder' : `Edit ${name}`)
  }

  /** @param {string} name */
  #field(name) {
    return /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name))
  }

  /** @param {Letter[]} letters  @param {string | null} chosen  The id of one of them. */
  #offer(letters, chosen) {
    this.#letters = letters.filter(({ payload }) => payload.length < PAYLOAD_LENGTH_MAX)
    const select = this.#field('letter')
    const [none] = select.querySelectorAll('option')
    select.replaceChildren(
      none,
      ...this.#letters.map(({ id, topic, received }) =>
        element('option', { value: id }, `${topic}, ${printMoment(received)}`),
      ),
    )
    if (!chosen) return
    select.value = chosen
    this.#take()
  }

  /** Takes a dead letter for the message. */
  #take() {
    const letter = this.#letters.find(({ id }) => id === this.#field('letter').value)
    if (!letter) return
    this.#field('topic').value = letter.topic
    this.#field('payload').value = letter.payload
    this.#encode(letter.encoding)
  }

  /** What somebody types is text, unless it was base64 before. */
  #typed() {
    if (this.#field('payload').value === '') this.#encode('utf8')
  }

  /** @param {'utf8' | 'base64'} encoding */
  #encode(encoding) {
    this.#encoding = encoding
    const label = encoding === 'utf8' ? 'Payload' : 'Payload, no text: in base64'
    setText(part(this.element, 'payload-label'), label)
  }

  #try() {
    this.#ask(async () => {
      const { rest, signal } = this.#context
      const { template, reads, expression } = this.#values()
      const [topic, payload] = ['topic', 'payload'].map((name) => this.#field(name).value)
      const message = { topic, payload, encoding: this.#encoding }
      const known = template === '' ? {} : { template }
      const draft = { ...known, reads, expression, ...message }
      const tried = await rest.send('POST', 'v1/decode/expression', draft, signal)
      if (signal.aborted) return
      part(this.element, 'result').replaceChildren(...printTried(tried))
      keepRoles(this.element)
    })
  }

  #save() {
    this.#ask(async () => {
      const { rest, signal } = this.#context
      const { name, ...body } = this.#values()
      await rest.send('PUT', `v1/decoders/${encodeURIComponent(name)}`, body, signal)
      this.#tell('', `${name} is saved, and used within two seconds.`)
      this.#head(name)
      this.#load()
    })
  }

  #values() {
    const { name, ...more } = Object.fromEntries(
      FIELDS.map((field) => [field, this.#field(field).value.trim()]),
    )
    return /** @type {Record<typeof FIELDS[number], string>} */ ({ name, ...more })
  }

  /** Asks something; what is wrong is said beside the buttons. @param {() => Promise<void>} ask */
  #ask(ask) {
    this.#tell('', '')
    void attempt(ask, this.#context.signal, (error) => {
      this.#context.report(error)
      part(this.element, 'result').replaceChildren()
      const what = error.parameter === undefined ? '' : `${capital(error.parameter)} `
      const isNamed = what !== '' && error.message.startsWith(`${error.parameter} `)
      this.#tell(isNamed ? capital(error.message) : error.message, '')
    })
  }

  /** @param {string} wrong  @param {string} right */
  #tell(wrong, right) {
    setText(part(this.element, 'error'), wrong)
    setText(part(this.element, 'saved'), right)
  }
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** What a message would become. @param {Tried} tried */
function printTried(tried) {
  const { items, refused, refused_fields: fields } = tried
  if (refused.length > 0) {
    return [element('p', { class: 'wrong' }, `It would be refused: ${refused[0].reason}`)]
  }
  if (items.length === 0) {
    return [element('p', { class: 'note' }, 'It is no measurement: nothing would be stored.')]
  }
  const rows = items
    .slice(0, ROWS_MAX)
    .map(({ sensor, metric, t, v }) =>
      element(
        'tr',
        {},
        element('td', {}, sensor),
        element('th', { scope: 'row' }, metric),
        element('td', {}, printValue(v)),
        element('td', {}, t === null ? 'when it is received' : printMoment(t)),
      ),
    )
  const heads = ['Sensor', 'Metric', 'Value', 'Time']
  const head = element('tr', {}, ...heads.map((text) => element('th', { scope: 'col' }, text)))
  const all = tried.item_count
  const count = all === 1 ? 'one measurement' : `${all} measurements`
  const more = all > ROWS_MAX ? `, of which ${ROWS_MAX} are shown` : ''
  return [
    element('p', { class: 'right' }, `It would be stored: ${count}${more}.`),
    ...fields
      .slice(0, ROWS_MAX)
      .map(({ field, reason }) => element('p', { class: 'wrong' }, `Without ${field}: ${reason}`)),
    ...(tried.refused_field_count > ROWS_MAX
      ? [
          element(
            'p',
            { class: 'wrong' },
            `And ${tried.refused_field_count - ROWS_MAX} fields more.`,
          ),
        ]
      : []),
    element(
      'table',
      { class: 'stacked' },
      element('thead', {}, head),
      element('tbody', {}, ...rows),
    ),
  ]
}
