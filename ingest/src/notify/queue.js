/**
 * What waits for receivers, as far as it is known: the order in which it is told, and what stays in
 * the table alone when it is too much. Receivers take turns, and so do the series of each, so that
 * a device that flaps delays its own alerts and no others. Bodies are not kept.
 */

/** Notifications that are known at once: about 16 MiB, at half a kilobyte each. */
export const WAITING_MAX = 32_768

/** @typedef {import('../rules/store.js').Notification} Notification */
/** @typedef {Pick<Notification, 'id' | 'createdMs' | 'change'> & { attempts: number }} Waiting */

/**
 * @typedef {object} Chain  What one receiver is to be told of one alert, one after another.
 * @property {string} receiverId
 * @property {string} alertId
 * @property {string} series
 * @property {number} shard
 * @property {number} createdMs
 * @property {Waiting[]} all  What began before what ended.
 */

/**
 * @typedef {object} Line  What waits for one receiver.
 * @property {Map<string, Chain>} chains  All, by alert.
 * @property {Map<string, Chain[]>} ready  Of each series the oldest first; the series that is next
 *   comes first.
 * @property {Map<Chain, number>} later  When they are due.
 */

/** Whose turn it is: all that one rule says of one sensor. */
/** @param {Pick<Notification, 'alertId' | 'body'>} notification */
export function seriesOf({ alertId, body }) {
  try {
    const { rule, sensor } = JSON.parse(body).data
    return `${rule.id} ${sensor.id}`
  } catch {
    return alertId
  }
}

/** What began before what ended. @param {Waiting} a  @param {Waiting} b */
function byChange(a, b) {
  return a.change < b.change ? -1 : 1
}

/** @param {Chain[]} chains  Oldest first.  @param {Chain} chain */
function insert(chains, chain) {
  let low = 0
  let high = chains.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (chains[middle].createdMs <= chain.createdMs) low = middle + 1
    else high = middle
  }
  chains.splice(low, 0, chain)
}

export class Queue {
  #max
  /** The receiver that is next comes first. @type {Map<string, Line>} */
  #lines = new Map()
  /** @type {Set<string>} */
  #ids = new Set()

  /** @param {number} [max]  Notifications. */
  constructor(max = WAITING_MAX) {
    this.#max = max
  }

  get size() {
    return this.#ids.size
  }

  /** When the oldest was created; undefined if none waits. */
  get oldestMs() {
    /** @type {number | undefined} */
    let oldestMs
    for (const { chains } of this.#lines.values()) {
      for (const { createdMs } of chains.values()) {
        if (oldestMs === undefined || createdMs < oldestMs) oldestMs = createdMs
      }
    }
    return oldestMs
  }

  /** @param {string} id */
  has(id) {
    return this.#ids.has(id)
  }

