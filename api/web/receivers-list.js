/** Who is told of alerts: made, changed, tested, deleted; the secret of a webhook is shown once. */

import { DialogForm, FieldError } from './dialog-form.js'
import { element, keepRoles, part, setText } from './dom.js'
import { printMoment } from './format.js'
import { sureButton } from './removal.js'
import { attempts, pause } from './repeat.js'
import { RestError } from './rest.js'
import { SecretDialog } from './secret-dialog.js'

/** Bytes of a signing secret that is made here. */
const SECRET_BYTES = 24

/** How long and how often it is looked whether a test has arrived, in milliseconds. */
const TEST_MS_MAX = 15_000
const TEST_LOOK_MS = 1_000

/** What a receiver of each kind has, in the form and in the REST interface. */
const WHERE = new Map([
  ['webhook', 'url'],
  ['mqtt', 'topic'],
  ['mail', 'to'],
])

const SECRET_ABOUT =
  'Whoever receives the webhook checks with it that what arrives was sent by this server ' +
  '(Standard Webhooks).'

/**
 * @typedef {object} Receiver
 * @property {string} id
 * @property {string} name
 * @property {'webhook' | 'mqtt' | 'mail'} kind
 * @property {string} [url]
 * @property {string} [topic]
 * @property {string[]} [to]
 * @property {number | null} told
 * @property {number | null} failed
 * @property {string | null} error
 */

export class ReceiversList {
  #context
  #attempt
  #root
  #edit
  #secret
  #onChange
  /** The one that is changed; none: a new one. @type {Receiver | undefined} */
  #before

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root
   * @param {() => void} onChange  There are other receivers now.
   */
  constructor(context, root, onChange) {
    this.#context = context
    this.#root = root
    this.#onChange = onChange
    this.#attempt = attempts(context, part(root, 'receivers-note'))
    this.#secret = new SecretDialog(root)
    this.#edit = new DialogForm(context, root, 'receiver', (data) => this.#save(data))
    this.#edit.field('kind').addEventListener('change', () => this.#fit())
    part(root, 'new-receiver').addEventListener('click', () => this.#open(undefined))
  }

  load() {
    this.#attempt(async () => {
      const { rest, signal } = this.#context
      try {
        const { items } = await rest.get('v1/receivers', signal)
        if (!signal.aborted) this.#render(items)
      } catch (error) {
        if (!(error instanceof RestError) || error.status !== 403) throw error
        part(this.#root, 'new-receiver').hidden = true
        const refused = 'Only a key that may manage keys and receivers shows who is told.'
        setText(part(this.#root, 'receivers-note'), refused)
      }
    })
  }

  /** @param {Receiver[]} receivers */
  #render(receivers) {
    part(this.#root, 'receiver-rows').replaceChildren(...receivers.map((one) => this.#row(one)))
    part(this.#root, 'receivers-table').hidden = receivers.length === 0
    keepRoles(this.#root)
    const none =
      'Nobody is told yet: alerts are only listed here. A receiver is a webhook, an MQTT topic or ' +
      'some addresses for mail; each rule names those that it tells.'
    setText(part(this.#root, 'receivers-note'), receivers.length === 0 ? none : '')
  }

  /** @param {Receiver} receiver */
  #row(receiver) {
    const { id, name } = receiver
    const edit = element('button', { type: 'button', 'aria-label': `Edit ${name}` }, 'Edit')
    edit.addEventListener('click', () => this.#open(receiver))
    const test = element('button', { type: 'button', 'aria-label': `Test ${name}` }, 'Test')
    const state = element('td', {}, printState(receiver))
    test.addEventListener('click', () => this.#test(receiver, test, state))
    const words = { text: 'Delete', really: 'Really delete?', label: `Delete ${name}` }
    const removal = sureButton(words, () => {
      this.#attempt(async () => {
        await this.#context.rest.remove(`v1/receivers/${id}`, this.#context.signal)
        this.#changed()
      })
    })
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, name),
      element('td', {}, printWhere(receiver)),
      state,
      element('td', {}, element('div', { class: 'buttons' }, edit, test, removal)),
    )
  }

  #changed() {
    this.load()
    this.#onChange()
  }

  /**
   * Sends a test, and says what became of it.
   *
   * @param {Receiver} receiver
   * @param {HTMLButtonElement} button
   * @param {HTMLElement} state
   */
  #test({ id }, button, state) {
    const { rest, signal } = this.#context
    const path = `v1/receivers/${id}`
    this.#attempt(async () => {
      button.disabled = true
      setText(state, 'A test is on its way…')
      try {
        const { created } = await rest.send('POST', `${path}/test`, {}, signal)
        setText(state, await this.#outcome(path, created))
      } finally {
        button.disabled = false
      }
    })
  }

