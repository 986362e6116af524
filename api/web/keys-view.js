/**
 * Keys: who may do what; made, shown once, taken back. And claim keys, by which devices get theirs.
 */

import { ClaimsList } from './claims-list.js'
import { DialogForm, FieldError } from './dialog-form.js'
import { element, fromTemplate, keepRoles, part, setText } from './dom.js'
import { printMoment } from './format.js'
import { pageQuery, showPages } from './key-pages.js'
import { sureButton } from './removal.js'
import { attempts } from './repeat.js'
import { routeHash } from './route.js'
import { SecretDialog } from './secret-dialog.js'
import { fillForm, listenToForm } from './sensor-filter.js'

const DAY_MS = 86_400_000

/** What each right allows, in words. */
const RIGHTS = new Map([
  ['read', 'read'],
  ['write', 'send measurements'],
  ['manage', 'change sensors and rules'],
  ['admin', 'manage keys, receivers and decoders'],
])

/**
 * @typedef {object} Key
 * @property {string} id
 * @property {string} name
 * @property {string[]} scopes
 * @property {string | null} sensor  Its id.
 * @property {string | null} sensor_name
 * @property {number | null} expires
 */

/** @typedef {{ keys_required: boolean, key: Key | null }} Access */

export class KeysView {
  element = fromTemplate('keys')
  #context
  #attempt
  #edit
  /** Whether the key that is being made is for one device. */
  #isDevices = false
  #secret
  #claims
  #query = new URLSearchParams()
  /** Counts what was asked for, so that a late answer to something else is dropped. */
  #asked = 0

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
    this.#attempt = attempts(context, part(this.element, 'note'))
    this.#secret = new SecretDialog(this.element)
    this.#claims = new ClaimsList(context, this.element, this.#secret)
    this.#edit = new DialogForm(context, this.element, 'key-new', (data) => this.#save(data))
    listenToForm(
      this.#filters,
      (values) => context.replace(routeHash('keys', values)),
      context.signal,
    )
    part(this.element, 'new-key').addEventListener('click', () => this.#open())
    this.#edit.field('sensor').addEventListener('input', () => this.#fit())
  }

