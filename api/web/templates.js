/** Templates that are in files of their own, beside those of `index.html`. */

/**
 * Adds what a file has to the templates of the page.
 *
 * @param {string} path  Relative to the page.
 */
export async function loadTemplates(path) {
  const response = await fetch(path)
  if (!response.ok) throw new Error(`${path} is not there: ${response.status}`)
  const parsed = new DOMParser().parseFromString(await response.text(), 'text/html')
  document.body.append(...parsed.querySelectorAll('template'))
}
