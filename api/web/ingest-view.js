/** How ingest is: its counts, the line that must add up, and what it refused. */

import { get, RestError } from './rest.js'

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id))

const LETTERS = 20

const counted = new Intl.NumberFormat('en')

/** @param {number | null | undefined} ms */
function milliseconds(ms) {
  return typeof ms === 'number' && Number.isFinite(ms) ? `${Number(ms.toPrecision(3))} ms` : '–'
}

/** @type {{ received: number, atMs: number } | undefined} */
let before

/**
 * Shows ingest's counts.
 *
 * @returns {Promise<boolean>}  Whether ingest is there.
 */
export async function showIngest() {
  let stats
  try {
    stats = await get('v1/ingest')
  } catch (error) {
    if (!(error instanceof RestError)) throw error
    byId('ingest-state').textContent = 'Ingest does not answer.'
    byId('ingest').replaceChildren()
    byId('conservation').textContent = ''
    before = undefined
    return error.code !== 'ingest-away'
  }
  const atMs = performance.now()
  const rate = before && ((stats.received - before.received) * 1000) / (atMs - before.atMs)
  before = { received: stats.received, atMs }
  byId('ingest-state').textContent =
    `${counted.format(stats.connections)} devices connected` +
    (stats.database === 'up' ? '' : ', waiting for the database')
  byId('ingest').replaceChildren(
    figure('Messages/s', rate === undefined || rate < 0 ? '–' : counted.format(Math.round(rate))),
    figure('Received', counted.format(stats.received)),
    figure('Stored', counted.format(stats.stored)),
    figure('Refused', counted.format(stats.deadLettered), stats.deadLettered > 0),
    figure('Held', counted.format(stats.held)),
    figure('Spooled', counted.format(stats.spooled), stats.spooled > 0),
    figure('Stored within, p50', milliseconds(stats.publishToStoredMs?.p50)),
    figure('Stored within, p99', milliseconds(stats.publishToStoredMs?.p99)),
  )
  conservation(stats)
  return true
}

/** @param {string} name  @param {string} value  @param {boolean} [isWarning] */
function figure(name, value, isWarning = false) {
  const box = document.createElement('div')
  if (isWarning) box.className = 'warn'
  const term = document.createElement('dt')
  term.textContent = name
  const data = document.createElement('dd')
  data.textContent = value
  box.append(term, data)
  return box
}

/** Shows that every message is accounted for. @param {Record<string, number>} stats */
function conservation(stats) {
  const all = stats.received + stats.recovered
  const terms = [
    { count: stats.stored, name: 'stored' },
    { count: stats.deadLettered, name: 'refused' },
    { count: stats.spooled, name: 'spooled' },
    { count: stats.held, name: 'held' },
    { count: stats.droppedQos0, name: 'dropped (QoS 0)' },
    { count: stats.lost, name: 'lost', isRare: true },
  ].filter(({ count, isRare }) => count > 0 || !isRare)
  const sum = terms.reduce((total, { count }) => total + count, 0)
  const verdict = document.createElement('strong')
  verdict.textContent = sum === all ? '✓ adds up' : `≠ ${counted.format(sum)}`
  if (sum !== all) verdict.className = 'wrong'
  const recovered =
    stats.recovered > 0 ? ` + ${counted.format(stats.recovered)} found in the spool` : ''
  const given = terms.map(({ count, name }) => `${counted.format(count)} ${name}`).join(' + ')
  const { duplicates } = stats
  byId('conservation').replaceChildren(
    `${counted.format(stats.received)} received${recovered} = ${given} `,
    verdict,
    duplicates > 0 ? ` · ${counted.format(duplicates)} redeliveries recognised` : '',
  )
}

/** Shows the newest refused messages, if there are any. */
export async function showLetters() {
  const { items } = await get(`v1/dead-letters?limit=${LETTERS}`)
  byId('letters-section').hidden = items.length === 0
  byId('letters').replaceChildren(
    ...items.map((/** @type {any} */ letter) => {
      const row = document.createElement('tr')
      for (const text of [
        new Date(letter.received).toLocaleString(),
        letter.topic,
        letter.reason,
      ]) {
        const cell = document.createElement('td')
        cell.textContent = text
        row.append(cell)
      }
      return row
    }),
  )
}
