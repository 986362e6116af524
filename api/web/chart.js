/** One metric: its newest value, and a chart that goes with the time. */

/** Most points that a chart keeps; of more, the oldest go. */
const POINTS_MAX = 100_000

const HEIGHT_PX = 150

/** @typedef {{ t: number, seq?: number, v: unknown }} Item */

export class MetricCard {
  /** Seconds and values, oldest first. @type {[number[], (number | null)[]]} */
  #data = [[], []]
  /** @type {any} */
  #plot
  #newestMs = -Infinity
  #value
  #age
  #box
  #isDue = false

  /** @param {string} metric  @param {string | null} unit */
  constructor(metric, unit) {
    this.metric = metric
    this.unit = unit
    this.spanS = 300
    this.element = document.createElement('article')
    this.element.className = 'metric'
    const title = document.createElement('h3')
    title.textContent = metric
    const now = document.createElement('p')
    now.className = 'now'
    this.#value = document.createElement('span')
    this.#age = document.createElement('small')
    now.append(this.#value, this.#age)
    this.#box = document.createElement('div')
    this.#box.className = 'chart'
    this.#box.setAttribute('role', 'img')
    this.#box.setAttribute('aria-label', `Chart of ${metric}`)
    this.element.append(title, now, this.#box)
  }

  /** @param {Item[]} items  Oldest first. */
  add(items) {
    const [times, values] = this.#data
    for (const { t, seq = 0, v } of items) {
      if (t >= this.#newestMs) this.#show(t, v)
      // The seq tells values of one millisecond apart, well below what is seen.
      const second = t / 1000 + seq / 1e6
      const at =
        times.length === 0 || second > times[times.length - 1] ? times.length : find(times, second)
      if (times[at] === second) continue
      times.splice(at, 0, second)
      values.splice(at, 0, asNumber(v))
    }
    if (times.length > POINTS_MAX) {
      times.splice(0, times.length - POINTS_MAX)
      values.splice(0, values.length - POINTS_MAX)
    }
    this.#isDue = true
  }

  /** @param {number} t  @param {unknown} v */
  #show(t, v) {
    this.#newestMs = t
    this.#value.textContent = print(v) + (this.unit && typeof v === 'number' ? ` ${this.unit}` : '')
  }

  /** Draws what has come, and moves the time on. @param {number} nowMs */
  draw(nowMs) {
    this.#age.textContent = this.#newestMs > 0 ? age(nowMs - this.#newestMs) : ''
    if (!this.#plot) this.#create()
    if (this.#isDue) this.#plot.setData(this.#data, false)
    this.#isDue = false
    this.#plot.setScale('x', { min: nowMs / 1000 - this.spanS, max: nowMs / 1000 })
  }

  #create() {
    const css = getComputedStyle(document.documentElement)
    const color = (/** @type {string} */ name) => css.getPropertyValue(name).trim()
    const axis = {
      stroke: color('--soft'),
      grid: { stroke: color('--grid'), width: 1 },
      ticks: { show: false },
      font: '12px system-ui, sans-serif',
    }
    const { uPlot } = /** @type {any} */ (window)
    this.#plot = new uPlot(
      {
        width: this.#width(),
        height: HEIGHT_PX,
        cursor: { drag: { x: false, y: false }, sync: { key: 'sandglass' } },
        scales: { x: { time: true, auto: false }, y: { range: around } },
        axes: [
          { ...axis, space: 60, size: 28, values: clock },
          { ...axis, space: 28, size: 56 },
        ],
        series: [
          {},
          {
            stroke: color('--accent'),
            width: 1.75,
            fill: `${color('--accent')}1f`,
            points: { size: 5 },
          },
        ],
      },
      this.#data,
      this.#box,
    )
  }

  #width() {
    return Math.max(200, this.#box.clientWidth)
  }

  /** Fits the card's width. */
  resize() {
    this.#plot?.setSize({ width: this.#width(), height: HEIGHT_PX })
  }

  /** Takes the colours of the page anew. */
  recolor() {
    this.#plot?.destroy()
    this.#plot = undefined
    this.#isDue = true
  }

  destroy() {
    this.#plot?.destroy()
    this.element.remove()
  }
}

/** @param {any} _plot  @param {number | null} min  @param {number | null} max */
function around(_plot, min, max) {
  if (min == null || max == null) return [0, 1]
  const margin = max > min ? (max - min) * 0.12 : Math.max(Math.abs(max) * 0.02, 0.5)
  return [min - margin, max + margin]
}

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
})

/** @param {any} _plot  @param {number[]} seconds */
function clock(_plot, seconds) {
  return seconds.map((second) => CLOCK.format(second * 1000))
}

/** Where a time is, or belongs. @param {number[]} times  @param {number} time */
function find(times, time) {
  let low = 0
  let high = times.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (times[middle] < time) low = middle + 1
    else high = middle
  }
  return low
}

/** What a chart can draw of a value. @param {unknown} v */
function asNumber(v) {
  if (typeof v === 'number') return v
  return typeof v === 'boolean' ? Number(v) : null
}

/** @param {unknown} v */
function print(v) {
  if (typeof v === 'number')
    return Number.isInteger(v) ? String(v) : String(Number(v.toPrecision(6)))
  if (typeof v === 'object' && v !== null && 'lat' in v && 'lon' in v) return `${v.lat}, ${v.lon}`
  return String(v)
}

/** @param {number} ms */
export function age(ms) {
  const seconds = Math.round(ms / 1000)
  if (seconds < 2) return 'now'
  if (seconds < 120) return `${seconds} s ago`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min ago`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h ago`
  return `${Math.round(seconds / 86_400)} days ago`
}
