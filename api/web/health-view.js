/** How the platform is: what is there, that each message is accounted for, and ingest's figures. */

import { accountsOf } from './accounts.js'
import { element, fromTemplate, part, setText } from './dom.js'
import { printBytes, printCount, printDuration, printMany, printRate } from './format.js'
import { repeat } from './repeat.js'
import { RestError } from './rest.js'

const REFRESH_MS = 1_000

/** Rollups that are further behind than this are late, in seconds. */
const LAG_S_MAX = 600

/** @typedef {{ name: string, value: string, isBad?: boolean }} Figure */
/** @typedef {Record<string, any>} Stats */

export class HealthView {
  element = fromTemplate('health')
  #context
  /** @type {{ received: number, atMs: number } | undefined} */
  #before
  #isRunning = false

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
  }

  show() {
    if (this.#isRunning) return
    this.#isRunning = true
    const { signal, report } = this.#context
    void repeat(
      () => this.#refresh(),
      () => REFRESH_MS,
      signal,
      report,
    )
  }

  async #refresh() {
    const { rest, signal, report } = this.#context
    /** @param {Promise<any>} answer  @returns {Promise<any>} */
    const orError = (answer) =>
      answer.catch((error) => {
        if (!(error instanceof RestError)) throw error
        if (!signal.aborted) report(error)
        return error
      })
    const [health, stats] = await Promise.all([
      orError(rest.get('health', signal)),
      orError(rest.get('v1/ingest', signal)),
    ])
    if (signal.aborted) return
    this.#showParts(health, stats)
    if (stats instanceof RestError) {
      this.#before = undefined
      setText(part(this.element, 'note'), stats.message)
      return
    }
    setText(part(this.element, 'note'), '')
    this.#showAccounts(stats)
    showFigures(part(this.element, 'ingest'), this.#figures(stats))
  }

  /** @param {unknown} health  @param {Stats | RestError} stats */
  #showParts(health, stats) {
    const isApiAway = health instanceof RestError && health.status === 0
    const isIngestThere = !(stats instanceof RestError)
    const database = health instanceof RestError ? 'away' : 'up'
    showFigures(part(this.element, 'parts'), [
      { name: 'API', value: isApiAway ? 'away' : 'up', isBad: isApiAway },
      {
        name: 'Database, seen by the API',
        isBad: database !== 'up',
        value: isApiAway ? 'not known' : database,
      },
      { name: 'Ingest', value: isIngestThere ? 'up' : 'away', isBad: !isIngestThere },
      {
        name: 'Database, seen by ingest',
        value: isIngestThere ? stats.database : 'not known',
        isBad: !isIngestThere || stats.database !== 'up',
      },
    ])
  }

  /** @param {Stats} stats */
  #showAccounts(stats) {
    const { given, become, difference } = accountsOf(stats)
    const verdict =
      difference === 0
        ? element('strong', { class: 'right' }, '✓ It adds up.')
        : element(
            'strong',
            { class: 'wrong' },
            `${printCount(Math.abs(difference))} ${difference > 0 ? 'too few' : 'too many'}.`,
          )
    const sides = [given, become].map((terms) =>
      terms.map(({ name, count }) =>
        element('li', {}, element('strong', {}, printCount(count)), ` ${name}`),
      ),
    )
    part(this.element, 'equation').replaceChildren(
      element('ul', { class: 'terms', 'aria-label': 'Messages that came' }, ...sides[0]),
      element('p', { class: 'equals' }, '='),
      element('ul', { class: 'terms', 'aria-label': 'What became of them' }, ...sides[1]),
      element(
        'p',
        {},
        verdict,
        ` ${printMany(stats.duplicates, 'redelivery was', 'redeliveries were')} recognised.`,
      ),
    )
  }

  /** @param {Stats} stats  @returns {Figure[]} */
  #figures(stats) {
    const atMs = performance.now()
    const before = this.#before
    this.#before = { received: stats.received, atMs }
    const rate = before && ((stats.received - before.received) * 1_000) / (atMs - before.atMs)
    const { p50, p99 } = stats.publishToStoredMs ?? {}
    const lagS = stats.rollupLagS
    return [
      { name: 'Messages a second', value: rate === undefined || rate < 0 ? '–' : printRate(rate) },
      { name: 'Connections', value: printCount(stats.connections) },
      { name: 'Median time to storage', value: duration(p50) },
      { name: '99th percentile', value: duration(p99) },
      { name: 'Held in memory', value: printBytes(stats.heldBytes) },
      { name: 'Spool', value: printBytes(stats.spoolBytes), isBad: stats.spooled > 0 },
      { name: 'Rollups behind', value: duration(lagS * 1_000), isBad: lagS > LAG_S_MAX },
      { name: 'Running for', value: duration(stats.uptimeS * 1_000) },
    ]
  }
}

/** @param {unknown} ms */
function duration(ms) {
  return typeof ms === 'number' && Number.isFinite(ms) ? printDuration(ms) : '–'
}

/**
 * Shows figures; those that are there are kept, so that a reader's place in them is, too.
 *
 * @param {HTMLElement} list
 * @param {Figure[]} figures
 */
function showFigures(list, figures) {
  for (const [index, { name, value, isBad = false }] of figures.entries()) {
    let box = /** @type {HTMLElement | undefined} */ (list.children[index])
    if (!box) {
      box = element('div', {}, element('dt'), element('dd'))
      list.append(box)
    }
    const [term, data] = /** @type {any} */ (box.children)
    setText(term, name)
    setText(data, value)
    box.classList.toggle('warn', isBad)
  }
}
