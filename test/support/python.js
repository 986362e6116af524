// Programs of Python, from packages that `.ci/run` fetches: tests install them without a network.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Where the packages are. */
export const WHEELS = fileURLToPath(new URL('../../.ci/wheels', import.meta.url))

/**
 * The packages among `names` that were not fetched.
 *
 * @param {string[]} names
 */
export function missingPackages(names) {
  const wheels = existsSync(WHEELS) ? readdirSync(WHEELS) : []
  return names.filter((name) => {
    const start = `${name.replaceAll('-', '_')}-`
    return !wheels.some((wheel) => wheel.startsWith(start))
  })
}

/**
 * Installs packages; answers where their programs are, `python` among them.
 *
 * @param {string} directory  That is theirs alone.
 * @param {string[]} names
 */
export function installPackages(directory, names) {
  execFileSync('python3', ['-m', 'venv', directory])
  const programs = join(directory, 'bin')
  const pip = ['install', '--quiet', '--no-index', '--find-links', WHEELS, ...names]
  execFileSync(join(programs, 'pip'), pip)
  return programs
}
