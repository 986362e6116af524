/** A saved dashboard: several charts over one time, opened and shared by its address. */

import { AnyChart } from './any-chart.js'
import { changedDashboard, dashboardPath } from './chart-save.js'
import { element, fromTemplate, part, setText } from './dom.js'
import { isChosen, rangeQuery, readRange, refreshMs, SPANS } from './range.js'
import { attempts, repeat } from './repeat.js'
import { routeHash } from './route.js'
import { seriesText } from './series-chart.js'

/** @typedef {import('./chart-save.js').Dashboard} Dashboard */
/** @typedef {import('./chart-save.js').Chart} Chart */

export class DashboardView {
  element = fromTemplate('dashboard')
  #context
  #id
  #attempt
  #query = new URLSearchParams()
  /** @type {Dashboard | undefined} */
  #dashboard
  /** @type {{ chart: AnyChart, saved: Chart }[]} */
  #charts = []
  /** Ends what draws the charts that are shown now. */
  #drawing = new AbortController()
  #asked = 0

  /** @param {import('./page.js').Context} context  @param {string} id */
  constructor(context, id) {
    this.#context = context
    this.#id = id
    const { element: root } = this
    this.#attempt = attempts(context, part(root, 'error'))
    context.signal.addEventListener('abort', () => this.#drawing.abort())
    this.#listenToRename()
    this.#listenToRemove()
    const load = async () => {
      if (!this.#dashboard) this.#show(await context.rest.get(dashboardPath(id), context.signal))
      await this.#draw()
    }
    const again = async () => {
      if (!this.#dashboard || this.#range().span) await load()
    }
    const fail = (/** @type {import('./rest.js').RestError} */ error) => {
      context.report(error)
      setText(part(root, 'note'), error.message)
    }
    void repeat(again, () => refreshMs(this.#range()), context.signal, fail)
  }

  #listenToRename() {
    const { element: root } = this
    const dialog = /** @type {HTMLDialogElement} */ (part(root, 'rename-dialog'))
    const form = /** @type {HTMLFormElement} */ (part(root, 'rename-form'))
    const field = /** @type {HTMLInputElement} */ (form.elements.namedItem('name'))
    part(root, 'rename').addEventListener('click', () => {
      field.value = this.#dashboard?.name ?? ''
      dialog.showModal()
    })
    part(root, 'rename-cancel').addEventListener('click', () => dialog.close())
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      dialog.close()
      this.#change({ name: field.value.trim() })
    })
  }

  /** Asks once more before it is deleted. */
  #listenToRemove() {
    const { rest, signal } = this.#context
    const button = part(this.element, 'remove')
    button.addEventListener('click', () => {
      if (button.dataset.asked === undefined) {
        button.dataset.asked = ''
        setText(button, 'Really delete?')
        return
      }
      this.#attempt(async () => {
        await rest.remove(dashboardPath(this.#id), signal)
        location.hash = routeHash('charts')
      })
    })
    button.addEventListener('blur', () => {
      delete button.dataset.asked
      setText(button, 'Delete')
    })
  }

  /** @param {Partial<Dashboard>} change */
  #change(change) {
    const { rest, signal } = this.#context
    setText(part(this.element, 'error'), '')
    this.#attempt(async () => {
      const before = this.#dashboard
      if (!before) return
      const body = changedDashboard(before, change)
      this.#show(await rest.send('PUT', dashboardPath(this.#id), body, signal))
      await this.#draw()
    })
  }

  #range() {
    const saved = new URLSearchParams({ range: this.#dashboard?.range ?? '1h' })
    return readRange(isChosen(this.#query) ? this.#query : saved, Date.now())
  }

  /** @param {URLSearchParams} query */
  show(query) {
    this.#query = query
    if (this.#dashboard) this.#attempt(() => this.#draw())
  }

  /** @param {Dashboard} dashboard */
  #show(dashboard) {
    this.#dashboard = dashboard
    const { name, charts } = dashboard
    setText(part(this.element, 'name'), name)
    document.title = `${name} · Sandglass`
    const some = charts.length === 1 ? '1 chart' : `${charts.length} charts`
    setText(part(this.element, 'note'), charts.length > 0 ? `${some}.` : '')
    part(this.element, 'hint').hidden = charts.length > 0
    this.#drawing.abort()
    this.#drawing = new AbortController()
    this.#charts = []
    part(this.element, 'charts').replaceChildren(
      ...charts.map((saved, index) => this.#panel(saved, index)),
    )
  }

  /** @param {Chart} saved  @param {number} index */
  #panel(saved, index) {
    const panel = fromTemplate('dashboard-chart')
    const names = saved.series.map(({ sensor, metric }) => `${metric} of ${sensor}`)
    const title = saved.title || names.join(', ')
    setText(part(panel, 'title'), title)
    panel.setAttribute('aria-label', title)
    const signal = AbortSignal.any([this.#context.signal, this.#drawing.signal])
    const onZoom = (/** @type {{ fromMs: number, toMs: number }} */ range) => {
      location.hash = this.#hash(rangeQuery({ span: undefined, ...range }))
    }
    this.#charts.push({
      chart: new AnyChart({ ...this.#context, signal }, panel, onZoom),
      saved,
    })
    const up = /** @type {HTMLButtonElement} */ (part(panel, 'up'))
    up.disabled = index === 0
    up.setAttribute('aria-label', `Move up ${title}`)
    up.addEventListener('click', () => {
      const charts = [...(this.#dashboard?.charts ?? [])]
      charts.splice(index - 1, 2, charts[index], charts[index - 1])
      this.#change({ charts })
    })
    const out = part(panel, 'take-out')
    out.setAttribute('aria-label', `Remove ${title}`)
    out.addEventListener('click', () => {
      this.#change({ charts: (this.#dashboard?.charts ?? []).filter((_, at) => at !== index) })
    })
    part(panel, 'open').setAttribute('aria-label', `Open ${title}`)
    return panel
  }

  /** @param {Record<string, string>} query */
  #hash(query) {
    return routeHash('dashboards', query, this.#id)
  }

  /** All charts as they are now. */
  async #draw() {
    const asked = ++this.#asked
    const { signal } = this.#drawing
    const range = this.#range()
    part(this.element, 'ranges').replaceChildren(
      ...[...SPANS].map(([span, { text }]) => {
        const isHere = span === range.span ? 'true' : undefined
        return element('a', { href: this.#hash({ range: span }), 'aria-current': isHere }, text)
      }),
    )
    const links = this.element.querySelectorAll('[data-part="open"]')
    for (const [index, { saved }] of this.#charts.entries()) {
      const query = { series: saved.series.map(seriesText), ...rangeQuery(range) }
      links[index].setAttribute('href', routeHash('charts', query))
    }
    const isWanted = () => asked === this.#asked && !signal.aborted
    try {
      await Promise.all(
        this.#charts.map(({ chart, saved }) => chart.show(saved.series, range, isWanted)),
      )
    } catch (error) {
      // Charts that are not shown any more were let go.
      if (!signal.aborted) throw error
    }
  }
}
