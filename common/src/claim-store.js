/**
 * Claim keys: a device that has only one of these gets its own key, once. A claim key is of one
 * sensor, is written like a key, and like that only as a hash. ADR 0073.
 */

import cassandra from 'cassandra-driver'
import { TooManyUnknownKeys } from './key-store.js'
import { createKey, isSecret, parseKey } from './keys.js'
import { LookupBudget } from './lookup-budget.js'
import { allRows } from './rows.js'

const { localSerial } = cassandra.types.consistencies

/** What the key of a device may be for. */
export const CLAIM_SCOPES = /** @type {const} */ (['read', 'write'])

/**
 * @typedef {object} Claim  What is stored of a claim key, and is no secret.
 * @property {string} claimId
 * @property {string} name  What its owner calls it.
 * @property {string} sensor  As its owner calls it.
 * @property {string} sensorId
 * @property {ReadonlySet<string>} scopes  Of the device's key.
 * @property {number | undefined} expiresMs  Milliseconds since the Unix epoch.
 * @property {string | undefined} keyId  Of the device's key, once it was claimed.
 * @property {number | undefined} claimedMs
 */

/**
 * Why a device gets no key.
 *
 * @typedef {'unknown' | 'expired' | 'claimed'} Refused
 */

/** Thrown where a device gets no key. */
export class ClaimRefused extends Error {
  name = 'ClaimRefused'

  /** @param {Refused} why */
  constructor(why) {
    super(`the claim key is refused: ${why}`)
    this.why = why
  }
}

/** @typedef {import('./key-store.js').KeyDatabase} KeyDatabase */

const COLUMNS = 'claim_id, name, sensor_id, sensor, scopes, expires, key_id, claimed'

export class ClaimStore {
  #database
  #keys
  #now
  #monotonicMs
  #budget
  #logger

  /** Claims by how they ended. */
  counts = { made: 0, unknown: 0, expired: 0, claimed: 0, unasked: 0 }

  /**
   * @param {object} parts
   * @param {KeyDatabase} parts.database
   * @param {Pick<import('./key-store.js').KeyStore, 'create' | 'revoke'>} parts.keys
   * @param {() => number} [parts.now]  Milliseconds since the Unix epoch.
   * @param {() => number} [parts.monotonicMs]  Milliseconds of a clock that nobody sets.
   * @param {Pick<import('pino').Logger, 'info' | 'warn'>} [parts.logger]
   */
  constructor(parts) {
    const { database, keys, now = Date.now, monotonicMs = () => performance.now(), logger } = parts
    this.#database = database
    this.#keys = keys
    this.#now = now
    this.#monotonicMs = monotonicMs
    this.#budget = new LookupBudget(monotonicMs())
    this.#logger = logger
  }

  /**
   * Makes a claim key.
   *
   * @param {Pick<Claim, 'name' | 'sensor' | 'sensorId' | 'scopes' | 'expiresMs'>} about
   * @returns {Promise<{ claimId: string, text: string }>}  The text is not kept.
   */
  async create({ name, sensor, sensorId, scopes, expiresMs }) {
    const { keyId: claimId, text, hash } = createKey('sgc')
    await this.#ask(
      `INSERT INTO $.claim (claim_id, hash, name, sensor_id, sensor, scopes, expires, created_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS`,
      [claimId, hash, name, sensorId, sensor, [...scopes], expiresMs ?? null, this.#now()],
    )
    return { claimId, text }
  }

  /** Every claim key, in no order. @returns {Promise<Claim[]>} */
  async list() {
    const rows = await this.#ask(`SELECT ${COLUMNS} FROM $.claim`, [])
    return rows.map(toClaim)
  }

