/**
 * The directory of a spool: opened by one process at a time, in a version that it knows. Tells what
 * an earlier run left there, and what of that is missing.
 */

import { randomUUID } from 'node:crypto'
import { basename, join } from 'node:path'
import { SettingError } from '@sandglass/common/options'
import { Head, readHead } from './head.js'
import { isOfVersion1, scanSegment, scanSegment1 } from './scan.js'
import { Segment, segmentName, segmentPath } from './segment.js'
import { survey } from './survey.js'

const FORMAT_1 = 'sandglass spool 1\n'
const FORMAT_2 = /^sandglass spool 2 ([0-9a-f]{32})\n$/

/** Files that are no segments, but ours; and a directory that file systems have. */
const KNOWN = new Set([
  ...['LOCK', 'FORMAT', 'FORMAT.new', 'HEAD', 'HEAD.damaged', 'lost+found'],
  ...['DECODERS', 'DECODERS.new'],
])

/** The spool of a further process, which is in that of the first one. */
const OTHER_SPOOL = /^process-(\d+)$/

/** Most names of files that are not ours which are said in one line. */
const UNKNOWN_NAMED_MAX = 10

/**
 * @typedef {object} Parts
 * @property {import('./disk.js').Disk} disk
 * @property {string} directory
 * @property {import('pino').Logger} logger
 * @property {<Result>(path: string, read: () => Promise<Result>) => Promise<Result>} patiently
 *   Tries again what fails, for a while.
 */

/**
 * @typedef {object} Opened
 * @property {{ close: () => Promise<void> }} lock  Holds the directory until it is closed.
 * @property {Head} head
 * @property {Segment[]} segments  Oldest first.
 * @property {number} nextNumber  Of a segment.
 * @property {number} messages  That an earlier run left, lost ones that are new among them.
 * @property {number} lost  Messages of these that cannot be read.
 * @property {number} damaged  Files that are damaged, cut or missing.
 */

/** Whose spool a directory in that of the first process is, by name. @param {string} name */
export function spoolIndex(name) {
  const match = OTHER_SPOOL.exec(name)
  return match ? Number(match[1]) : undefined
}

/**
 * Opens a directory, which is made if need be.
 *
 * @param {Parts} parts
 * @returns {Promise<Opened>}
 */
export async function openDirectory(parts) {
  const { disk, directory } = parts
  await disk.makeDirectory(directory)
  const lock = await disk.lock(join(directory, 'LOCK'))
  if (!lock) {
    throw new SettingError(
      `${directory} is used by another ingest: give each its own with --spool-dir`,
    )
  }
  try {
    return { lock, ...(await recover(parts)) }
  } catch (error) {
    await lock.close()
    throw error
  }
}

/** @param {Parts} parts */
async function recover(parts) {
  const { disk, directory } = parts
  const names = await parts.patiently(directory, () => disk.list(directory))
  nameUnknown(parts, names)
  const format = await readFormat(parts, names)
  const files = filesOf(names, format.state)
  const scans = []
  for (const { number, name } of files.needed) {
    const path = join(directory, name)
    const file = await parts.patiently(path, () => disk.readFile(path))
    const isOld = number < (format.state?.format2From ?? Number.POSITIVE_INFINITY)
    const isVersion1 = format.version === 1 || (isOld && isOfVersion1(file))
    scans.push(isVersion1 ? scanSegment1(file, number) : scanSegment(file, number, format.id))
  }
  const found = survey(format.state, scans)
  const head = await openHead(parts, format, {
    id: format.id,
    startSegment: scans[0]?.number ?? files.nextNumber,
    startPosition: scans.length > 0 ? found.startPosition : found.endPosition,
    endPosition: found.endPosition,
    lastSegment: format.state?.lastSegment ?? -1,
    lastPosition: format.state?.lastPosition ?? 0,
    lost: scans.length > 0 ? found.lost : 0,
    format2From: format.version === 1 ? files.nextNumber : (format.state?.format2From ?? 0),
  })
  for (const name of files.done) await disk.remove(join(directory, name))
  const segments = found.segments.map((segment, index) => {
    return new Segment(disk, join(directory, files.needed[index].name), format.id, segment)
  })
  for (const [index, { scan }] of found.segments.entries()) {
    if (scan.hasFailed) await segments[index].cut().catch((error) => noteUncut(parts, error))
  }
  const lost = Math.max(0, found.lost - (format.state?.lost ?? 0))
  const damaged = noteDamage(parts, format, segments, lost)
  return {
    head,
    segments,
    nextNumber: files.nextNumber,
    messages: found.messages + lost,
    lost,
    damaged,
  }
}

/** @param {Parts} parts  @param {Error} error */
function noteUncut({ logger, directory }, { message: reason }) {
  logger.warn({ directory, reason }, 'a block that failed cannot be taken back: it is ignored')
}

/**
 * @param {Parts} parts
 * @param {Format} format
 * @param {Segment[]} segments
 * @param {number} lost
 */
function noteDamage({ logger, directory }, { isHeadLost }, segments, lost) {
  const files = segments.filter(({ isDamaged }) => isDamaged).map(({ path }) => path)
  if (isHeadLost) {
    files.push(join(directory, 'HEAD'))
    logger.error(
      { directory },
      'HEAD of the spool is damaged: files that are missing are not noticed',
    )
  }
  if (files.length > 0 || lost > 0) {
    logger.error(
      { directory, files, lost },
      'a part of the spool is damaged or missing: the rest is stored, and the files are kept as ' +
        '.damaged; lost is how many acknowledged messages that took',
    )
  }
  return files.length > 0 || lost === 0 ? files.length : 1
}

