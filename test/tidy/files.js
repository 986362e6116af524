// The repository's own files, as git knows them.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Paths of the files that match, tracked or about to be, relative to the root.
 *
 * @param {...string} patterns  As git takes them.
 */
export function files(...patterns) {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate', '--']
  const output = execFileSync('git', [...args, ...patterns], { cwd: ROOT, encoding: 'utf8' })
  return output.split('\n').filter((path) => path !== '')
}

/** The text of a file. @param {string} path  Relative to the root. */
export const read = (path) => readFileSync(join(ROOT, path), 'utf8')

/** The services and libraries, each a folder with its own package.json. */
export const WORKSPACES = /** @type {const} */ ([
  'common',
  'ingest',
  'simulator',
  'api',
  'dashboards',
  'test',
])
