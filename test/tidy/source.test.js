// House rules of the JavaScript that no linter knows.
import { builtinModules } from 'node:module'
import { dirname, join, normalize } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { files, read, WORKSPACES } from './files.js'

const LINES_MAX = 500
const COLUMNS_MAX = 100
const FOLDER_FILES_MAX = 15

const SOURCES = files('*.js', '*.css', '*.html').filter((path) => !path.includes('/fixtures/'))
const SCRIPTS = SOURCES.filter((path) => path.endsWith('.js'))
const isTest = (/** @type {string} */ path) => /(^|\/)test\//.test(path)

/** Without its block comments, in which only types are imported. @param {string} text */
const withoutComments = (text) => text.replace(/\/\*\*[\s\S]*?\*\//g, '')

/**
 * Every module that a file names: imports, exports from, imports of types, new URL(…) excepted.
 *
 * @param {string} text
 */
function imports(text) {
  const pattern = /(?:^|[^.\w])(?:from\s+|import\s*\(\s*|import\s+)'([^'\n]+)'/g
  return [...text.matchAll(pattern)].map(([, name]) => name)
}

/** `@scope/name/file` → `@scope/name`. @param {string} specifier */
function packageOf(specifier) {
  const parts = specifier.split('/')
  return specifier.startsWith('@') ? parts.slice(0, 2).join('/') : parts[0]
}

/** @param {string} path */
const workspaceOf = (path) => WORKSPACES.find((name) => path.startsWith(`${name}/`))

/** What breaks a rule, as `path: what`. @param {(path: string, text: string) => string[]} rule */
function broken(rule, paths = SCRIPTS) {
  return paths.flatMap((path) => rule(path, read(path)).map((what) => `${path}: ${what}`))
}