  /** @param {string} path  @param {number} sinceMs */
  async #outcome(path, sinceMs) {
    const { rest, signal } = this.#context
    const endMs = Date.now() + TEST_MS_MAX
    while (Date.now() < endMs && !signal.aborted) {
      await pause(TEST_LOOK_MS, signal)
      /** @type {Receiver} */
      const { told, failed, error } = await rest.get(path, signal)
      if (told !== null && told >= sinceMs) return 'The test has arrived.'
      if (failed !== null && failed >= sinceMs) {
        return `The test did not arrive, and is tried again: ${error ?? 'unknown'}.`
      }
    }
    return 'Nothing is known of the test yet: look again later.'
  }

  /** @param {Receiver | undefined} receiver */
  #open(receiver) {
    this.#before = receiver
    this.#edit.open()
    setText(part(this.#edit.element, 'title'), receiver ? 'Edit the receiver' : 'New receiver')
    if (receiver) {
      const { name, kind, url = '', topic = '', to = [] } = receiver
      for (const [field, value] of Object.entries({ name, kind, url, topic, to: to.join('\n') })) {
        this.#edit.field(field).value = value
      }
    }
    this.#fit()
  }

  /** Shows the fields that belong to the kind. */
  #fit() {
    const kind = this.#edit.field('kind').value
    for (const [one, field] of WHERE) {
      const label = /** @type {HTMLElement} */ (this.#edit.field(field).closest('label'))
      label.hidden = one !== kind
      this.#edit.field(field).required = one === kind
    }
    part(this.#edit.element, 'renew').hidden = kind !== 'webhook' || this.#before?.kind !== kind
    part(this.#edit.element, 'mail-note').hidden = kind !== 'mail'
  }

  /** @param {FormData} data */
  async #save(data) {
    const { rest, signal } = this.#context
    const kind = String(data.get('kind'))
    const field = WHERE.get(kind) ?? ''
    const typed = String(data.get(field)).trim()
    if (typed === '') throw new FieldError(field, 'Say where it is told.')
    const where = kind === 'mail' ? typed.split(/[\s,;]+/).filter(Boolean) : typed
    const name = String(data.get('name')).trim()
    const body = { name, kind, [field]: where }
    const before = this.#before
    /** @type {string | undefined} */
    let secret
    if (before === undefined) {
      ;({ secret } = await rest.send('POST', 'v1/receivers', body, signal))
    } else {
      const isSigned = kind === 'webhook' && (data.has('renew') || before.kind !== 'webhook')
      secret = isSigned ? newSecret() : undefined
      await rest.send('PUT', `v1/receivers/${before.id}`, { ...body, secret }, signal)
    }
    return () => {
      this.#changed()
      if (!secret) return
      this.#secret.show({ title: `The signing secret of ${name}`, secret, about: SECRET_ABOUT })
    }
  }
}

/** A secret as Standard Webhooks writes them. */
function newSecret() {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES))
  return `whsec_${btoa(String.fromCharCode(...bytes))}`
}

/** @param {Receiver} receiver */
function printWhere({ kind, url, topic, to = [] }) {
  if (kind === 'webhook') return `webhook ${url}`
  return kind === 'mqtt' ? `MQTT topic ${topic}` : `mail to ${to.join(', ')}`
}

/** @param {Receiver} receiver */
function printState({ told, failed, error }) {
  const isFailing = failed !== null && failed > (told ?? 0)
  if (isFailing) return `Not reached ${printMoment(failed)}: ${error ?? 'unknown'}`
  return told === null ? 'Not told anything yet' : `Told ${printMoment(told)}`
}
