/** The alert rules: what each watches, and who is told; made, changed, switched off, deleted. */

import { element, keepRoles, part, setText } from './dom.js'
import { printMoment } from './format.js'
import { sureButton } from './removal.js'
import { attempts } from './repeat.js'
import { printRule } from './rule.js'
import { RuleEdit } from './rule-edit.js'

/** @typedef {import('./rule.js').Rule & { id: string, silenced: number | null }} Rule */

export class RulesList {
  #context
  #attempt
  #root
  #edit
  /** @type {import('./rule-edit.js').Receiver[]} */
  #receivers = []

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root
   */
  constructor(context, root) {
    this.#context = context
    this.#attempt = attempts(context, part(root, 'rules-note'))
    this.#root = root
    this.#edit = new RuleEdit(context, root, (remark) => this.load(remark))
    part(root, 'new-rule').addEventListener('click', () => {
      this.#edit.open(undefined, this.#receivers)
    })
  }

  /** @param {string} [remark]  On what was saved. */
  load(remark = '') {
    this.#attempt(async () => {
      const { rest, signal } = this.#context
      const [rules, receivers] = await Promise.all([
        rest.get('v1/rules', signal),
        this.#readReceivers(),
      ])
      if (signal.aborted) return
      this.#receivers = receivers
      this.#render(rules.items, remark)
    })
  }

  /** Who can be told; with keys only `admin` may know. */
  async #readReceivers() {
    const { rest, signal } = this.#context
    try {
      return (await rest.get('v1/receivers', signal)).items
    } catch (error) {
      if (/** @type {{ status?: number }} */ (error).status === 403) return []
      throw error
    }
  }

  /** @param {Rule[]} rules  @param {string} remark */
  #render(rules, remark) {
    part(this.#root, 'rule-rows').replaceChildren(...rules.map((rule) => this.#row(rule)))
    part(this.#root, 'rules-table').hidden = rules.length === 0
    keepRoles(this.#root)
    const none = 'There are no rules yet. A rule watches values, and tells you when they are wrong.'
    setText(part(this.#root, 'rules-note'), rules.length === 0 ? none : remark)
  }

  /** @param {Rule} rule */
  #row(rule) {
    const { name, receivers = [], enabled } = rule
    const isOn = enabled !== false
    const told = receivers.map((id) => this.#receivers.find((one) => one.id === id)?.name ?? id)
    const edit = element('button', { type: 'button', 'aria-label': `Edit ${name}` }, 'Edit')
    edit.addEventListener('click', () => this.#edit.open(rule, this.#receivers))
    const turn = element(
      'button',
      { type: 'button', 'aria-label': `${isOn ? 'Switch off' : 'Switch on'} ${name}` },
      isOn ? 'Switch off' : 'Switch on',
    )
    turn.addEventListener('click', () => this.#put({ ...rule, enabled: !isOn }))
    return element(
      'tr',
      {},
      element(
        'td',
        {},
        element('strong', {}, name),
        element('p', { class: 'note' }, isOn ? (rule.severity ?? '') : 'switched off'),
        ...this.#silenced(rule),
      ),
      element('td', {}, printRule(rule)),
      element('td', {}, told.length > 0 ? told.join(', ') : 'nobody'),
      element('td', {}, element('div', { class: 'buttons' }, edit, turn, this.#removal(rule))),
    )
  }

  /** @param {Rule} rule */
  #silenced({ id, name, silenced }) {
    if (silenced === null) return []
    const label = `Tell again of ${name}`
    const button = element('button', { type: 'button', 'aria-label': label }, 'Tell again')
    button.addEventListener('click', () => {
      this.#attempt(async () => {
        const { rest, signal } = this.#context
        await rest.send('POST', `v1/rules/${id}/silence`, { until: null }, signal)
        this.load()
      })
    })
    return [element('p', { class: 'note' }, `Silenced until ${printMoment(silenced)}.`), button]
  }

  /** @param {Rule} rule */
  #removal({ id, name }) {
    const words = { text: 'Delete', really: 'Really delete?', label: `Delete ${name}` }
    return sureButton(words, () => {
      this.#attempt(async () => {
        await this.#context.rest.remove(`v1/rules/${id}`, this.#context.signal)
        this.load()
      })
    })
  }

  /** @param {Rule & { changed?: number }} rule */
  #put({ id, changed: _changed, silenced: _silenced, ...body }) {
    this.#attempt(async () => {
      await this.#context.rest.send('PUT', `v1/rules/${id}`, body, this.#context.signal)
      this.load()
    })
  }
}
