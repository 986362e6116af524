/**
 * The page: shows the view that the address names, and lets go of the one before.
 *
 * A view is made for `main`, is told of each change of the address that stays within it, and ends
 * with a signal, which ends its requests, timers and listeners with it.
 */

import { AlertsView } from './alerts-view.js'
import { ChartsView } from './charts-view.js'
import { DashboardView } from './dashboard-view.js'
import { DecodersView } from './decoders-view.js'
import { element } from './dom.js'
import { FleetView } from './fleet-view.js'
import { HealthView } from './health-view.js'
import { ImportView } from './import-view.js'
import { Keyring } from './keyring.js'
import { KeysView } from './keys-view.js'
import { LettersView } from './letters-view.js'
import { LiveView } from './live-view.js'
import { Platform } from './platform.js'
import { Rest } from './rest.js'
import { parseRoute } from './route.js'
import { SensorView } from './sensor-view.js'
import { listenToShortcuts } from './shortcuts.js'
import { loadTemplates } from './templates.js'

/**
 * @typedef {object} Context  What a view is made with.
 * @property {import('./rest.js').Rest} rest
 * @property {AbortSignal} signal  The view is over.
 * @property {(error: import('./rest.js').RestError) => void} report  A request failed.
 * @property {(hash: string) => void} replace  Goes there without a step to come back by.
 *
 * @typedef {object} View
 * @property {HTMLElement} element
 * @property {(query: URLSearchParams) => void} show  Now, and when the query is another.
 */

/** @typedef {new (context: Context, sensor: string) => View} ViewClass */

/** @type {Record<import('./route.js').Route['view'], ViewClass>} */
const CLASSES = {
  fleet: FleetView,
  sensors: SensorView,
  live: LiveView,
  charts: ChartsView,
  dashboards: DashboardView,
  alerts: AlertsView,
  'dead-letters': LettersView,
  decoders: DecodersView,
  import: ImportView,
  keys: KeysView,
  health: HealthView,
}

const TITLES = {
  fleet: 'Fleet',
  live: 'Live',
  charts: 'Charts',
  dashboards: 'Dashboard',
  alerts: 'Alerts',
  'dead-letters': 'Dead letters',
  decoders: 'Decoders',
  import: 'Import',
  keys: 'Keys',
  health: 'Health',
}

/** Views that are opened from another one. */
const PARENTS = new Map([
  ['sensors', 'fleet'],
  ['dashboards', 'charts'],
])

const main = /** @type {HTMLElement} */ (document.getElementById('main'))
const platform = new Platform()
const keyring = new Keyring(() => {
  shown = undefined
  show()
})
const rest = new Rest(keyring)

/** @type {{ name: string, view: View, controller: AbortController } | undefined} */
let shown
let isFirst = true

function show() {
  const route = parseRoute(location.hash)
  const name = `${route.view}/${route.sensor ?? ''}`
  if (shown?.name !== name) {
    shown?.controller.abort()
    const controller = new AbortController()
    const view = new CLASSES[route.view](
      {
        rest,
        signal: controller.signal,
        report: (error) => platform.note(error),
        replace: (hash) => {
          if (hash === location.hash) return
          history.replaceState(null, '', hash)
          show()
        },
      },
      route.sensor ?? '',
    )
    shown = { name, view, controller }
    main.replaceChildren(view.element)
    mark(route)
  }
  shown.view.show(route.query)
}

/**
 * Says where the page is now, to eyes and to a screen reader.
 *
 * @param {import('./route.js').Route} route
 */
function mark({ view, sensor }) {
  const name = view === 'sensors' ? String(sensor) : TITLES[view]
  document.title = `${name} · Sandglass`
  for (const link of document.querySelectorAll('#views a')) {
    const isHere = link.getAttribute('href') === `#/${PARENTS.get(view) ?? view}`
    if (isHere) link.setAttribute('aria-current', PARENTS.has(view) ? 'true' : 'page')
    else link.removeAttribute('aria-current')
  }
  if (!isFirst) {
    main.querySelector('h2')?.focus({ preventScroll: true })
    scrollTo(0, 0)
  }
  isFirst = false
}

document.querySelector('.skip')?.addEventListener('click', (event) => {
  event.preventDefault()
  main.querySelector('h2')?.focus()
})
for (const dialog of document.querySelectorAll('dialog')) {
  const close = element('button', { type: 'button', class: 'quiet' }, 'Close')
  close.addEventListener('click', () => dialog.close())
  dialog.querySelector('.buttons')?.append(close)
}
// Keys may be pressed before the first view is there: it is that of the address, then.
listenToShortcuts()
await Promise.all(
  ['manage.html', 'charts.html', 'decoders.html', 'letters.html'].map(loadTemplates),
)
addEventListener('hashchange', show)
show()
platform.watch(rest)
