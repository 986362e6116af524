/**
 * Whether the keys of those who are connected, or whose sessions wait for them, are still good. A
 * key that was revoked or has expired ends all of its sessions and connections.
 *
 * Expiry is known from the clock. The rest the database is asked: once for each key, however many
 * connections have it, for many keys at once, and for each as long after the last time, so that the
 * questions are spread over time. Twenty thousand keys are about thirty requests a second.
 *
 * The promise is ten seconds. A key that was revoked the moment after it was confirmed is confirmed
 * no more {@link KEY_CONFIRM_MS} later, plus the second between two looks, plus the asking. One
 * that a client connects with is confirmed at once, as what is believed of it may be that old.
 */

import { KEY_BELIEVED_AWAY_MS } from '@sandglass/common/key-store'
import { allowTheSame, RIGHTS_CHANGED } from './sessions.js'

/** How long after a key was confirmed it is confirmed again, in milliseconds. */
export const KEY_CONFIRM_MS = 7_000

/** How long those who connect are waited for, to be asked about together, in milliseconds. */
const SOON_MS = 100

/** Keys of one question. The engine takes a thousand. */
const KEYS_MAX = 100

/** @typedef {import('./sessions.js').Owner} Owner */
/** @typedef {import('@sandglass/common/keys').Grant} Grant */

export class KeyWatch {
  #keys
  #sessions
  #wallMs
  #clockMs
  #isAsking = false
  /** @type {NodeJS.Timeout | undefined} */
  #soon

  /**
   * @param {object} parts
   * @param {Pick<import('@sandglass/common/key-store').KeyStore, 'confirm'>} parts.keys
   * @param {import('./sessions.js').Sessions} parts.sessions
   * @param {() => number} parts.wallMs  Milliseconds since the Unix epoch.
   * @param {() => number} parts.clockMs  Milliseconds by the clock that only goes forward.
   */
  constructor({ keys, sessions, wallMs, clockMs }) {
    this.#keys = keys
    this.#sessions = sessions
    this.#wallMs = wallMs
    this.#clockMs = clockMs
    /** Keys that lost their sessions, because they were revoked, changed or expired. */
    this.ended = 0
  }

  /** Ends what has expired, and asks about what was not confirmed for a while. Once a second. */
  look() {
    const wallMs = this.#wallMs()
    const clockMs = this.#clockMs()
    /** @type {Owner[]} */
    const due = []
    for (const owner of this.#sessions.owners) {
      if (!owner.grant) continue
      const { expiresMs } = owner.grant
      if (expiresMs !== undefined && expiresMs <= wallMs) this.#end(owner, 'its key has expired')
      else if (clockMs - owner.confirmedMs >= KEY_CONFIRM_MS) due.push(owner)
    }
    if (due.length > 0 && !this.#isAsking) void this.#confirmAll(due)
  }

  /** A key was not asked for since it is in use. */
  lookSoon() {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined
      this.look()
    }, SOON_MS)
  }

  stop() {
    clearTimeout(this.#soon)
  }

  /** @param {Owner[]} owners */
  async #confirmAll(owners) {
    this.#isAsking = true
    for (let at = 0; at < owners.length; at += KEYS_MAX) {
      await this.#confirm(owners.slice(at, at + KEYS_MAX))
    }
    this.#isAsking = false
  }

  /** @param {Owner[]} owners */
  async #confirm(owners) {
    const askedMs = this.#clockMs()
    try {
      const grants = await this.#keys.confirm(owners.map(({ grant }) => grant?.keyId ?? ''))
      for (const owner of owners) {
        this.#judge(owner, grants.get(owner.grant?.keyId ?? ''), askedMs)
      }
    } catch {
      // The database is away. What is connected is believed for as long as what comes back.
      for (const owner of owners) {
        const sinceMs = Math.max(owner.sinceMs, owner.confirmedMs)
        if (askedMs - sinceMs >= KEY_BELIEVED_AWAY_MS) {
          this.#end(owner, 'its key could not be confirmed for too long')
        }
      }
    }
  }

  /** @param {Owner} owner  @param {Grant | undefined} grant  @param {number} askedMs */
  #judge(owner, grant, askedMs) {
    if (!grant || !owner.grant) {
      this.#end(owner, 'its key was revoked')
    } else if (!allowTheSame(owner.grant, grant)) {
      this.#end(owner, RIGHTS_CHANGED)
    } else {
      owner.grant = grant
      owner.confirmedMs = askedMs
    }
  }

  /** @param {Owner} owner  @param {string} reason */
  #end(owner, reason) {
    this.ended++
    this.#sessions.endAll(owner, reason)
  }
}
