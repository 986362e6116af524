/** The dialog in which is said what the numbers of a metric mean: of one sensor, or of its type. */

import { part } from './dom.js'
import { inWordsOf } from './fault.js'
import { RestError, sensorPath } from './rest.js'

/** @typedef {import('./format.js').Known} Known */
/** @typedef {Partial<Record<'sensor' | 'type' | 'device', Known>>} Said */

/** Fields of the form, which are those of the REST interface. */
const WORDS = ['label', 'unit']
const NUMBERS = ['decimals', 'expected_min', 'expected_max']

/** What the form calls those that the api may refuse. */
const LABELS = new Map([
  ['expected_min', 'Expected from'],
  ['expected_max', 'Expected to'],
])

export class MetricEdit {
  #context
  #dialog
  #form
  #error
  #onSaved
  #sensor = ''
  #metric = ''
  /** @type {string | null} */
  #type = null
  /** @type {Said} */
  #said = {}

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root
   * @param {() => void} onSaved
   */
  constructor(context, root, onSaved) {
    this.#context = context
    this.#onSaved = onSaved
    this.#dialog = /** @type {HTMLDialogElement} */ (part(root, 'metric-dialog'))
    this.#form = /** @type {HTMLFormElement} */ (part(root, 'metric-form'))
    this.#error = part(root, 'metric-error')
    part(root, 'metric-cancel').addEventListener('click', () => this.#dialog.close())
    this.#field('owner').addEventListener('change', () => this.#fill())
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      void this.#save()
    })
  }

  /**
   * @param {{ name: string, type: string | null }} sensor
   * @param {string} metric
   */
  async open({ name, type }, metric) {
    const { rest, signal } = this.#context
    const path = `${sensorPath(name)}/metrics/${encodeURIComponent(metric)}`
    this.#sensor = name
    this.#type = type
    this.#metric = metric
    this.#said = (await rest.get(path, signal)).said
    this.#error.textContent = ''
    part(this.#dialog, 'metric-name').textContent = metric
    const [, ofType] = this.#owner.options
    ofType.disabled = type === null
    ofType.textContent = type === null ? 'its type: it has none' : `all of type ${type}`
    this.#owner.value = 'sensor'
    this.#fill()
    this.#dialog.showModal()
  }

  /** @param {string} name */
  #field(name) {
    return /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name))
  }

  get #owner() {
    return /** @type {HTMLSelectElement} */ (this.#form.elements.namedItem('owner'))
  }

  /** What the chosen one says; beside it, what holds where that says nothing. */
  #fill() {
    const { sensor = {}, type = {}, device = {} } = this.#said
    const isOfType = this.#owner.value === 'type'
    const own = isOfType ? type : sensor
    const others = isOfType ? device : { ...device, ...type }
    for (const name of [...WORDS, ...NUMBERS]) {
      const key = /** @type {keyof Known} */ (name)
      this.#field(name).value = String(own[key] ?? '')
      this.#field(name).placeholder = String(others[key] ?? '')
    }
    const told = device.unit === undefined ? '' : `Its device tells the unit ${device.unit}.`
    part(this.#dialog, 'metric-told').textContent = told
  }

  async #save() {
    const word = (/** @type {string} */ name) => this.#field(name).value.trim() || null
    const number = (/** @type {string} */ name) => {
      const text = word(name)
      return text === null ? null : Number(text)
    }
    const body = Object.fromEntries([
      ...WORDS.map((name) => [name, word(name)]),
      ...NUMBERS.map((name) => [name, number(name)]),
    ])
    const isEmpty = Object.values(body).every((value) => value === null)
    const owner =
      this.#owner.value === 'type'
        ? `v1/types/${encodeURIComponent(this.#type ?? '')}`
        : sensorPath(this.#sensor)
    const path = `${owner}/metrics/${encodeURIComponent(this.#metric)}`
    const { rest, signal } = this.#context
    try {
      if (isEmpty) await rest.remove(path, signal)
      else await rest.send('PUT', path, body, signal)
      this.#dialog.close()
      this.#onSaved()
    } catch (error) {
      if (!(error instanceof RestError)) throw error
      this.#error.textContent = inWordsOf(error.message, LABELS)
    }
  }
}
