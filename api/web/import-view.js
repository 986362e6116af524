/**
 * Import: a file is looked through first, without anything being stored; then it is stored, while
 * the page says how far it has come.
 */

import { element, fromTemplate, keepRoles, part, setText } from './dom.js'
import { printBytes, printCount } from './format.js'
import { formatOf, printKeeping, printOutcome, printPreview } from './import-file.js'
import { attempts } from './repeat.js'
import { upload } from './upload.js'

/** @typedef {import('./import-file.js').Progress} Progress */

export class ImportView {
  element = fromTemplate('import')
  #context
  #attempt
  #form
  /** What is sent now. @type {AbortController | undefined} */
  #sending
  /** The last answer, of whatever it was asked for. @type {Progress | undefined} */
  #last

  /** @param {import('./page.js').Context} context */
  constructor(context) {
    this.#context = context
    this.#attempt = attempts(context, part(this.element, 'note'))
    this.#form = /** @type {HTMLFormElement} */ (part(this.element, 'form'))
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault()
      this.#start(true, 1)
    })
    this.#form.addEventListener('change', () => this.#forget())
    part(this.element, 'store').addEventListener('click', () => this.#start(false, 1))
    part(this.element, 'again').addEventListener('click', () => {
      this.#start(false, this.#last?.problem?.from_line ?? 1)
    })
    part(this.element, 'stop').addEventListener('click', () => this.#sending?.abort())
    addEventListener('beforeunload', (event) => this.#sending && event.preventDefault(), {
      signal: context.signal,
    })
  }

  show() {}

  get #file() {
    const field = /** @type {HTMLInputElement} */ (this.#form.elements.namedItem('file'))
    return field.files?.[0]
  }

  /** Another file: nothing is known of it yet. */
  #forget() {
    this.#last = undefined
    part(this.element, 'result').hidden = true
    setText(part(this.element, 'note'), '')
  }

  /** @param {boolean} isDry  @param {number} fromLine */
  #start(isDry, fromLine) {
    const file = this.#file
    const format = file && formatOf(file.name)
    if (!file || !format) {
      const wrong = file
        ? `${file.name} is no file that is understood: its name ends in .csv or .ndjson, or with .gz after that.`
        : 'Choose a file first.'
      setText(part(this.element, 'file-error'), wrong)
      this.#form.querySelector('input')?.focus()
      return
    }
    setText(part(this.element, 'file-error'), '')
    if (this.#sending) return
    this.#attempt(() => this.#send(file, format, { isDry, fromLine }))
  }

  /**
   * @param {File} file
   * @param {{ format: string, isPacked: boolean }} format
   * @param {{ isDry: boolean, fromLine: number }} how
   */
  async #send(file, { format, isPacked }, { isDry, fromLine }) {
    const { rest, signal } = this.#context
    const sending = new AbortController()
    this.#sending = sending
    this.#show(isDry, file.size)
    try {
      const headers = await rest.authorization(signal)
      await upload({
        path: this.#path(format, isDry, fromLine),
        file,
        headers: isPacked ? { ...headers, 'content-encoding': 'gzip' } : headers,
        signal: AbortSignal.any([signal, sending.signal]),
        onSent: (bytes) => this.#showSent(bytes, file.size),
        onLine: (line) => this.#showLine(line, isDry),
      })
    } catch (error) {
      if (!sending.signal.aborted) throw error
    } finally {
      this.#sending = undefined
      part(this.element, 'progress-part').hidden = true
      this.#showButtons(isDry)
    }
  }

  /** @param {string} format  @param {boolean} isDry  @param {number} fromLine */
  #path(format, isDry, fromLine) {
    const data = new FormData(this.#form)
    const query = new URLSearchParams({ format })
    for (const name of ['sensor', 'retention']) {
      const value = String(data.get(name)).trim()
      if (value !== '') query.set(name, value)
    }
    if (isDry) query.set('dry_run', 'true')
    if (fromLine > 1) query.set('from_line', String(fromLine))
    return `v1/import?${query}`
  }

  /** @param {boolean} isDry  @param {number} size */
  #show(isDry, size) {
    this.#last = undefined
    const { element: root } = this
    part(root, 'result').hidden = false
    part(root, 'progress-part').hidden = false
    setText(part(root, 'result-title'), isDry ? 'What is in the file' : 'Import')
    setText(part(root, 'outcome'), '')
    setText(part(root, 'note'), '')
    part(root, 'preview').replaceChildren()
    this.#showRefused([], 0)
    for (const name of ['store', 'again', 'fleet']) part(root, name).hidden = true
    this.#showSent(0, size)
  }

  /** @param {number} bytes  @param {number} size */
  #showSent(bytes, size) {
    const bar = /** @type {HTMLProgressElement} */ (part(this.element, 'progress'))
    bar.max = Math.max(1, size)
    bar.value = Math.min(bytes, size)
    const sent = `${printBytes(Math.min(bytes, size))} of ${printBytes(size)} sent`
    setText(
      part(this.element, 'sent'),
      bytes < size ? sent : 'All is sent; the rest is being looked at',
    )
  }

  /** @param {Progress} line  @param {boolean} isDry */
  #showLine(line, isDry) {
    this.#last = line
    if (line.done === undefined) {
      setText(part(this.element, 'sent'), `${printCount(line.rows)} rows so far`)
      return
    }
    const outcome = part(this.element, 'outcome')
    setText(outcome, printOutcome(line, isDry))
    outcome.className = line.done && line.refused_rows === 0 ? 'right' : 'wrong'
    const lines = isDry ? printPreview(line) : printKeeping(line)
    part(this.element, 'preview').replaceChildren(...lines.map((text) => element('li', {}, text)))
    this.#showRefused(line.refused, line.refused_rows)
  }

  /** @param {Progress['refused']} refused  @param {number} rows */
  #showRefused(refused, rows) {
    part(this.element, 'refused').hidden = refused.length === 0
    part(this.element, 'refused-rows').replaceChildren(
      ...refused.map(({ line, reason }) =>
        element('tr', {}, element('td', {}, printCount(line)), element('td', {}, reason)),
      ),
    )
    keepRoles(this.element)
    const more = rows - refused.length
    setText(part(this.element, 'refused-note'), more > 0 ? `and ${printCount(more)} more` : '')
  }

  /** What can be done next. @param {boolean} isDry */
  #showButtons(isDry) {
    const { done, stored = 0, problem } = this.#last ?? {}
    part(this.element, 'store').hidden = !isDry || done !== true || stored === 0
    part(this.element, 'fleet').hidden = isDry || done !== true
    part(this.element, 'again').hidden = isDry || done === true || !problem
    if (done === undefined) {
      const whole = 'It was broken off. What is stored stays; the same file can be imported again.'
      const dry = 'The file was not looked through to its end. Nothing was stored.'
      setText(part(this.element, 'outcome'), isDry ? dry : whole)
      part(this.element, 'outcome').className = 'wrong'
    }
  }
}
