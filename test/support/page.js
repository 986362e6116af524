// What a page of the documentation has its reader do, in order.
//
// Of its fenced blocks `sh` is typed into a shell; `text` is what the last of these printed, with
// `…` for anything; a block whose first line is a comment with a file name is saved as that file.
// What else there is the reader only looks at.

/**
 * @typedef {object} Step
 * @property {'type' | 'save' | 'look'} kind
 * @property {number} line  Where its block begins.
 * @property {string} language
 * @property {string} text
 * @property {string} [name]      Of the file that is saved.
 * @property {string} [expected]  What is printed.
 */

const BLOCK = /^(`{3,})([^\n]*)\n(.*?)^\1\s*?$/gms
const FILE_NAME = /^(?:#|\/\/) ([\w-]+\.\w+)\n/

/**
 * @param {string} markdown
 * @returns {Step[]}
 */
export function stepsOf(markdown) {
  /** @type {Step[]} */
  const steps = []
  for (const { index, 2: info, 3: text } of markdown.matchAll(BLOCK)) {
    const line = markdown.slice(0, index).split('\n').length
    const language = info.trim()
    const typed = steps.findLast(({ kind }) => kind === 'type')
    const name = FILE_NAME.exec(text)?.[1]
    if (language === 'sh') steps.push({ kind: 'type', line, language, text })
    else if (language === 'text' && typed && !typed.expected) typed.expected = text
    else if (name) steps.push({ kind: 'save', line, language, text, name })
    else steps.push({ kind: 'look', line, language, text })
  }
  return steps
}

/** Commands of which a reader sees nothing, when all goes well. */
const SILENT =
  /^$|^(\w+=|cat >|sleep |mosquitto_pub |kill |wait |mv |tar |mkdir |python3 -m venv |\S*pip install --quiet )| > \S+( 2>&1 &)?$/

/**
 * The commands of a block that print something.
 *
 * @param {string} text  Of a block of `sh`.
 */
export function printingCommands(text) {
  return text
    .replace(/<<'?(\w+)'?\n[\s\S]*?\n\1\n/g, '\n')
    .replace(/'[^']*'|"[^"]*"/g, 'Q')
    .replace(/(\\|\|)\n\s*/g, '| ')
    .replace(/^(for|until) [\s\S]*?\bdone\b/gm, '')
    .split(/\n|; /)
    .map((command) => command.trim())
    .filter((command) => !SILENT.test(command))
}

/**
 * Whether a program printed what a page says.
 *
 * @param {string} output
 * @param {string} expected  With `…` for anything.
 */
export function isPrinted(output, expected) {
  const parts = expected.trim().split(/\s*…\s*/)
  // Few answers end with a line break of their own.
  const pattern = parts.map((part) =>
    part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replace(/\s*\n\s*/g, '\\s*'),
  )
  return new RegExp(pattern.join('[^]*?')).test(output)
}
