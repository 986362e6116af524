/** Keys for the whole page: `/` searches, `g` and a letter goes to a view, `?` tells them all. */

/** How long after `g` a letter still belongs to it, in milliseconds. */
const SECOND_KEY_MS_MAX = 1_500

const VIEW_KEYS = new Map([
  ['f', '#/fleet'],
  ['l', '#/live'],
  ['c', '#/charts'],
  ['a', '#/alerts'],
  ['d', '#/dead-letters'],
  ['o', '#/decoders'],
  ['i', '#/import'],
  ['k', '#/keys'],
  ['h', '#/health'],
])

/** Listens to the keys of the document. */
export function listenToShortcuts() {
  let goneAtMs = Number.NEGATIVE_INFINITY
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
    if (document.querySelector('dialog[open]')) return
    const hash = VIEW_KEYS.get(event.key)
    if (hash && event.timeStamp - goneAtMs < SECOND_KEY_MS_MAX) {
      event.preventDefault()
      location.hash = hash
    } else if (event.key === '/') {
      /** @type {HTMLElement | null} */
      const search = document.querySelector('main [data-search]')
      if (!search) return
      event.preventDefault()
      search.focus()
    } else if (event.key === '?') {
      const help = /** @type {HTMLDialogElement} */ (document.getElementById('keys-dialog'))
      help.showModal()
    }
    goneAtMs = event.key === 'g' ? event.timeStamp : Number.NEGATIVE_INFINITY
  })
}

/** Whether a key is text there. @param {EventTarget | null} target */
function isTyping(target) {
  return (
    target instanceof Element && target.matches('input:not([type="checkbox"]), textarea, select')
  )
}
