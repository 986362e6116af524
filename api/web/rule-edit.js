/** The dialog in which an alert rule is made, or changed. */

import { element, part, setText } from './dom.js'
import { inWordsOf } from './fault.js'
import { printDuration } from './format.js'
import { RestError } from './rest.js'
import { formOf, PER_S_DEFAULT, ruleOf } from './rule.js'
import { TagError } from './tags.js'

/** @typedef {import('./rule.js').Rule} Rule */
/** @typedef {{ id: string, name: string, kind: string }} Receiver */

const FIELDS = /** @type {const} */ ([
  ...['name', 'wrong', 'metric', 'sensors', 'type', 'tags'],
  ...['limit', 'clear', 'minutes', 'severity'],
])

/** What the form calls those that the api may refuse. */
const LABELS = new Map([
  ['above', 'Limit'],
  ['below', 'Limit'],
  ['clear', 'Back to normal at'],
])

export class RuleEdit {
  #context
  #dialog
  #form
  #error
  #onSaved
  /** @type {Rule | undefined} */
  #before

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root
   * @param {(remark: string) => void} onSaved
   */
  constructor(context, root, onSaved) {
    this.#context = context
    this.#onSaved = onSaved
    this.#dialog = /** @type {HTMLDialogElement} */ (part(root, 'rule-dialog'))
    this.#form = /** @type {HTMLFormElement} */ (part(root, 'rule-form'))
    this.#error = part(root, 'rule-error')
    part(root, 'rule-cancel').addEventListener('click', () => this.#dialog.close())
    this.#field('wrong').addEventListener('change', () => this.#fit())
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      void this.#save()
    })
  }

  /**
   * @param {Rule | undefined} rule  None: a new one.
   * @param {readonly Receiver[]} receivers
   */
  open(rule, receivers) {
    this.#before = rule
    this.#error.textContent = ''
    part(this.#dialog, 'rule-title').textContent = rule ? 'Edit the rule' : 'New rule'
    const form = formOf(rule ?? { name: '', kind: 'threshold', above: undefined })
    if (!rule) form.wrong = 'above'
    for (const name of FIELDS) {
      this.#field(name).value = String(form[/** @type {keyof typeof form} */ (name)])
    }
    part(this.#dialog, 'rule-receivers').replaceChildren(
      ...receivers.map(({ id, name, kind }) => {
        const isTold = form.receivers.includes(id)
        const box = element('input', { type: 'checkbox', name: 'receiver', value: id })
        box.checked = isTold
        return element('label', { class: 'check' }, box, ` ${name} (${kind})`)
      }),
    )
    part(this.#dialog, 'rule-nobody').hidden = receivers.length > 0
    this.#fit()
    this.#dialog.showModal()
  }

  /** @param {string} name */
  #field(name) {
    return /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name))
  }

  /** Shows the fields that belong to what is wrong. */
  #fit() {
    const wrong = this.#field('wrong').value
    const hasLimit = wrong !== 'range' && wrong !== 'silence'
    for (const name of ['limit', 'clear']) {
      const label = /** @type {HTMLElement} */ (this.#field(name).closest('label'))
      label.hidden = !hasLimit
    }
    const perS = this.#before?.per_s ?? PER_S_DEFAULT
    const per = perS === PER_S_DEFAULT ? ', a minute' : `, in ${printDuration(perS * 1000)}`
    setText(part(this.#dialog, 'rule-per'), wrong === 'rise' || wrong === 'fall' ? per : '')
    this.#field('limit').required = hasLimit
    this.#field('metric').required = hasLimit
    this.#field('minutes').required = wrong === 'silence'
  }

  async #save() {
    const { rest, signal } = this.#context
    const data = new FormData(this.#form)
    const typed = Object.fromEntries(FIELDS.map((name) => [name, String(data.get(name)).trim()]))
    const form = { ...typed, receivers: data.getAll('receiver').map(String) }
    const id = this.#before?.id
    try {
      const rule = ruleOf(/** @type {import('./rule.js').Form} */ (form), this.#before)
      if (id === undefined) await rest.send('POST', 'v1/rules', rule, signal)
      else await rest.send('PUT', `v1/rules/${id}`, rule, signal)
      this.#dialog.close()
      this.#onSaved(await this.#remarkOn(rule))
    } catch (error) {
      if (!(error instanceof RestError || error instanceof TagError)) throw error
      this.#error.textContent = inWordsOf(error.message, LABELS)
    }
  }

  /**
   * Says which of its sensors there are not. A rule may be there before its sensor is; that a name
   * is mistyped shows nowhere else.
   *
   * @param {Partial<Rule>} rule
   */
  async #remarkOn({ sensors = [] }) {
    const { rest, signal } = this.#context
    const unknown = await Promise.all(
      sensors.map(async (name) => {
        try {
          await rest.get(`v1/sensors/${encodeURIComponent(name)}`, signal)
          return []
        } catch (error) {
          if (!(error instanceof RestError)) throw error
          return error.status === 404 ? [name] : []
        }
      }),
    )
    const names = unknown.flat().join(', ')
    return names && `Saved. No sensor has this name yet: ${names}.`
  }
}