  get #filters() {
    return /** @type {HTMLFormElement} */ (part(this.element, 'filters'))
  }

  /** @param {URLSearchParams} query */
  show(query) {
    this.#query = query
    fillForm(this.#filters, query)
    this.#again()
  }

  #again() {
    const asked = ++this.#asked
    this.#attempt(async () => {
      const { rest, signal } = this.#context
      const access = await rest.get('v1/access', signal)
      if (signal.aborted || asked !== this.#asked) return
      const mayManage = this.#explain(access)
      for (const name of ['own', 'claims']) part(this.element, name).hidden = !mayManage
      if (!mayManage) return
      await Promise.all([this.#load(access, asked), this.#claims.load(this.#query)])
    })
  }

  /** Whether keys can be managed from here; says who is asked for them. @param {Access} access */
  #explain({ keys_required: areRequired, key }) {
    part(this.element, 'nobody-asked').hidden = areRequired
    const mayManage = !areRequired || Boolean(key?.scopes.includes('admin'))
    const mine = key ? `You use the key ${key.name}, which may ${printRights(key.scopes)}.` : ''
    const refused =
      'To see and make keys, use one that may manage keys: forget this one above first.'
    setText(part(this.element, 'note'), mayManage ? mine : `${mine} ${refused}`)
    return mayManage
  }

  /** @param {Access} access  @param {number} asked */
  async #load({ key: mine }, asked) {
    const { rest, signal } = this.#context
    const query = this.#query
    /** @type {{ items: Key[], next: string | null, total: number }} */
    const page = await rest.get(`v1/keys?${pageQuery(query, 'keys')}`, signal)
    if (signal.aborted || asked !== this.#asked) return
    const { items } = page
    part(this.element, 'key-rows').replaceChildren(...items.map((key) => this.#row(key, mine)))
    keepRoles(this.element)
    showPages(this.element, {
      list: 'keys',
      query,
      page,
      names: items.map(({ name }) => name),
      words: ['key', 'keys'],
      none: 'There are no keys yet. A key lets a device, a program or a person in.',
    })
  }

  /** @param {Key} key  @param {Key | null} mine */
  #row(key, mine) {
    const { id, name, scopes, expires } = key
    const words = {
      text: 'Revoke',
      really: mine?.id === id ? 'Really revoke the key that you use?' : 'Really revoke?',
      label: `Revoke ${name}`,
    }
    const revoke = sureButton(words, () => {
      this.#attempt(async () => {
        await this.#context.rest.remove(`v1/keys/${id}`, this.#context.signal)
        setText(
          part(this.element, 'outcome'),
          `${name} is revoked: within ten seconds it is refused.`,
        )
        this.#again()
      })
    })
    const isOver = expires !== null && expires <= Date.now()
    const until = expires === null ? 'never expires' : printMoment(expires)
    return element(
      'tr',
      {},
      element(
        'th',
        { scope: 'row' },
        name,
        element('p', { class: 'note' }, mine?.id === id ? `${id}, in use here` : id),
      ),
      element('td', {}, printRights(scopes)),
      element('td', {}, ...ofSensor(key)),
      element('td', {}, until, ...(isOver ? [' ', badge('expired')] : [])),
      element('td', {}, revoke),
    )
  }

  #open() {
    this.#edit.open()
    this.#isDevices = false
    this.#fit()
  }

  /** A key of one device has only the rights of devices; at first it may send measurements. */
  #fit() {
    const isDevices = this.#edit.field('sensor').value.trim() !== ''
    const box = (/** @type {string} */ name) =>
      /** @type {HTMLInputElement} */ (this.#edit.field(name))
    for (const name of ['manage', 'admin']) {
      box(name).disabled = isDevices
      if (isDevices) box(name).checked = false
    }
    if (isDevices === this.#isDevices) return
    this.#isDevices = isDevices
    box('write').checked = isDevices
  }

  /** @param {FormData} data */
  async #save(data) {
    const { rest, signal } = this.#context
    const name = String(data.get('name')).trim()
    const sensor = String(data.get('sensor')).trim()
    const scopes = [...RIGHTS.keys()].filter((scope) => data.has(scope))
    if (name === '') throw new FieldError('name', 'Say what it is for.')
    if (scopes.length === 0) throw new FieldError('read', 'Choose at least one right.')
    const days = Number(data.get('days'))
    const { key } = await rest.send(
      'POST',
      'v1/keys',
      {
        name,
        scopes,
        ...(sensor !== '' && { sensor }),
        ...(days > 0 && { expires: Date.now() + days * DAY_MS }),
      },
      signal,
    )
    const device =
      'Give it to the device as the password of MQTT, with any user name. ' +
      (scopes.includes('write')
        ? `It publishes to sensors/${sensor}/METRIC, and nowhere else.`
        : `It may read what was measured of ${sensor}, and send nothing.`)
    const program =
      'Programs send it in the header Authorization, after the word Bearer; MQTT clients as the ' +
      'password. On this page it is entered when it asks for one.'
    const about = sensor === '' ? program : device
    return () => {
      this.#secret.show({ title: `The key ${name}`, secret: key, about })
      this.#again()
    }
  }
}

/** @param {readonly string[]} scopes */
function printRights(scopes) {
  const known = [...RIGHTS].filter(([scope]) => scopes.includes(scope))
  return known.map(([, words]) => words).join(', ')
}

/** @param {Key} key */
function ofSensor({ sensor, sensor_name: name }) {
  if (sensor === null) return ['all sensors']
  const href = routeHash('sensors', {}, name ?? sensor)
  if (name === null) return [element('span', { class: 'soft' }, 'one not heard of yet')]
  return [element('a', { href }, name)]
}

/** @param {string} text */
function badge(text) {
  return element('strong', { class: 'badge' }, text)
}