  /**
   * Gives a device its own key. Of any number of attempts, by whichever process, one gets one.
   *
   * The key is made first, and the claim key is then spent for it on the condition that it is not
   * spent yet: a key that is told to nobody may be left behind, but none is told twice.
   *
   * @param {string} text  The claim key.
   * @param {string} address  Who asks: of each only so many attempts may fail.
   * @returns {Promise<{ claim: Claim, keyId: string, text: string }>}
   * @throws {ClaimRefused | TooManyUnknownKeys}
   */
  async claim(text, address) {
    const parts = parseKey(text, 'sgc')
    if (!parts) throw this.#refused('unknown', undefined, address)
    const giveBack = this.#pay(address)
    const claim = await this.#find(parts, address)
    const { name, sensor, sensorId, scopes } = claim
    const key = await this.#keys.create({
      name: `${sensor}, claimed by ${name}`,
      scopes,
      sensorId,
      expiresMs: undefined,
    })
    if (!(await this.#spend(claim, key.keyId))) {
      await this.#keys.revoke(key.keyId)
      throw this.#refused('claimed', claim, address)
    }
    giveBack()
    this.counts.made++
    const { keyId } = key
    this.#logger?.info({ claim: claim.claimId, sensor, key: keyId, address }, 'a key was claimed')
    return { claim: { ...claim, keyId }, keyId, text: key.text }
  }

  /**
   * Makes a claim key good again that was spent, and takes back the key that was got by it: for a
   * device that never heard the answer.
   *
   * @param {string} claimId
   * @returns {Promise<boolean>}  False if there is no such claim key.
   */
  async reset(claimId) {
    const row = await this.#read(claimId)
    if (!row) return false
    const keyId = row.key_id
    if (keyId === null) return true
    await this.#keys.revoke(keyId)
    // Whoever resets at the same time has done it, too.
    const isReset = await this.#change(
      'UPDATE $.claim SET key_id = ?, claimed = ? WHERE claim_id = ? IF key_id = ?',
      [null, null, claimId, keyId],
    )
    if (isReset) this.#logger?.info({ claim: claimId, key: keyId }, 'a claim key was reset')
    return true
  }

  /** Takes a claim key back; the key that was got by it stays. @param {string} claimId */
  async revoke(claimId) {
    return this.#change('DELETE FROM $.claim WHERE claim_id = ? IF EXISTS', [claimId])
  }

  /**
   * @param {{ keyId: string, secret: string }} parts
   * @param {string} address
   * @returns {Promise<Claim>}  It may be claimed.
   */
  async #find({ keyId, secret }, address) {
    const row = await this.#read(keyId)
    if (!row || !isSecret(row.hash, secret)) throw this.#refused('unknown', undefined, address)
    const claim = toClaim(row)
    if (claim.keyId !== undefined) throw this.#refused('claimed', claim, address)
    const isOver = claim.expiresMs !== undefined && claim.expiresMs <= this.#now()
    if (isOver) throw this.#refused('expired', claim, address)
    return claim
  }

  /**
   * Whether the claim key is now spent for this key.
   *
   * @param {Claim} claim
   * @param {string} keyId
   */
  async #spend({ claimId, sensor }, keyId) {
    try {
      // One that was taken back has no sensor: an update alone would make its row again.
      return await this.#change(
        'UPDATE $.claim SET key_id = ?, claimed = ? WHERE claim_id = ? IF key_id = ? AND sensor = ?',
        [keyId, this.#now(), claimId, null, sensor],
      )
    } catch (error) {
      // Nobody said whether it was done: only what is there now tells.
      const now = await this.#read(claimId)
      if (now?.key_id === keyId) return true
      await this.#keys.revoke(keyId)
      throw error
    }
  }

  /** @param {string} claimId */
  async #read(claimId) {
    const query = `SELECT ${COLUMNS}, hash FROM $.claim WHERE claim_id = ?`
    const [row] = await this.#ask(query, [claimId], { consistency: localSerial })
    return row
  }

  /** @param {string} address  @returns {() => void}  Gives back what it took. */
  #pay(address) {
    const giveBack = this.#budget.take(address, this.#monotonicMs())
    if (giveBack) return giveBack
    this.counts.unasked++
    throw new TooManyUnknownKeys('too many claim keys were refused')
  }

  /** @param {Refused} why  @param {Claim | undefined} claim  @param {string} address */
  #refused(why, claim, address) {
    this.counts[why]++
    if (claim) {
      const { claimId, sensor } = claim
      this.#logger?.warn({ claim: claimId, sensor, address, why }, 'a claim key was refused')
    }
    return new ClaimRefused(why)
  }

  /** A conditional write. @param {string} query  @param {any[]} params */
  async #change(query, params) {
    const [row] = await this.#ask(query, params, { isIdempotent: false })
    return row?.['[applied]'] === true
  }

  /** @param {string} query  `$` is the keyspace.  @param {any[]} params  @param {object} [more] */
  #ask(query, params, more) {
    return allRows(this.#database, query, params, more)
  }
}

/** @param {any} row  @returns {Claim} */
function toClaim(row) {
  return {
    claimId: row.claim_id,
    name: row.name ?? '',
    sensor: row.sensor,
    sensorId: row.sensor_id.toString(),
    scopes: new Set(row.scopes ?? []),
    expiresMs: row.expires?.getTime(),
    keyId: row.key_id ?? undefined,
    claimedMs: row.claimed?.getTime(),
  }
}
