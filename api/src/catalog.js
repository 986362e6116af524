/**
 * All sensors by name, in memory: what lists and searches are answered from.
 *
 * The table of sensors has no order but that of tokens and no index, and it is small: a list is
 * made from a copy of it, which is read anew when it is asked for and has grown old. How old it may
 * be follows from how long it takes to read, so that reading never takes more than a small share of
 * the time: a moment for a few sensors, some seconds for a hundred thousand.
 */

/** @typedef {import('./store.js').Sensor} Sensor */
/** A sensor, and what it is ordered by. @typedef {Sensor & { key: string }} Listed */

/** A list is at least this old before it is read anew, in milliseconds. */
const AGE_MS_MIN = 250

/** The list may be this many times as old as it took to read. */
const AGE_PER_READ = 10

/** A list that takes longer to read is answered from once more while it is read anew. */
const READ_MS_AWAITED = 100

/** Any other is waited for so long, and then answered from with its age. */
const WAIT_MS = 250

export const SORTS = /** @type {const} */ (['name', 'type', 'heard'])

/**
 * What sensors are looked for, each part that is given must fit; and in which order.
 *
 * @typedef {object} Filter
 * @property {string} [q]  A part of the name, in any case.
 * @property {string} [type]
 * @property {string[]} [tags]  `key:value`, or `key` with any value; all must fit.
 * @property {number} [silentS]  Not heard of for so long, or never, in seconds.
 * @property {typeof SORTS[number]} [sort]  By name if nothing is said; what is the same, too.
 * @property {'asc' | 'desc'} [order]
 */

/** @typedef {{ sensors: Listed[], heard: Map<string, number> | undefined, sort: string,
 *   sorted: Listed[] }} Order */

/** Where a page ended: its last sensor. @typedef {{ name: string, id: string, by: By }} Position */
/** What else than the name orders it. @typedef {string | number} By */

export class Catalog {
  #now
  #clock
  #sensors
  #heard
  /** Since the list began to be read, by id. @type {Map<string, Sensor>} */
  #changes = new Map()
  /** The newest order that is not by name. @type {Order | undefined} */
  #order
  /**
   * Of the lists that there are.
   *
   * @type {WeakMap<Listed[], { heard: unknown, times: Float64Array }>}
   */
  #times = new WeakMap()

  /**
   * @param {object} parts
   * @param {Pick<import('./store.js').Store, 'sensors' | 'heardTimes'>} parts.store
   * @param {() => number} [parts.now]  Milliseconds, for ages.
   * @param {() => number} [parts.clock]  Milliseconds since the Unix epoch.
   */
  constructor({ store, now = () => performance.now(), clock = Date.now }) {
    this.#now = now
    this.#clock = clock
    this.#sensors = new Copy(() => this.#readSensors(store), { now, clock })
    this.#heard = new Copy(() => readHeard(store), { now, clock })
  }

  /** Reads all, so that whoever looks first need not wait. */
  async warm() {
    await this.#sensors.get()
    await this.#heard.get()
  }

  /**
   * This process has registered, changed or hidden a sensor: the list has it at once, and is not
   * read anew for it.
   *
   * @param {Sensor} sensor
   * @returns {Sensor}  The same.
   */
  changed(sensor) {
    this.#sensors.replace((sensors) => withSensor(sensors, sensor))
    // What is being read may have been read before.
    if (this.#sensors.isRead) this.#changes.set(sensor.id, sensor)
    return sensor
  }

  /** @param {Pick<import('./store.js').Store, 'sensors'>} store */
  async #readSensors(store) {
    this.#changes.clear()
    const sensors = await readSensors(store)
    return [...this.#changes.values()].reduce(withSensor, sensors)
  }

  /** The next list is read anew, because this process has changed sensors. */
  expire() {
    this.#sensors.expire()
    this.#heard.expire()
  }

  /**
   * A page of the sensors that fit.
   *
   * @param {Filter} filter
   * @param {Position | undefined} after  Where the page before ended.
   * @param {number} limit
   * @returns {Promise<{ sensors: Listed[], total: number, next: Position | undefined,
   *   asOfMs: number, positionOf: (one: Listed) => Position }>}  `next` where there are more;
   *   `total` of all pages; `asOfMs`: when what they follow from was read, in milliseconds since
   *   the Unix epoch.
   */
  async list(filter, after, limit) {
    const { sort = 'name', order = 'asc', silentS } = filter
    const needsHeard = sort === 'heard' || silentS !== undefined
    const [{ content: sensors, atMs }, heardCopy] = await Promise.all([
      this.#sensors.get(),
      needsHeard ? this.#heard.get() : undefined,
    ])
    const heard = heardCopy?.content
    const beforeMs = silentS === undefined ? Infinity : this.#clock() - silentS * 1_000
    const heardMs = (/** @type {Sensor} */ { id }) => heard?.get(id) ?? NEVER_MS
    const by = byOf(sort, heardMs)
    const all = sort === 'name' ? sensors : this.#sorted({ sensors, heard, sort }, by)
    const fits = isOpen(filter) ? () => true : matcher(filter)
    const times = silentS === undefined ? undefined : this.#timesOf(all, heard, heardMs)
    const found = times
      ? all.filter((one, at) => times[at] < beforeMs && fits(one))
      : isOpen(filter)
        ? all
        : all.filter(fits)
    const last = after && { ...after, key: naturalKey(after.name) }
    const page = pageOf(found, by, { last, limit, isDescending: order === 'desc' })
    /** @param {Listed} one  @returns {Position} */
    const positionOf = (one) => ({ name: one.name, id: one.id, by: by(one) })
    const end = page.isLast ? undefined : page.sensors[limit - 1]
    return {
      sensors: page.sensors,
      total: found.length,
      asOfMs: Math.min(atMs, heardCopy?.atMs ?? atMs),
      next: end && positionOf(end),
      positionOf,
    }
  }

  /**
   * The same as {@link sortBy}, with one look at each in the map, also for who filters it later.
   *
   * @param {Listed[]} sensors  By name.
   * @param {Map<string, number> | undefined} heard
   * @param {(one: Listed) => By} heardMs
   */
  #byHeard(sensors, heard, heardMs) {
    const times = this.#timesOf(sensors, heard, (one) => Number(heardMs(one)))
    const places = Uint32Array.from(sensors, (_, at) => at)
    places.sort((a, b) => times[a] - times[b] || a - b)
    const sorted = Array.from(places, (at) => sensors[at])
    this.#times.set(sorted, { heard, times: Float64Array.from(places, (at) => times[at]) })
    return sorted
  }

