/** The file with the decoders that a process knew last: `docs/format/expression.md`. */

import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import { setOfText, setText } from '@sandglass/common/expressions/decoder'
import { realDisk } from '../spool/disk.js'

/** @typedef {import('@sandglass/common/expressions/decoder-store').Stored} Stored */
/** @typedef {import('../spool/disk.js').Disk} Disk */

const MAGIC = 'sandglass decoders 1'

/** @param {string} text */
const digestOf = (text) => createHash('sha256').update(text).digest('hex')

/**
 * @param {string} path
 * @param {Disk} [disk]
 * @returns {Promise<Stored | undefined>}  Undefined where there is none.
 * @throws {Error}  It is damaged, or of another version.
 */
export async function readFileOf(path, disk = realDisk) {
  let text
  try {
    text = (await disk.readFile(path)).toString()
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return undefined
    throw error
  }
  const [magic, digest, revision, ...body] = text.split('\n')
  if (magic !== MAGIC) throw new Error('it is of another version')
  const set = body.join('\n')
  if (digest !== digestOf(`${revision}\n${set}`)) throw new Error('it is damaged')
  return { revision: Number(revision), set: setOfText(set) }
}

/**
 * Replaces it as a whole: after a crash it is the old one or the new one.
 *
 * @param {string} path
 * @param {Stored} stored
 * @param {Disk} [disk]
 */
export async function writeFileOf(path, { revision, set }, disk = realDisk) {
  const body = `${revision}\n${setText(set)}`
  const bytes = Buffer.from(`${MAGIC}\n${digestOf(body)}\n${body}`)
  const file = await disk.open(`${path}.new`, 'update')
  try {
    await file.write(bytes, 0)
    await file.truncate(bytes.length)
    await file.datasync()
  } finally {
    await file.close()
  }
  await disk.rename(`${path}.new`, path)
  await disk.syncDirectory(dirname(path))
}