/**
 * Segments by number, and what is not needed any more.
 *
 * @param {string[]} names
 * @param {import('./head.js').HeadState} [state]  Without it all are needed.
 */
function filesOf(names, state) {
  const { startSegment, lastSegment } = state ?? { startSegment: 0, lastSegment: -1 }
  const segments = names.flatMap((name) => {
    const parsed = segmentName(name)
    return parsed ? [{ name, ...parsed }] : []
  })
  segments.sort((a, b) => a.number - b.number || b.copy - a.copy)
  const plain = segments.filter(({ isSetAside }) => !isSetAside)
  const needed = plain.filter(({ number }) => number >= startSegment)
  const first = segments.find(({ number }) => number === startSegment)
  // It was being set aside: HEAD does not say yet that it is not needed.
  if (state && first?.isSetAside && needed[0]?.number !== startSegment) needed.unshift(first)
  return {
    needed,
    done: plain.filter(({ number }) => number < startSegment).map(({ name }) => name),
    nextNumber: Math.max(
      startSegment,
      lastSegment + 1,
      ...segments.map(({ number }) => number + 1),
    ),
  }
}

/** @param {Parts} parts  @param {string[]} names */
function nameUnknown({ logger, directory }, names) {
  const isKnown = (/** @type {string} */ name) => KNOWN.has(name) || spoolIndex(name) !== undefined
  const unknown = names.filter((name) => !isKnown(name) && !segmentName(name))
  if (unknown.length === 0) return
  const files = unknown.slice(0, UNKNOWN_NAMED_MAX)
  logger.warn(
    { directory, files, count: unknown.length },
    'files that are not of the spool are in it',
  )
}

/**
 * @typedef {object} Format
 * @property {1 | 2} version
 * @property {string} id
 * @property {import('./head.js').HeadState} [state]  Nothing where the spool is new, or of version
 *   1, or HEAD is lost.
 * @property {ReturnType<typeof readHead>} [head]
 * @property {boolean} isHeadLost
 * @property {boolean} isWritten  Whether FORMAT says it already.
 */

/** @param {Parts} parts  @param {string[]} names  @returns {Promise<Format>} */
async function readFormat({ disk, directory, patiently }, names) {
  const read = async (/** @type {string} */ name) => {
    const path = join(directory, name)
    return names.includes(name) ? patiently(path, () => disk.readFile(path)) : Buffer.alloc(0)
  }
  const text = (await read('FORMAT')).toString()
  const bytes = await read('HEAD')
  const head = readHead(bytes)
  const id = FORMAT_2.exec(text)?.[1]
  const path = join(directory, 'FORMAT')
  if (text === FORMAT_1) {
    return { version: 1, id: newId(), isHeadLost: false, isWritten: false }
  }
  if (text !== '' && id === undefined) {
    throw new SettingError(
      `${path} says "${text.trim().slice(0, 80)}", this version knows "sandglass spool 1" and ` +
        '"sandglass spool 2": start the version that wrote it until the spool is empty, or choose ' +
        'another --spool-dir',
    )
  }
  if (head && id !== undefined && id !== head.state.id) {
    throw new SettingError(
      `${path} and HEAD are of two spools: put back the one that belongs to the files in ` +
        `${directory}, or choose another --spool-dir`,
    )
  }
  if (head) {
    const isWritten = id !== undefined
    return { version: 2, id: head.state.id, state: head.state, head, isHeadLost: false, isWritten }
  }
  if (id !== undefined) return { version: 2, id, isHeadLost: true, isWritten: true }
  // A crash may leave FORMAT empty; it is written before the first segment is.
  if (names.some((name) => segmentName(name)?.isSetAside === false)) {
    throw new SettingError(
      `${directory} has files of a spool, but neither FORMAT nor HEAD, without which they cannot be ` +
        'read: put one of the two back, or choose another --spool-dir',
    )
  }
  return { version: 2, id: newId(), isHeadLost: false, isWritten: false }
}

function newId() {
  return randomUUID().replaceAll('-', '')
}

/**
 * Writes HEAD, then FORMAT if that does not say yet what HEAD does: the spool is of version 2 from
 * then on.
 *
 * @param {Parts} parts
 * @param {Format} format
 * @param {import('./head.js').HeadState} state
 */
async function openHead({ disk, directory }, format, state) {
  const path = join(directory, 'HEAD')
  if (format.isHeadLost) await disk.rename(path, `${path}.damaged`).catch(ignoreMissing)
  const head = new Head(await disk.open(path, 'update'), state, format.head)
  await head.sync()
  await disk.syncDirectory(directory)
  if (format.isWritten) return head
  const written = join(directory, 'FORMAT.new')
  const file = await disk.open(written, 'update')
  try {
    await file.write(Buffer.from(`sandglass spool 2 ${format.id}\n`), 0)
    await file.datasync()
  } finally {
    await file.close()
  }
  await disk.rename(written, join(directory, 'FORMAT'))
  await disk.syncDirectory(directory)
  return head
}

/** @param {NodeJS.ErrnoException} error */
function ignoreMissing(error) {
  if (error.code !== 'ENOENT') throw error
}

/**
 * The file of a damaged segment gets a name under which it is kept.
 *
 * @param {import('./disk.js').Disk} disk
 * @param {string} directory
 * @param {Segment} segment
 */
export async function setAside(disk, directory, segment) {
  const names = await disk.list(directory)
  const base = basename(segmentPath(directory, segment.number))
  // It may have been set aside before a crash.
  if (basename(segment.path) === base) {
    let name = `${base}.damaged`
    for (let copy = 2; names.includes(name); copy++) name = `${base}.damaged-${copy}`
    await disk.rename(segment.path, join(directory, name))
    segment.path = join(directory, name)
  }
  await disk.syncDirectory(directory)
}