  /** Receivers that could be told something now, in turn. @returns {string[]} */
  get receivers() {
    return [...this.#lines].filter(([, { ready }]) => ready.size > 0).map(([id]) => id)
  }

  /**
   * @param {number} shard
   * @param {Notification} notification
   * @returns {boolean}  Whether it is known now; what is not stays in the table.
   */
  add(shard, { id, createdMs, change, receiverId, alertId, body }) {
    if (this.#ids.has(id)) return true
    const known = this.#lines.get(receiverId)?.chains.get(alertId)
    const series = known?.series ?? seriesOf({ alertId, body })
    // What ended an alert may come with what began it: that is one more at most of each.
    if (!known && this.size >= this.#max && !this.#makeRoom(receiverId, series)) return false
    const line = this.#lines.get(receiverId) ?? {
      chains: new Map(),
      ready: new Map(),
      later: new Map(),
    }
    this.#lines.set(receiverId, line)
    const chain = known ?? { receiverId, alertId, series, shard, createdMs, all: [] }
    chain.all.push({ id, createdMs, change, attempts: 0 })
    chain.all.sort(byChange)
    this.#ids.add(id)
    if (known) return true
    line.chains.set(alertId, chain)
    this.#makeReady(line, chain)
    return true
  }

  /**
   * Takes what a receiver is to be told next; it and its next series come last then.
   *
   * @param {string} receiverId
   * @returns {Chain | undefined}
   */
  take(receiverId) {
    const line = this.#lines.get(receiverId)
    const [first] = line?.ready ?? []
    if (!line || !first) return undefined
    const [series, chains] = first
    const chain = chains.shift()
    line.ready.delete(series)
    if (chains.length > 0) line.ready.set(series, chains)
    this.#lines.delete(receiverId)
    this.#lines.set(receiverId, line)
    return chain
  }

  /**
   * Gives back what was taken, if something of it is left.
   *
   * @param {Chain} chain
   * @param {number} [dueMs]  At once, if it is not said.
   */
  release(chain, dueMs) {
    const line = this.#lines.get(chain.receiverId)
    if (line?.chains.get(chain.alertId) !== chain) return
    if (chain.all.length === 0) this.#drop(line, chain)
    else if (dueMs === undefined) this.#makeReady(line, chain)
    else line.later.set(chain, dueMs)
  }

  /** Those that are due may be taken. @param {number} nowMs */
  wake(nowMs) {
    for (const line of this.#lines.values()) {
      for (const [chain, dueMs] of line.later) {
        if (dueMs > nowMs) continue
        line.later.delete(chain)
        this.#makeReady(line, chain)
      }
    }
  }

  /** It was told, or is not there any more. @param {Chain} chain  @param {Waiting} one */
  remove(chain, one) {
    this.#ids.delete(one.id)
    const index = chain.all.indexOf(one)
    if (index >= 0) chain.all.splice(index, 1)
  }

  /** Forgets what is of another process now. @param {number} shard */
  leave(shard) {
    for (const line of this.#lines.values()) {
      const isOurs = (/** @type {Chain} */ chain) => chain.shard !== shard
      for (const [series, chains] of line.ready) {
        const left = chains.filter(isOurs)
        if (left.length > 0) line.ready.set(series, left)
        else line.ready.delete(series)
      }
      for (const chain of line.chains.values()) if (!isOurs(chain)) this.#drop(line, chain)
    }
  }

  /** @param {Line} line  @param {Chain} chain */
  #makeReady({ ready }, chain) {
    const chains = ready.get(chain.series)
    if (chains) insert(chains, chain)
    else ready.set(chain.series, [chain])
  }

  /** @param {Line} line  @param {Chain} chain  That is not ready. */
  #drop(line, chain) {
    for (const { id } of chain.all) this.#ids.delete(id)
    line.later.delete(chain)
    line.chains.delete(chain.alertId)
    if (line.chains.size === 0) this.#lines.delete(chain.receiverId)
  }

  /**
   * Leaves the youngest of those that are most to the table, until there is room for them again.
   *
   * @param {string} receiverId
   * @param {string} series  Of one that comes.
   * @returns {boolean}  Whether it may come.
   */
  #makeRoom(receiverId, series) {
    const own = this.#lines.get(receiverId)
    if (!own || own.chains.size < this.#max / this.#lines.size) {
      const all = [...this.#lines.values()]
      return this.#shorten(all.reduce((a, b) => (b.chains.size > a.chains.size ? b : a)))
    }
    const { chains, ready, later } = own
    if (later.size * 2 > chains.size) return this.#shorten(own)
    const mean = (chains.size - later.size) / ready.size
    return (ready.get(series)?.length ?? 0) + 1 < mean && this.#shorten(own)
  }

  /**
   * Many at once, so that the longest is not looked for again with each that comes.
   *
   * @param {Line} line
   * @returns {boolean}  Whether something went.
   */
  #shorten(line) {
    const gone = mostOf(line)
    for (const chain of gone) this.#drop(line, chain)
    return gone.length > 0
  }
}

/**
 * Takes out of a line what it has too much of: half of what was refused, or the younger half of the
 * longest series, or half of the series if each has one.
 *
 * @param {Line} line
 */
function mostOf({ chains, ready, later }) {
  if (later.size * 2 > chains.size) return [...later.keys()].slice(later.size >>> 1)
  const all = [...ready.values()]
  if (all.length === 0) return []
  const longest = all.reduce((a, b) => (b.length > a.length ? b : a))
  if (longest.length > 1) return longest.splice(longest.length >>> 1)
  const gone = all.flat().slice(all.length >>> 1)
  for (const { series } of gone) ready.delete(series)
  return gone
}
