/**
 * The keys there are. What the database said is believed for a while, and for longer while it is
 * away: devices must be able to come back when it is their messages that wait for it.
 */

import { createKey, isSecret, parseKey } from './keys.js'
import { LookupBudget } from './lookup-budget.js'
import { allRows } from './rows.js'

/**
 * How long what the database said of a key is believed, in milliseconds: a second less than the ten
 * within which a key that is revoked ends what lasts, as that looks now and then.
 */
export const KEY_BELIEVED_MS = 9_000

/** How long a key that there was is believed in while the database is away, in milliseconds. */
export const KEY_BELIEVED_AWAY_MS = 24 * 3_600_000

/** Keys that are remembered: more than there are connections. */
const KNOWN_MAX = 20_000

/** Keys of which it is remembered that there are none. They never take the place of a known one. */
const UNKNOWN_MAX = 4_000

/** How often the log has an address that tries keys, in milliseconds. */
const WARN_MS = 60_000

/** @typedef {import('./keys.js').Grant} Grant */
/** @typedef {{ hash: Buffer, grant: Grant, readMs: number }} Known */

/**
 * One of a list. Every device may have a key, and few are shown at a time: what it may do is told
 * of those only.
 *
 * @typedef {{ keyId: string, name: string, grant: () => Grant }} Listed
 */

/** Thrown where the database cannot say whether there is such a key. */
export class KeysAway extends Error {
  name = 'KeysAway'
}

/** Thrown where too many keys were asked for that there are not: this one was not looked up. */
export class TooManyUnknownKeys extends Error {
  name = 'TooManyUnknownKeys'
}

/**
 * What the store asks of a database.
 *
 * @typedef {object} KeyDatabase
 * @property {string} keyspace
 * @property {boolean} isUp
 * @property {{ execute: (query: string, params: any[], options: object) =>
 *   Promise<{ rows: any[] }> }} client
 */

export class KeyStore {
  #database
  #now
  #monotonicMs
  #budget
  /** By id, the longest unread first. @type {Map<string, Known>} */
  #known = new Map()
  /** When the database said that there is no such key, by id, the oldest first. */
  #unknown = /** @type {Map<string, number>} */ (new Map())
  /** Look-ups under way, by id. @type {Map<string, Promise<Known | undefined>>} */
  #lookups = new Map()
  #logger
  #warnedMs = Number.NEGATIVE_INFINITY

  /** Keys that were not looked up because too many before them were unknown. */
  unasked = 0

  /**
   * @param {object} parts
   * @param {KeyDatabase} parts.database
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   * @param {() => number} [parts.monotonicMs]  Milliseconds of a clock that nobody sets.
   * @param {Pick<import('pino').Logger, 'warn'>} [parts.logger]
   */
  constructor({ database, now = Date.now, monotonicMs = () => performance.now(), logger }) {
    this.#logger = logger
    this.#database = database
    this.#now = now
    this.#monotonicMs = monotonicMs
    this.#budget = new LookupBudget(monotonicMs())
  }

  /**
   * What a key may do.
   *
   * @param {string} text  As the client gave it.
   * @param {string} address  The client's: of each only so many unknown keys are looked up.
   * @returns {Promise<Grant | undefined>}  Undefined where there is no such key (any more).
   * @throws {KeysAway | TooManyUnknownKeys}
   */
  async find(text, address) {
    const parts = parseKey(text)
    if (!parts) return undefined
    const known = await this.#know(parts.keyId, address)
    if (!known || !isSecret(known.hash, parts.secret)) return undefined
    const { expiresMs } = known.grant
    return expiresMs !== undefined && expiresMs <= this.#now() ? undefined : known.grant
  }

