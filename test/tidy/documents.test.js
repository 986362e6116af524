// Documents lead where they say, and name commands that exist.
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from '@jest/globals'
import { files, read } from './files.js'

const DOCUMENTS = files('*.md').filter((path) => !path.includes('/fixtures/'))

/** A heading's anchor, as Markdown viewers make it. @param {string} heading */
const anchor = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .trim()
    .replaceAll(' ', '-')

/** @param {string} path */
function anchors(path) {
  return [...read(path).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchor(heading))
}

test('every link within the repository leads to a file and a heading', () => {
  const broken = DOCUMENTS.flatMap((path) =>
    [...read(path).matchAll(/\]\((?!https?:|mailto:)([^)\s]+)\)/g)].flatMap(([, link]) => {
      const [file, heading] = link.split('#')
      const target = file === '' ? path : normalize(join(dirname(path), file))
      const root = new URL('../../', import.meta.url)
      if (!existsSync(new URL(target, root))) return [`${path}: ${link}: no such file`]
      if (heading === undefined || anchors(target).includes(heading)) return []
      return [`${path}: ${link}: no such heading`]
    }),
  )
  expect(broken).toEqual([])
})

test('no document has the marks of a merge that was not finished', () => {
  const marks = /^(<{7}|={7}|>{7})( |$)/m
  expect(DOCUMENTS.filter((path) => marks.test(read(path)))).toEqual([])
})

test('every npm script that a document names exists', () => {
  const { scripts } = JSON.parse(read('package.json'))
  const builtin = new Set(['start', 'test', 'ci', 'install'])
  const unknown = DOCUMENTS.flatMap((path) =>
    [...read(path).matchAll(/\bnpm (?:run )?(?:-s |--silent )?([a-z][\w:-]*)/g)]
      .map(([whole, name]) => ({ whole, name }))
      .filter(({ whole, name }) => whole.includes(' run ') || ['start', 'test'].includes(name))
      .filter(
        ({ whole, name }) => !(name in scripts) && (whole.includes(' run ') || !builtin.has(name)),
      )
      .map(({ whole }) => `${path}: ${whole}`),
  )
  expect(unknown).toEqual([])
})