  /**
   * When each of a list was heard of, kept for as long as what it follows from: a look at each in a
   * map takes a hundred times as long.
   *
   * @param {Listed[]} list
   * @param {Map<string, number> | undefined} heard
   * @param {(one: Listed) => number} heardMs
   */
  #timesOf(list, heard, heardMs) {
    const kept = this.#times.get(list)
    if (kept && kept.heard === heard) return kept.times
    const times = Float64Array.from(list, heardMs)
    this.#times.set(list, { heard, times })
    return times
  }

  /**
   * All sensors in another order, which is kept for as long as what it follows from.
   *
   * @param {Omit<Order, 'sorted'>} from
   * @param {(one: Listed) => By} by
   */
  #sorted({ sensors, heard, sort }, by) {
    const kept = this.#order
    if (kept?.sensors === sensors && kept.heard === heard && kept.sort === sort) return kept.sorted
    const sorted = sort === 'heard' ? this.#byHeard(sensors, heard, by) : sortBy(sensors, by)
    this.#order = { sensors, heard, sort, sorted }
    return sorted
  }
}

/** When a sensor was heard of that never was. */
const NEVER_MS = -1

/**
 * Waits for something for a moment only.
 *
 * @param {Promise<unknown>} work
 * @throws {Error}  As it fails.
 */
async function soon(work) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer
  const over = new Promise((resolve) => {
    timer = setTimeout(resolve, WAIT_MS)
  })
  try {
    await Promise.race([work, over])
  } finally {
    clearTimeout(timer)
  }
}

/** @template T  @typedef {{ content: T, atMs: number }} Content */

/**
 * What was read of the database last; read anew when it is asked for and has grown old.
 *
 * @template T
 */
class Copy {
  #read
  #now
  #clock
  /** What was read, and when, since the Unix epoch. @type {Content<T> | undefined} */
  #content
  #readAtMs = -Infinity
  #readMs = 0
  #isExpired = true
  /** @type {Promise<Content<T>> | undefined} */
  #reading

  /**
   * @param {() => Promise<T>} read
   * @param {{ now: () => number, clock: () => number }} clocks
   */
  constructor(read, { now, clock }) {
    this.#read = read
    this.#now = now
    this.#clock = clock
  }

  /** Whether it is being read. */
  get isRead() {
    return this.#reading !== undefined
  }

  expire() {
    this.#isExpired = true
  }

