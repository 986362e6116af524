/**
 * The keys there are. What the database said is believed for a while, and for longer while it is
 * away: devices must be able to come back when it is their messages that wait for it.
 */

import { createKey, isSecret, parseKey } from './keys.js'

/** How long what the database said of a key is believed, in milliseconds. */
export const KEY_BELIEVED_MS = 10_000

/** How long it is believed while the database is away, in milliseconds. */
const KEY_BELIEVED_AWAY_MS = 24 * 3_600_000

/** Keys of which something is remembered, those that do not exist too. */
const KEYS_MAX = 20_000

/** @typedef {import('./keys.js').Grant} Grant */
/** @typedef {{ hash: Buffer, grant: Grant }} Known */
/** @typedef {{ known: Known | undefined, readMs: number }} Remembered */

/** Thrown where the database cannot say whether there is such a key. */
export class KeysAway extends Error {
  name = 'KeysAway'
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
  /** By id, the longest unread first. @type {Map<string, Remembered>} */
  #remembered = new Map()

  /**
   * @param {object} parts
   * @param {KeyDatabase} parts.database
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   */
  constructor({ database, now = Date.now }) {
    this.#database = database
    this.#now = now
  }

  /**
   * What a key may do.
   *
   * @param {string} text  As the client gave it.
   * @returns {Promise<Grant | undefined>}  Undefined where there is no such key (any more).
   * @throws {KeysAway}
   */
  async find(text) {
    const parts = parseKey(text)
    if (!parts) return undefined
    const known = await this.#know(parts.keyId)
    if (!known || !isSecret(known.hash, parts.secret)) return undefined
    const { expiresMs } = known.grant
    return expiresMs !== undefined && expiresMs <= this.#now() ? undefined : known.grant
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
    this.#remembered.delete(keyId)
    return { keyId, text }
  }

  /** Every key. @returns {Promise<Grant[]>} */
  async list() {
    const rows = await this.#ask(`SELECT ${COLUMNS} FROM $.credential`, [])
    return rows.map((row) => toKnown(row).grant).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** Takes a key back; it may work for some seconds more. @param {string} keyId */
  async revoke(keyId) {
    const [row] = await this.#ask('SELECT key_id FROM $.credential WHERE key_id = ?', [keyId])
    if (row) await this.#ask('DELETE FROM $.credential WHERE key_id = ?', [keyId])
    this.#remembered.delete(keyId)
    return row !== undefined
  }

  /** @param {string} keyId  @returns {Promise<Known | undefined>} */
  async #know(keyId) {
    const remembered = this.#remembered.get(keyId)
    const ageMs = this.#now() - (remembered?.readMs ?? Number.NEGATIVE_INFINITY)
    if (remembered && ageMs < KEY_BELIEVED_MS) return remembered.known
    try {
      if (!this.#database.isUp) throw new KeysAway('the database is away')
      const [row] = await this.#ask(`SELECT ${COLUMNS} FROM $.credential WHERE key_id = ?`, [keyId])
      const known = row && toKnown(row)
      this.#remember(keyId, known)
      return known
    } catch (error) {
      if (remembered && ageMs < KEY_BELIEVED_AWAY_MS) return remembered.known
      throw new KeysAway('whether there is such a key cannot be asked now', { cause: error })
    }
  }

  /** @param {string} keyId  @param {Known | undefined} known */
  #remember(keyId, known) {
    this.#remembered.delete(keyId)
    this.#remembered.set(keyId, { known, readMs: this.#now() })
    for (const oldest of this.#remembered.keys()) {
      if (this.#remembered.size <= KEYS_MAX) return
      this.#remembered.delete(oldest)
    }
  }

  /** @param {string} query  `$` is the keyspace.  @param {any[]} params */
  async #ask(query, params) {
    const { client, keyspace } = this.#database
    const options = { prepare: true, isIdempotent: true, fetchSize: 100_000 }
    return (await client.execute(query.replace('$', keyspace), params, options)).rows ?? []
  }
}

const COLUMNS = 'key_id, hash, name, scopes, sensor_id, expires'

/** @param {any} row  @returns {Known} */
function toKnown(row) {
  return {
    hash: row.hash,
    grant: {
      keyId: row.key_id,
      name: row.name ?? '',
      scopes: new Set(row.scopes ?? []),
      sensorId: row.sensor_id?.toString(),
      expiresMs: row.expires?.getTime(),
    },
  }
}
