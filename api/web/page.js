/** The page: joins its parts, asks again now and then, and says when something is away. */

import { showIngest, showLetters } from './ingest-view.js'
import { RestError } from './rest.js'
import { SensorList } from './sensor-list.js'
import { SensorView } from './sensor-view.js'

const INGEST_MS = 1_000
const LIST_MS = 3_000
const LETTERS_MS = 5_000

/** What is there; undefined while it is not known yet. */
const there = {
  /** @type {boolean | undefined} */ api: undefined,
  /** @type {boolean | undefined} */ database: undefined,
  /** @type {boolean | undefined} */ ingest: undefined,
}

function showState() {
  const state = /** @type {HTMLElement} */ (document.getElementById('state'))
  const notice = /** @type {HTMLElement} */ (document.getElementById('notice'))
  const [word, text] = explain()
  const mark = word === 'Live' ? 'good' : word === 'Connecting…' ? 'wait' : 'bad'
  if (state.textContent !== word) state.textContent = word
  state.dataset.state = mark
  notice.hidden = text === ''
  if (notice.textContent !== text) notice.textContent = text
}

/** @returns {[string, string]}  In a word, and in a sentence where there is something to say. */
function explain() {
  if (there.api === false) {
    return ['Api away', 'The api does not answer. This page goes on as soon as it is back.']
  }
  if (there.database === false) {
    return [
      'Database away',
      'The database does not answer. Devices may go on sending: ingest holds their messages ' +
        'and stores them when the database is back.',
    ]
  }
  if (there.ingest === false) {
    return [
      'Ingest away',
      'Ingest does not answer: nothing new can arrive. What is stored is here.',
    ]
  }
  return [there.api ? 'Live' : 'Connecting…', '']
}

/** @param {unknown} error */
function note(error) {
  if (!(error instanceof RestError)) throw error
  there.api = error.status !== 0
  if (error.code === 'database-away') there.database = false
  showState()
}

/**
 * Does something now and again, never twice at once.
 *
 * @param {() => Promise<void>} action
 * @param {number} pauseMs
 */
async function repeat(action, pauseMs) {
  try {
    if (!document.hidden) await action()
  } catch (error) {
    note(error)
  } finally {
    setTimeout(() => void repeat(action, pauseMs), pauseMs)
  }
}

const view = new SensorView(({ stream, database }) => {
  if (stream) there.api = true
  if (database) there.database = database === 'up'
  showState()
})
const list = new SensorList((sensor) => void view.show(sensor).catch(note))

document.getElementById('ranges')?.addEventListener('change', (event) => {
  const { value } = /** @type {HTMLInputElement} */ (event.target)
  void view.setSpan(Number(value)).catch(note)
})

void repeat(async () => {
  await list.refresh()
  there.api = true
  there.database = true
  showState()
}, LIST_MS)

void repeat(async () => {
  there.ingest = await showIngest()
  showState()
}, INGEST_MS)

void repeat(showLetters, LETTERS_MS)
