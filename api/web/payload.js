/** Payloads as the reader can see them: text with its invisible signs, other bytes in hex. */

/** Bytes of a line of hex: a phone has room for so many. */
const LINE_BYTES = 8

/** So much of a payload is shown. */
const SHOWN_LENGTH_MAX = 4_000
const SHOWN_BYTES_MAX = 1_024

/** The first of the signs that stand for control characters (Unicode, Control Pictures). */
const PICTURES = 0x2400
const DELETE_PICTURE = '\u2421'

/**
 * @param {string} payload
 * @param {'utf8' | 'base64'} encoding
 * @returns {{ text: string, about: string }}  `about` says what it is, and how much.
 */
export function printPayload(payload, encoding) {
  if (encoding === 'utf8') {
    const text = payload.slice(0, SHOWN_LENGTH_MAX)
    const count = payload.length === 1 ? 'one character' : `${payload.length} characters`
    return { text: visible(text) + cut(text, payload), about: `Payload, ${count}` }
  }
  const bytes = atob(payload)
  const shown = bytes.slice(0, SHOWN_BYTES_MAX)
  const about = `Payload, no text: ${bytes.length} bytes in hex`
  return { text: hexDump(shown) + cut(shown, bytes), about }
}

/** @param {string} shown  @param {string} whole */
function cut(shown, whole) {
  return shown.length < whole.length ? '\n…' : ''
}

/** Shows what a terminal would obey. @param {string} text */
function visible(text) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f]/g, (char) =>
    char === '\x7f' ? DELETE_PICTURE : String.fromCharCode(PICTURES + char.charCodeAt(0)),
  )
}

/**
 * Lines of where, the bytes in hex, and those that are ASCII.
 *
 * @param {string} bytes  A character each.
 */
export function hexDump(bytes) {
  const lines = []
  for (let at = 0; at < bytes.length; at += LINE_BYTES) {
    const some = [...bytes.slice(at, at + LINE_BYTES)]
    const hex = some.map((char) => char.charCodeAt(0).toString(16).padStart(2, '0')).join(' ')
    const text = some.map((char) => (/[ -~]/.test(char) ? char : '.')).join('')
    const where = at.toString(16).padStart(4, '0')
    lines.push(`${where}  ${hex.padEnd(3 * LINE_BYTES - 1)}  ${text}`)
  }
  return lines.join('\n')
}
