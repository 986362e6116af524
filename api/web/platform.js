/** Whether api, database and ingest are there: a word in the header, a sentence if one is not. */

import { setText } from './dom.js'
import { repeat } from './repeat.js'
import { RestError } from './rest.js'

const LOOK_MS = 2_000

export class Platform {
  /** What is there; undefined while it is not known. */
  #there = {
    /** @type {boolean | undefined} */ api: undefined,
    /** @type {boolean | undefined} */ database: undefined,
    /** @type {boolean | undefined} */ ingest: undefined,
  }
  #state = /** @type {HTMLElement} */ (document.getElementById('state'))
  #notice = /** @type {HTMLElement} */ (document.getElementById('notice'))

  /**
   * Looks until the page is left.
   *
   * @param {import('./rest.js').Rest} rest
   */
  watch(rest) {
    const { signal } = new AbortController()
    const note = (/** @type {RestError} */ error) => this.note(error)
    const database = async () => {
      try {
        await rest.get('health', signal)
        this.#know({ api: true, database: true })
      } catch (error) {
        if (!(error instanceof RestError) || error.status !== 503) throw error
        this.#know({ api: true, database: false })
      }
    }
    const ingest = async () => {
      await rest.get('v1/ingest', signal)
      this.#know({ ingest: true })
    }
    void repeat(database, () => LOOK_MS, signal, note)
    void repeat(ingest, () => LOOK_MS, signal, note)
  }

  /** Learns from an answer that was not the one hoped for. @param {RestError} error */
  note({ status, code }) {
    this.#know({ api: status !== 0 })
    if (code === 'database-away') this.#know({ database: false })
    if (code === 'ingest-away') this.#know({ ingest: false })
  }

  /** @param {{ api?: boolean, database?: boolean, ingest?: boolean }} news */
  #know(news) {
    Object.assign(this.#there, news)
    const { word, text, mark } = this.#explain()
    setText(this.#state, word)
    this.#state.dataset.state = mark
    this.#notice.hidden = text === ''
    setText(this.#notice, text)
  }

  /** In a word, and in a sentence where there is something to say. */
  #explain() {
    const { api, database, ingest } = this.#there
    if (api === false) {
      const text = 'The api does not answer. This page goes on as soon as it is back.'
      return { word: 'API away', text, mark: 'bad' }
    }
    if (database === false) {
      const text =
        'The database does not answer. Devices may go on sending: ingest keeps their messages ' +
        'and stores them when the database is back.'
      return { word: 'Database away', text, mark: 'bad' }
    }
    if (ingest === false) {
      const text = 'Ingest does not answer: nothing new can arrive. What is stored is here.'
      return { word: 'Ingest away', text, mark: 'bad' }
    }
    return api && database
      ? { word: 'Live', text: '', mark: 'good' }
      : { word: 'Connecting…', text: '', mark: 'wait' }
  }
}
