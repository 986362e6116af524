/**
 * Answers of the database that are asked for again and again, limited in bytes and in age: those
 * used last stay. Who asks for the same meanwhile gets the same answer.
 */

/** What an entry costs besides its key and value, in bytes. */
const ENTRY_BYTES = 300

/**
 * @template T
 */
export class Cache {
  #bytesMax
  #ageMsMax
  #sizeOf
  #now
  /** Those used last are last. @type {Map<string, { value: T, bytes: number, untilMs: number }>} */
  #entries = new Map()
  #bytes = 0
  /** @type {Map<string, Promise<T>>} */
  #loading = new Map()

  /**
   * @param {object} limits
   * @param {number} limits.bytesMax
   * @param {number} limits.ageMsMax
   * @param {(value: T) => number} limits.sizeOf  In bytes.
   * @param {() => number} [limits.now]  A clock that only goes forward, in milliseconds.
   */
  constructor({ bytesMax, ageMsMax, sizeOf, now = () => performance.now() }) {
    this.#bytesMax = bytesMax
    this.#ageMsMax = ageMsMax
    this.#sizeOf = sizeOf
    this.#now = now
  }

  /** What is held, in bytes. */
  get bytes() {
    return this.#bytes
  }

  /** Forgets everything, also what is being loaded: it has changed. */
  clear() {
    this.#entries.clear()
    this.#bytes = 0
    this.#loading.clear()
  }

  /**
   * @param {string} key
   * @param {() => Promise<T>} load
   * @returns {Promise<T> | T}
   */
  get(key, load) {
    const entry = this.#entries.get(key)
    if (entry !== undefined && entry.untilMs > this.#now()) {
      this.#entries.delete(key)
      this.#entries.set(key, entry)
      return entry.value
    }
    return this.#loading.get(key) ?? this.#load(key, load)
  }

  /** @param {string} key  @param {() => Promise<T>} load */
  #load(key, load) {
    const untilMs = this.#now() + this.#ageMsMax
    const loading = load()
      .then((value) => {
        // After a `clear` it may be what was before.
        if (this.#loading.get(key) === loading) this.#put(key, value, untilMs)
        return value
      })
      .finally(() => {
        if (this.#loading.get(key) === loading) this.#loading.delete(key)
      })
    this.#loading.set(key, loading)
    return loading
  }

  /** @param {string} key  @param {T} value  @param {number} untilMs */
  #put(key, value, untilMs) {
    this.#drop(key)
    const bytes = ENTRY_BYTES + 2 * key.length + this.#sizeOf(value)
    this.#entries.set(key, { value, bytes, untilMs })
    this.#bytes += bytes
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#bytesMax) return
      this.#drop(oldest)
    }
  }

  /** @param {string} key */
  #drop(key) {
    this.#bytes -= this.#entries.get(key)?.bytes ?? 0
    this.#entries.delete(key)
  }
}