  /**
   * What keys may do now: the database is asked, whatever it said lately.
   *
   * @param {readonly string[]} keyIds
   * @returns {Promise<Map<string, Grant>>}  By id; without those that do not exist (any more).
   * @throws {KeysAway}
   */
  async confirm(keyIds) {
    if (!this.#database.isUp) throw new KeysAway('the database is away')
    const readMs = this.#monotonicMs()
    /** @type {Map<string, Grant>} */
    const grants = new Map()
    try {
      const rows = await this.#ask(`SELECT ${COLUMNS} FROM $.credential WHERE key_id IN ?`, [
        keyIds,
      ])
      for (const keyId of keyIds) this.#known.delete(keyId)
      for (const row of rows) {
        const known = { ...toKnown(row), readMs }
        this.#known.set(row.key_id, known)
        grants.set(row.key_id, known.grant)
      }
    } catch (error) {
      throw new KeysAway('whether there are such keys cannot be asked now', { cause: error })
    }
    return grants
  }

  /**
   * Adds a key.
   *
   * @param {Omit<Grant, 'keyId'>} about
   * @returns {Promise<{ keyId: string, text: string }>}  The text is not kept.
   */
  async create({ name, scopes, sensorId, expiresMs }) {
    const { keyId, text, hash } = createKey()
    const columns = 'key_id, hash, name, scopes, sensor_id, expires, created_at'
    await this.#ask(`INSERT INTO $.credential (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?)`, [
      ...[keyId, hash, name, [...scopes], sensorId ?? null, expiresMs ?? null, this.#now()],
    ])
    return { keyId, text }
  }

  /** Every key, in no order. @returns {Promise<Listed[]>} */
  async list() {
    const rows = await this.#ask(`SELECT ${GRANT_COLUMNS} FROM $.credential`, [])
    return rows.map((row) => ({ keyId: row.key_id, name: nameIn(row), grant: () => toGrant(row) }))
  }

  /** Takes a key back; it may work for some seconds more. @param {string} keyId */
  async revoke(keyId) {
    const [row] = await this.#ask('SELECT key_id FROM $.credential WHERE key_id = ?', [keyId])
    if (row) await this.#ask('DELETE FROM $.credential WHERE key_id = ?', [keyId])
    this.#known.delete(keyId)
    return row !== undefined
  }

  /** @param {string} keyId  @param {string} address  @returns {Promise<Known | undefined>} */
  async #know(keyId, address) {
    const nowMs = this.#monotonicMs()
    const known = this.#known.get(keyId)
    if (known && nowMs - known.readMs < KEY_BELIEVED_MS) return known
    const unknownMs = this.#unknown.get(keyId)
    if (unknownMs !== undefined && nowMs - unknownMs < KEY_BELIEVED_MS) return undefined
    try {
      if (!this.#database.isUp) throw new KeysAway('the database is away')
      return await (this.#lookups.get(keyId) ?? this.#lookUp(keyId, known ? undefined : address))
    } catch (error) {
      if (error instanceof TooManyUnknownKeys) throw error
      if (known && nowMs - known.readMs < KEY_BELIEVED_AWAY_MS) return known
      throw new KeysAway('whether there is such a key cannot be asked now', { cause: error })
    }
  }

  /**
   * @param {string} keyId
   * @param {string | undefined} address  Who is to pay if there is no such key; undefined: nobody.
   * @returns {Promise<Known | undefined>}
   */
  #lookUp(keyId, address) {
    const giveBack = address === undefined ? () => {} : this.#pay(address)
    const lookup = this.#read(keyId).then(
      (known) => {
        if (known) giveBack()
        return known
      },
      (error) => {
        giveBack()
        throw error
      },
    )
    const settled = lookup.finally(() => this.#lookups.delete(keyId))
    this.#lookups.set(keyId, settled)
    return settled
  }

  /** @param {string} address  @returns {() => void}  Gives back what it took. */
  #pay(address) {
    const nowMs = this.#monotonicMs()
    const giveBack = this.#budget.take(address, nowMs)
    if (giveBack) return giveBack
    this.unasked++
    if (nowMs - this.#warnedMs >= WARN_MS) {
      this.#warnedMs = nowMs
      const { unasked } = this
      this.#logger?.warn({ address, unasked }, 'too many unknown keys: they are not looked up')
    }
    throw new TooManyUnknownKeys('too many unknown keys were sent')
  }

  /** @param {string} keyId  @returns {Promise<Known | undefined>} */
  async #read(keyId) {
    const [row] = await this.#ask(`SELECT ${COLUMNS} FROM $.credential WHERE key_id = ?`, [keyId])
    const readMs = this.#monotonicMs()
    this.#known.delete(keyId)
    this.#unknown.delete(keyId)
    if (!row) {
      this.#unknown.set(keyId, readMs)
      forgetOldest(this.#unknown, UNKNOWN_MAX)
      return undefined
    }
    const known = { ...toKnown(row), readMs }
    this.#known.set(keyId, known)
    forgetOldest(this.#known, KNOWN_MAX)
    return known
  }

  /** @param {string} query  `$` is the keyspace.  @param {any[]} params */
  #ask(query, params) {
    return allRows(this.#database, query, params)
  }
}

const GRANT_COLUMNS = 'key_id, name, scopes, sensor_id, expires'
const COLUMNS = `${GRANT_COLUMNS}, hash`

/** @param {Map<string, unknown>} map  @param {number} sizeMax */
function forgetOldest(map, sizeMax) {
  if (map.size <= sizeMax) return
  const [oldest] = map.keys()
  map.delete(oldest)
}

/** @param {any} row */
function toKnown(row) {
  return { hash: row.hash, grant: toGrant(row) }
}

/** @param {any} row  @returns {Grant} */
function toGrant(row) {
  return {
    keyId: row.key_id,
    name: nameIn(row),
    scopes: new Set(row.scopes ?? []),
    sensorId: row.sensor_id?.toString(),
    expiresMs: row.expires?.getTime(),
  }
}

/** @param {any} row  @returns {string} */
function nameIn(row) {
  return row.name ?? ''
}
