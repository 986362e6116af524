/**
 * How many keys that nobody knows may be looked up: each one is a read of the database, and whoever
 * makes keys up can send any number of them. Token buckets, one for each source address and one for
 * all together; a look-up that finds a key gives its token back, so only failures are limited.
 */

/** Failed look-ups of one source: at once, and a second. Many devices may share an address. */
const SOURCE = { burst: 200, perS: 20 }

/** Failed look-ups of all sources together: what a database does not notice. */
const TOTAL = { burst: 1_000, perS: 200 }

/** Sources that are remembered; whoever has more addresses meets the limit of all together. */
const SOURCES_MAX = 10_000

/** Groups of an IPv6 address that name a network: one host has all addresses of a /64. */
const NETWORK_GROUPS = 4

class TokenBucket {
  #tokens
  #burst
  #perMs
  #filledMs

  /** @param {{ burst: number, perS: number }} size  @param {number} nowMs */
  constructor({ burst, perS }, nowMs) {
    this.#tokens = burst
    this.#burst = burst
    this.#perMs = perS / 1_000
    this.#filledMs = nowMs
  }

  /** @param {number} nowMs */
  has(nowMs) {
    this.#tokens = Math.min(this.#burst, this.#tokens + (nowMs - this.#filledMs) * this.#perMs)
    this.#filledMs = nowMs
    return this.#tokens >= 1
  }

  take() {
    this.#tokens -= 1
  }

  giveBack() {
    this.#tokens = Math.min(this.#burst, this.#tokens + 1)
  }
}

export class LookupBudget {
  #total
  /** By source, the longest unused first. @type {Map<string, TokenBucket>} */
  #sources = new Map()

  /** @param {number} nowMs  Of a clock that never goes back. */
  constructor(nowMs) {
    this.#total = new TokenBucket(TOTAL, nowMs)
  }

  /**
   * Takes a token for one look-up.
   *
   * @param {string} address  Who asks for it.
   * @param {number} nowMs
   * @returns {(() => void) | undefined}  Gives the token back; undefined where there is none.
   */
  take(address, nowMs) {
    const source = this.#source(networkOf(address), nowMs)
    if (!source.has(nowMs) || !this.#total.has(nowMs)) return undefined
    for (const bucket of [source, this.#total]) bucket.take()
    return () => {
      for (const bucket of [source, this.#total]) bucket.giveBack()
    }
  }

  /** @param {string} network  @param {number} nowMs */
  #source(network, nowMs) {
    const bucket = this.#sources.get(network) ?? new TokenBucket(SOURCE, nowMs)
    this.#sources.delete(network)
    this.#sources.set(network, bucket)
    if (this.#sources.size > SOURCES_MAX) {
      const [oldest] = this.#sources.keys()
      this.#sources.delete(oldest)
    }
    return bucket
  }
}

/**
 * What one host can have for an address: an IPv4 address, or the network of an IPv6 address.
 *
 * @param {string} address
 */
function networkOf(address) {
  const [, mapped] = /^::ffff:([\d.]+)$/i.exec(address) ?? []
  if (mapped || !address.includes(':')) return mapped ?? address
  const [head, tail] = address.split('::').map((part) => part.split(':').filter(Boolean))
  const zeros = tail ? Array(Math.max(0, 8 - head.length - tail.length)).fill('0') : []
  return [...head, ...zeros, ...(tail ?? [])].slice(0, NETWORK_GROUPS).join(':')
}
