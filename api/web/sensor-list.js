/** The list of sensors: searched by name, chosen by click or key, kept in the address. */

import { get } from './rest.js'

/** Sensors of one page of the list. */
const PAGE = 200

/** @typedef {{ id: string, name: string, type: string | null, unit: string | null }} Sensor */

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id))

export class SensorList {
  /** @type {Sensor[]} */
  #sensors = []
  /** @type {string | null} */
  #next = null
  #pages = 1
  /** @type {string | undefined} */
  #chosen
  #shown = ''
  #search = /** @type {HTMLInputElement} */ (byId('search'))
  #onChoice

  /** @param {(sensor: Sensor) => void} onChoice */
  constructor(onChoice) {
    this.#onChoice = onChoice
    this.#chosen = decodeURIComponent(location.hash.slice(1)) || undefined
    let timer = 0
    this.#search.addEventListener('input', () => {
      clearTimeout(timer)
      this.#pages = 1
      timer = window.setTimeout(() => void this.refresh().catch(() => {}), 150)
    })
    byId('more').addEventListener('click', () => {
      this.#pages += 1
      void this.refresh().catch(() => {})
    })
  }

  /** Reads the list again, as far as it is shown. */
  async refresh() {
    const q = this.#search.value.trim()
    const filter = q ? `&q=${encodeURIComponent(q)}` : ''
    /** @type {Sensor[]} */
    const sensors = []
    let cursor = ''
    for (let page = 0; page < this.#pages; page += 1) {
      const answer = await get(`v1/sensors?limit=${PAGE}${filter}${cursor}`)
      sensors.push(...answer.items)
      this.#next = answer.next
      if (!answer.next) break
      cursor = `&cursor=${answer.next}`
    }
    if (q !== this.#search.value.trim()) return
    this.#sensors = sensors
    this.#render(q)
    if (q === '') await this.#chooseFirst()
  }

  /** Something is shown as soon as there is something to show. */
  async #chooseFirst() {
    if (this.#shown || this.#sensors.length === 0) return
    const chosen =
      this.#sensors.find(({ name }) => name === this.#chosen) ??
      (this.#chosen && (await get(`v1/sensors/${encodeURIComponent(this.#chosen)}`).catch(() => 0)))
    this.#choose(chosen || this.#sensors[0])
  }

  /** @param {Sensor} sensor */
  #choose(sensor) {
    this.#shown = sensor.id
    history.replaceState(null, '', `#${encodeURIComponent(sensor.name)}`)
    this.#mark()
    this.#onChoice(sensor)
  }

  #mark() {
    for (const button of byId('sensors').querySelectorAll('button')) {
      button.setAttribute('aria-current', String(button.dataset.id === this.#shown))
    }
  }

  /** @param {string} q */
  #render(q) {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.id
    byId('sensors').replaceChildren(
      ...this.#sensors.map((sensor) => {
        const button = document.createElement('button')
        button.type = 'button'
        button.dataset.id = sensor.id
        button.textContent = sensor.name
        button.addEventListener('click', () => this.#choose(sensor))
        const item = document.createElement('li')
        item.append(button)
        return item
      }),
    )
    this.#mark()
    if (focused) {
      /** @type {HTMLElement | null} */
      const again = byId('sensors').querySelector(`[data-id="${CSS.escape(focused)}"]`)
      again?.focus()
    }
    byId('more').hidden = !this.#next
    const none = q ? `No sensor's name contains “${q}”.` : 'None yet.'
    byId('sensors-note').textContent = this.#sensors.length === 0 ? none : ''
  }
}
