/** What a form of filters says, and the same in an address: forms are kept by address alone. */

/** How long after the last key the address follows the form, in milliseconds. */
const TYPING_MS = 200

/**
 * Tells what the form says, shortly after it is changed.
 *
 * @param {HTMLFormElement} form
 * @param {(values: Record<string, string>) => void} onChange
 * @param {AbortSignal} signal
 */
export function listenToForm(form, onChange, signal) {
  let timer = 0
  const tell = () => {
    clearTimeout(timer)
    if (!signal.aborted) onChange(readForm(form))
  }
  form.addEventListener('input', () => {
    clearTimeout(timer)
    timer = window.setTimeout(tell, TYPING_MS)
  })
  form.addEventListener('change', tell)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    tell()
  })
}

/** @param {HTMLFormElement} form  @returns {Record<string, string>} */
function readForm(form) {
  return Object.fromEntries(
    [...new FormData(form)].map(([name, value]) => [name, String(value).trim()]),
  )
}

/**
 * Shows an address in the form, except where somebody is typing.
 *
 * @param {HTMLFormElement} form
 * @param {URLSearchParams} query
 */
export function fillForm(form, query) {
  for (const field of form.elements) {
    const isField = field instanceof HTMLInputElement || field instanceof HTMLSelectElement
    if (!isField || field === document.activeElement) continue
    const value = query.get(field.name) ?? ''
    if (field instanceof HTMLInputElement && field.type === 'checkbox') {
      field.checked = value === field.value
    } else {
      field.value = value
    }
  }
}

/**
 * The query of a list of sensors: the parts of an address that choose some.
 *
 * @param {URLSearchParams} query
 * @param {Record<string, string>} more
 */
export function sensorQuery(query, more) {
  const asked = new URLSearchParams(more)
  for (const name of ['q', 'type', 'tag']) {
    for (const value of query.getAll(name)) if (value !== '') asked.append(name, value)
  }
  return asked.toString()
}
