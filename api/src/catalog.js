/**
 * All sensors by name, in memory: what lists and searches are answered from.
 *
 * The table of sensors has no order but that of tokens and no index, and it is small: a list is
 * made from a copy of it, which is read anew when it is asked for and has grown old. How old it may
 * be follows from how long it takes to read, so that reading never takes more than a small share of
 * the time: a moment for a few sensors, some seconds for a hundred thousand.
 */

/** @typedef {import('./store.js').Sensor} Sensor */

/** A list is at least this old before it is read anew, in milliseconds. */
const AGE_MS_MIN = 250

/** The list may be this many times as old as it took to read. */
const AGE_PER_READ = 10

/**
 * What sensors are looked for; each part that is given must fit.
 *
 * @typedef {object} Filter
 * @property {string} [q]  A part of the name, in any case.
 * @property {string} [type]
 * @property {string[]} [tags]  `key:value`, or `key` with any value; all must fit.
 */

export class Catalog {
  #store
  #now
  /** Those not hidden, by name and then id. @type {Sensor[]} */
  #sensors = []
  #readAtMs = -Infinity
  #ageMsMax = AGE_MS_MIN
  /** @type {Promise<void> | undefined} */
  #reading

  /** @param {{ store: import('./store.js').Store, now?: () => number }} parts */
  constructor({ store, now = () => performance.now() }) {
    this.#store = store
    this.#now = now
  }

  /** The next list is read anew, because this process has changed a sensor. */
  expire() {
    this.#readAtMs = -Infinity
  }

  /**
   * A page of the sensors that fit, by name.
   *
   * @param {Filter} filter
   * @param {{ name: string, id: string } | undefined} after  The last sensor of the page before.
   * @param {number} limit
   * @returns {Promise<{ sensors: Sensor[], isLast: boolean }>}
   */
  async list(filter, after, limit) {
    if (this.#now() - this.#readAtMs > this.#ageMsMax) await this.#refresh()
    const fits = matcher(filter)
    const sensors = []
    for (let at = after ? this.#indexAfter(after) : 0; at < this.#sensors.length; at += 1) {
      if (!fits(this.#sensors[at])) continue
      if (sensors.length === limit) return { sensors, isLast: false }
      sensors.push(this.#sensors[at])
    }
    return { sensors, isLast: true }
  }

  async #refresh() {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    await this.#reading
  }

  async #read() {
    const startMs = this.#now()
    /** @type {Sensor[]} */
    const sensors = []
    for await (const some of this.#store.sensors()) {
      for (const sensor of some) if (!sensor.hidden) sensors.push(sensor)
    }
    this.#sensors = sensors.sort(compare)
    this.#readAtMs = startMs
    this.#ageMsMax = Math.max(AGE_MS_MIN, AGE_PER_READ * (this.#now() - startMs))
  }

  /** @param {{ name: string, id: string }} sensor */
  #indexAfter(sensor) {
    let low = 0
    let high = this.#sensors.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (compare(this.#sensors[middle], sensor) <= 0) low = middle + 1
      else high = middle
    }
    return low
  }
}

/**
 * @param {{ name: string, id: string }} a
 * @param {{ name: string, id: string }} b
 */
function compare(a, b) {
  if (a.name !== b.name) return a.name < b.name ? -1 : 1
  return a.id < b.id ? -1 : Number(a.id > b.id)
}

/** @param {Filter} filter  @returns {(sensor: Sensor) => boolean} */
function matcher({ q, type, tags = [] }) {
  const part = q?.toLowerCase()
  const pairs = tags.map((tag) => {
    const colon = tag.indexOf(':')
    return colon < 0 ? [tag] : [tag.slice(0, colon), tag.slice(colon + 1)]
  })
  return (sensor) =>
    (part === undefined || sensor.name.toLowerCase().includes(part)) &&
    (type === undefined || sensor.type === type) &&
    pairs.every(
      ([key, value]) =>
        Object.hasOwn(sensor.tags, key) && (value === undefined || sensor.tags[key] === value),
    )
}
