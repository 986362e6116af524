/** The directory of a spool: opened by one process at a time, in a format that it knows. */

import { mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SettingError } from '@sandglass/common/options'
// @ts-expect-error: the package has no types
import { tryLock } from 'fs-native-extensions'
import { findBlocks } from './block.js'
import { Segment, segmentNumber } from './segment.js'

const FORMAT = 'sandglass spool 1\n'

/**
 * Opens a directory, which is made if need be.
 *
 * @param {string} directory
 * @returns {Promise<import('node:fs/promises').FileHandle>}  Holds the lock until it is closed.
 */
export async function lockDirectory(directory) {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const lock = await open(join(directory, 'LOCK'), 'a', 0o600)
  if (!tryLock(lock.fd)) {
    await lock.close()
    throw new SettingError(
      `${directory} is used by another ingest: give each its own with --spool-dir`,
    )
  }
  await checkFormat(directory)
  return lock
}

/** @param {string} directory */
async function checkFormat(directory) {
  const path = join(directory, 'FORMAT')
  const found = await readFile(path, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (found === FORMAT) return
  // A crash may leave it empty; it is written before the first segment is.
  if (found) {
    throw new SettingError(
      `${path} says "${found.trim().slice(0, 80)}", this version knows "${FORMAT.trim()}": ` +
        'start the version that wrote it until the spool is empty, or choose another --spool-dir',
    )
  }
  await writeFile(path, FORMAT, { flush: true, mode: 0o600 })
  await syncDirectory(directory)
}

/** Makes names of files durable. @param {string} directory */
export async function syncDirectory(directory) {
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/**
 * The segments that an earlier run left, oldest first.
 *
 * @param {string} directory
 * @returns {AsyncGenerator<{ segment: Segment, isDamaged: boolean }>}
 */
export async function* readSegments(directory) {
  const names = await readdir(directory)
  const numbers = names.map(segmentNumber).filter((number) => number !== undefined)
  for (const number of numbers.sort((a, b) => a - b)) {
    const segment = new Segment(directory, number)
    const file = await readFile(segment.path)
    const { blocks, isDamaged } = findBlocks(file, number)
    segment.blocks = blocks
    segment.bytes = file.length
    yield { segment, isDamaged }
  }
}
