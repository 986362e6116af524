/** The chosen sensor: its charts, filled with what was and kept up with what comes. */

import { MetricCard } from './chart.js'
import { get, measurementsSince, sensorPath } from './rest.js'

/** Most points of one view; a longer time shows its newest part. */
const ITEMS_MAX = 60_000

/** Most charts; a sensor with more metrics shows the first. */
const CHARTS_MAX = 24

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id))

export class SensorView {
  /** @type {Map<string, MetricCard>} */
  #cards = new Map()
  /** @type {EventSource | undefined} */
  #stream
  #spanS = 300
  /** @type {{ name: string, type: string | null, unit: string | null } | undefined} */
  #sensor
  /** Counts choices, so that an answer to an older one is dropped. */
  #choice = 0
  #onState

  /** @param {(state: { stream?: boolean, database?: string }) => void} onState */
  constructor(onState) {
    this.#onState = onState
    setInterval(() => this.draw(), 250)
    new ResizeObserver(() => this.#each((card) => card.resize())).observe(byId('metrics'))
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
      this.#each((card) => card.recolor()),
    )
  }

  /** @param {(card: MetricCard) => void} action */
  #each(action) {
    for (const card of this.#cards.values()) action(card)
  }

  draw() {
    if (document.hidden) return
    const nowMs = Date.now()
    this.#each((card) => card.draw(nowMs))
  }

  /** @param {number} spanS  Seconds shown. */
  async setSpan(spanS) {
    this.#spanS = spanS
    if (this.#sensor) await this.show(this.#sensor)
  }

  /** @param {{ name: string, type: string | null, unit: string | null }} sensor */
  async show(sensor) {
    const choice = ++this.#choice
    const isWanted = () => choice === this.#choice
    this.#sensor = sensor
    this.#stream?.close()
    this.#each((card) => card.destroy())
    this.#cards.clear()
    byId('sensor-title').textContent = sensor.name
    byId('sensor-about').textContent = sensor.type ?? ''
    this.#note('Loading…')

    const fromMs = Date.now() - this.#spanS * 1000
    this.#listen(sensor.name)
    const [latest, items] = await Promise.all([
      get(`${sensorPath(sensor.name)}/latest`),
      measurementsSince(sensor.name, fromMs, ITEMS_MAX, isWanted),
    ])
    if (!isWanted()) return
    for (const item of latest.items) this.#card(item.metric)?.add([item])
    /** @type {Map<string, any[]>} */
    const byMetric = new Map()
    for (const item of items) {
      const list = byMetric.get(item.metric)
      if (list) list.push(item)
      else byMetric.set(item.metric, [item])
    }
    for (const [metric, list] of byMetric) this.#card(metric)?.add(list)
    this.#note(this.#cards.size > 0 ? '' : 'This sensor has not sent anything yet.')
    this.draw()
  }

  /** @param {string} name */
  #listen(name) {
    const stream = new EventSource(`v1/stream?sensor=${encodeURIComponent(name)}`)
    this.#stream = stream
    stream.addEventListener('open', () => this.#onState({ stream: true }))
    stream.addEventListener('error', () => this.#onState({ stream: false }))
    stream.addEventListener('status', (event) => this.#onState(JSON.parse(event.data)))
    stream.addEventListener('measurement', (event) => {
      const item = JSON.parse(event.data)
      this.#card(item.metric)?.add([item])
      this.#note('')
    })
  }

  /** @param {string} metric */
  #card(metric) {
    let card = this.#cards.get(metric)
    if (!card && this.#cards.size < CHARTS_MAX) {
      card = new MetricCard(metric, this.#sensor?.unit ?? null)
      card.spanS = this.#spanS
      this.#cards.set(metric, card)
      const after = [...this.#cards.keys()].sort().find((other) => other > metric)
      const next = after === undefined ? undefined : this.#cards.get(after)
      byId('metrics').insertBefore(card.element, next?.element ?? null)
    }
    return card
  }

  /** @param {string} text */
  #note(text) {
    const note = byId('metrics-note')
    note.textContent = text
    note.hidden = text === ''
  }
}