describe('a file', () => {
  test(`has at most ${LINES_MAX} lines, and comments of at most ${COLUMNS_MAX} columns`, () => {
    const long = broken((_, text) => {
      const lines = text.split('\n')
      // The formatter sees to the width of code; what it leaves is a literal it cannot break.
      const wide = lines.findIndex(
        (line) =>
          line.length > COLUMNS_MAX && /^\s*(\*|\/[/*])/.test(line) && !/https?:/.test(line),
      )
      return [
        ...(lines.length > LINES_MAX + 1 ? [`${lines.length} lines`] : []),
        ...(wide >= 0 ? [`line ${wide + 1} has ${lines[wide].length} columns`] : []),
      ]
    }, SOURCES)
    expect(long).toEqual([])
  })

  test('begins by saying what it is', () => {
    const silent = broken(
      (_, text) => (/^(#!.*\n)?\s*\/[/*]/.test(text) ? [] : ['no first paragraph']),
      SCRIPTS.filter((path) => !isTest(path) && !path.endsWith('jest.config.js')),
    )
    expect(silent).toEqual([])
  })

  test('leaves nothing for later', () => {
    const marks = new RegExp(
      `\\b(${['TO', 'FIX', 'XX'].map((a, i) => a + ['DO', 'ME', 'X'][i]).join('|')})\\b`,
    )
    expect(broken((_, text) => (marks.test(text) ? [String(marks.exec(text)?.[0])] : []))).toEqual(
      [],
    )
  })
})

/** Words of our own, and what the field says. @type {[RegExp, string][]} */
const WORDS = [
  [/\bdetour/i, 'diversion'],
  [/\bheal(s|ed|ing)?\b/i, 'repair'],
  [/\b(takes?|took) (its|their) leave\b/i, 'disconnect'],
  [/\bletter budget/i, 'dead-letter quota'],
]

test('says what the field says', () => {
  const documents = files('*.md').filter((path) => !/docs\/adr|CHANGELOG/.test(path))
  const sources = SOURCES.filter((path) => path !== 'test/tidy/source.test.js')
  const own = broken(
    (_, text) =>
      WORDS.flatMap(([word, field]) => {
        const found = word.exec(text)
        return found ? [`"${found[0]}": say ${field}`] : []
      }),
    [...sources, ...documents],
  )
  expect(own).toEqual([])
})

test('an object says its members plainly, and a class hides what is private', () => {
  const packed = broken(
    (path, text) => {
      if (path === 'test/tidy/source.test.js') return []
      return ['...{', '@private'].filter((mark) => text.includes(mark))
    },
    [...SCRIPTS],
  )
  expect(packed).toEqual([])
})

describe('an import', () => {
  test('stays within its workspace; only common is shared', () => {
    const crossing = broken((path, text) => {
      const workspace = workspaceOf(path)
      return imports(text).filter((name) => {
        if (name.startsWith('.')) {
          const target = normalize(join(dirname(path), name))
          return workspaceOf(target) !== workspace
        }
        const other = /^@sandglass\/(.*?)(\/|$)/.exec(name)?.[1]
        return other !== undefined && other !== 'common' && other !== workspace
      })
    })
    expect(crossing).toEqual([])
  })

  test('of ingest goes one way: each folder uses only those after it', () => {
    const order = ['external', 'http', 'processes', 'broker', 'decoders', 'spool', 'message']
    order.push(
      'sparkplug',
      'deletion',
      'rewrite',
      'notify',
      'rules',
      'jobs',
      'rollup',
      'sensors',
      'write',
    )
    const folderOf = (/** @type {string} */ path) => path.split('/')[2]
    const paths = SCRIPTS.filter((path) => /^ingest\/src\/\w+\//.test(path))
    expect([...new Set(paths.map(folderOf))].sort()).toEqual([...order].sort())
    const upwards = broken(
      (path, text) =>
        imports(withoutComments(text)).filter((name) => {
          if (!name.startsWith('.')) return false
          const target = folderOf(normalize(join(dirname(path), name)))
          return order.indexOf(target) < order.indexOf(folderOf(path))
        }),
      paths,
    )
    expect(upwards).toEqual([])
  })

  test('is declared in the package that needs it', () => {
    const builtins = new Set(builtinModules)
    const root = JSON.parse(read('package.json'))
    const undeclared = broken((path, text) => {
      const workspace = workspaceOf(path)
      if (!workspace) return []
      const own = JSON.parse(read(`${workspace}/package.json`))
      const declared = new Set([
        ...Object.keys(own.dependencies ?? {}),
        ...Object.keys(own.devDependencies ?? {}),
        ...(isTest(path) ? [...Object.keys(root.devDependencies), '@jest/globals'] : []),
        own.name,
      ])
      return imports(withoutComments(text)).filter((name) => {
        if (name.startsWith('.') || name.startsWith('/') || name.startsWith('node:')) return false
        return !builtins.has(name) && !declared.has(packageOf(name))
      })
    })
    expect(undeclared).toEqual([])
  })

  test('of casual is in the fleet alone', () => {
    const users = SCRIPTS.filter((path) => imports(read(path)).includes('casual'))
    expect(users).toEqual(['simulator/src/fleet.js'])
  })

  test('of a package is not needed to set a clone up', () => {
    const seen = new Set(['common/launch/main.js', 'common/launch/db.js', 'common/launch/test.js'])
    for (const path of seen) {
      // What `await import()` loads comes after the set-up.
      const text = read(path).replace(/await import\('[^']+'\)/g, '')
      for (const name of imports(withoutComments(text))) {
        if (name.startsWith('.')) seen.add(normalize(join(dirname(path), name)))
        else expect({ path, name }).toEqual({ path, name: expect.stringMatching(/^node:/) })
      }
    }
    expect(seen).toContain('common/launch/setup.js')
  })
})

test('a folder of ingest is a room, not a corridor', () => {
  /** @type {Map<string, number>} */
  const counts = new Map()
  for (const path of SCRIPTS.filter((one) => one.startsWith('ingest/src/'))) {
    counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1)
  }
  expect([...counts].filter(([, count]) => count > FOLDER_FILES_MAX)).toEqual([])
})

// Exported limits are documentation: their names and reasons are read, if not by code.
test('a function or class that is exported is imported somewhere', () => {
  const all = files('*.js', '*.html').map((path) => ({ path, text: read(path) }))
  const dead = broken((path, text) => {
    const pattern = /^export (?:async )?(?:function\*?|class) (\w+)/gm
    const names = [...text.matchAll(pattern)].map(([, name]) => name)
    return names.filter((name) => {
      const word = new RegExp(`\\b${name}\\b`)
      return !all.some((other) => other.path !== path && word.test(other.text))
    })
  })
  expect(dead).toEqual([])
})