  /** Changes what was read last. @param {(content: T) => T} change */
  replace(change) {
    if (!this.#content) return
    this.#content = { ...this.#content, content: change(this.#content.content) }
  }

  /** @returns {Promise<Content<T>>} */
  async get() {
    const ageMsMax = Math.max(AGE_MS_MIN, AGE_PER_READ * this.#readMs)
    const ageMs = this.#now() - this.#readAtMs
    if (this.#content !== undefined && !this.#isExpired && ageMs <= ageMsMax) return this.#content
    const reading = this.#refresh()
    if (this.#content === undefined || this.#isExpired) return reading
    // Whoever needs it again hears then that the database is away.
    reading.catch(() => {})
    const isGood = this.#readMs >= READ_MS_AWAITED && ageMs <= 2 * ageMsMax
    // One that was read in a moment may be of many sensors by now.
    if (!isGood) await soon(reading)
    return /** @type {Content<T>} */ (this.#content)
  }

  #refresh() {
    this.#reading ??= this.#readAnew().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #readAnew() {
    const startMs = this.#now()
    const atMs = this.#clock()
    const wasExpired = this.#isExpired
    this.#isExpired = false
    try {
      this.#content = { content: await this.#read(), atMs }
    } catch (error) {
      this.#isExpired ||= wasExpired
      throw error
    }
    this.#readAtMs = startMs
    this.#readMs = this.#now() - startMs
    return this.#content
  }
}

/**
 * The list with a sensor as it is now.
 *
 * @param {Listed[]} sensors
 * @param {Sensor} sensor
 */
function withSensor(sensors, sensor) {
  const others = sensors.filter(({ id }) => id !== sensor.id)
  if (sensor.hidden) return others
  const listed = { ...sensor, key: naturalKey(sensor.name) }
  const at = others.findIndex((one) => compare(one, listed) > 0)
  others.splice(at < 0 ? others.length : at, 0, listed)
  return others
}

/** Those not hidden, by name. @param {Pick<import('./store.js').Store, 'sensors'>} store */
async function readSensors(store) {
  /** @type {Listed[]} */
  const sensors = []
  for await (const some of store.sensors()) {
    for (const sensor of some) {
      if (!sensor.hidden) sensors.push({ ...sensor, key: naturalKey(sensor.name) })
    }
  }
  return sortInPieces(sensors, compare)
}

/** So many are sorted before others have their turn. */
const PIECE = 8_192

/**
 * Sorts without keeping others waiting for long.
 *
 * @template T
 * @param {T[]} items
 * @param {(a: T, b: T) => number} order
 * @returns {Promise<T[]>}
 */
export async function sortInPieces(items, order) {
  const pieces = []
  for (let at = 0; at < items.length; at += PIECE) {
    pieces.push(items.slice(at, at + PIECE).sort(order))
    await new Promise(setImmediate)
  }
  // What is sorted in runs is merged in a time that grows with its length alone.
  return pieces.flat().sort(order)
}

/** When each was heard of last. @param {Pick<import('./store.js').Store, 'heardTimes'>} store */
async function readHeard(store) {
  /** @type {Map<string, number>} */
  const heard = new Map()
  for await (const some of store.heardTimes()) {
    for (const { id, t } of some) if (t > (heard.get(id) ?? NEVER_MS)) heard.set(id, t)
  }
  return heard
}

/**
 * What puts names into the order in which people have them: `unit-2` before `unit-10`, in any case.
 * Digits are led by how many there are.
 *
 * @param {string} name
 */
export function naturalKey(name) {
  return name.toLowerCase().replaceAll(/0*(\d+)/g, (_, digits) => {
    return `0${String.fromCharCode(digits.length)}${digits}`
  })
}

/** @typedef {Pick<Listed, 'key' | 'name' | 'id'>} Place */

/** By name. @param {Place} a  @param {Place} b */
function compare(a, b) {
  if (a.key !== b.key) return a.key < b.key ? -1 : 1
  if (a.name !== b.name) return a.name < b.name ? -1 : 1
  return a.id < b.id ? -1 : Number(a.id > b.id)
}

/**
 * @param {typeof SORTS[number]} sort
 * @param {(sensor: Sensor) => number} heardMs
 * @returns {(sensor: Listed) => By}
 */
function byOf(sort, heardMs) {
  if (sort === 'heard') return heardMs
  return sort === 'type' ? ({ type }) => type ?? '' : () => ''
}

/**
 * Those of which it is the same are by name already.
 *
 * @param {Listed[]} sensors
 * @param {(one: Listed) => By} by
 */
function sortBy(sensors, by) {
  return sensors
    .map((sensor) => ({ sensor, by: by(sensor) }))
    .sort((a, b) => (a.by < b.by ? -1 : Number(a.by > b.by)))
    .map(({ sensor }) => sensor)
}

/**
 * @param {Listed[]} sorted
 * @param {(one: Listed) => By} by
 * @param {{ last: (Position & Place) | undefined, limit: number, isDescending: boolean }} page
 */
function pageOf(sorted, by, { last, limit, isDescending }) {
  /** How many are before the last one, and with it. */
  const beforeLast = (/** @type {boolean} */ isIncluded) => {
    if (!last) return 0
    let low = 0
    let high = sorted.length
    while (low < high) {
      const middle = (low + high) >> 1
      const own = by(sorted[middle])
      const order = own === last.by ? compare(sorted[middle], last) : own < last.by ? -1 : 1
      if (order < 0 || (isIncluded && order === 0)) low = middle + 1
      else high = middle
    }
    return low
  }
  if (isDescending) {
    const end = last ? beforeLast(false) : sorted.length
    const sensors = sorted.slice(Math.max(0, end - limit), end).reverse()
    return { sensors, isLast: end <= limit }
  }
  const start = beforeLast(true)
  return { sensors: sorted.slice(start, start + limit), isLast: start + limit >= sorted.length }
}

/** Whether all fit, whenever they were heard of. @param {Filter} filter */
function isOpen({ q, type, tags }) {
  return [q, type, tags].every((one) => one === undefined)
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
