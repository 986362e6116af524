/** Claim keys: by one of them the device of a sensor gets its own key, once. */

import { DialogForm } from './dialog-form.js'
import { element, keepRoles, part } from './dom.js'
import { printMoment } from './format.js'
import { pageQuery, showPages } from './key-pages.js'
import { sureButton } from './removal.js'
import { attempts } from './repeat.js'
import { routeHash } from './route.js'

const DAY_MS = 86_400_000

/**
 * @typedef {object} Claim
 * @property {string} id
 * @property {string} name
 * @property {string} sensor  Its name.
 * @property {number | null} expires
 * @property {number | null} claimed
 */

export class ClaimsList {
  #context
  #attempt
  #root
  #edit
  #secret
  #query = new URLSearchParams()

  /**
   * @param {import('./page.js').Context} context
   * @param {HTMLElement} root
   * @param {import('./secret-dialog.js').SecretDialog} secret
   */
  constructor(context, root, secret) {
    this.#context = context
    this.#root = root
    this.#secret = secret
    this.#attempt = attempts(context, part(root, 'claims-note'))
    this.#edit = new DialogForm(context, root, 'claim-new', (data) => this.#save(data))
    part(root, 'new-claim').addEventListener('click', () => this.#edit.open())
  }

  /** @param {URLSearchParams} query  Of the address. */
  async load(query) {
    this.#query = query
    const { rest, signal } = this.#context
    /** @type {{ items: Claim[], next: string | null, total: number }} */
    const page = await rest.get(`v1/claims?${pageQuery(query, 'claims')}`, signal)
    if (signal.aborted || query !== this.#query) return
    const { items } = page
    part(this.#root, 'claim-rows').replaceChildren(...items.map((claim) => this.#row(claim)))
    keepRoles(this.#root)
    showPages(this.#root, {
      list: 'claims',
      query,
      page,
      names: items.map(({ sensor }) => sensor),
      words: ['claim key', 'claim keys'],
      none: 'None. Make one for a device that leaves before it can be given a key of its own.',
    })
  }

  /** @param {Claim} claim */
  #row({ id, name, sensor, expires, claimed }) {
    const isOver = expires !== null && expires <= Date.now()
    const waits =
      expires === null ? 'Not used yet.' : `Not used yet; good until ${printMoment(expires)}.`
    const unused = isOver ? `Expired ${printMoment(Number(expires))}, unused.` : waits
    const reset = sureButton(
      {
        text: 'Make good again',
        really: 'Really? The key of the device is taken back',
        label: `Make the claim key of ${sensor} good again`,
      },
      () => this.#do(() => this.#post(`v1/claims/${id}/reset`)),
    )
    const revoke = sureButton(
      { text: 'Revoke', really: 'Really revoke?', label: `Revoke the claim key of ${sensor}` },
      () => this.#do(() => this.#context.rest.remove(`v1/claims/${id}`, this.#context.signal)),
    )
    return element(
      'tr',
      {},
      element(
        'th',
        { scope: 'row' },
        element('a', { href: routeHash('sensors', {}, sensor) }, sensor),
        element('p', { class: 'note' }, name === sensor ? id : `${name}, ${id}`),
      ),
      element(
        'td',
        {},
        claimed === null ? unused : `A device got its key ${printMoment(claimed)}.`,
      ),
      element(
        'td',
        {},
        element('div', { class: 'buttons' }, ...(claimed === null ? [revoke] : [reset, revoke])),
      ),
    )
  }

  /** @param {string} path */
  async #post(path) {
    await this.#context.rest.open(path, { method: 'POST', signal: this.#context.signal })
  }

  /** @param {() => Promise<unknown>} action */
  #do(action) {
    this.#attempt(async () => {
      await action()
      await this.load(this.#query)
    })
  }

  /** @param {FormData} data */
  async #save(data) {
    const { rest, signal } = this.#context
    const sensor = String(data.get('sensor')).trim()
    const days = Number(data.get('days'))
    const expires = days > 0 ? { expires: Date.now() + days * DAY_MS } : {}
    const { claim } = await rest.send('POST', 'v1/claims', { sensor, ...expires }, signal)
    const about =
      'Give it to the device. With it, the device gets a key of its own, once, when it first starts.'
    return () => {
      this.#secret.show({ title: `The claim key of ${sensor}`, secret: claim, about })
      this.#attempt(() => this.load(this.#query))
    }
  }
}
