// What a test needs of the machine. Without it the test says `not run: needs X`, and fails in CI,
// where everything is installed.
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/**
 * The programs among `names` that are not on the PATH.
 *
 * @param {string[]} names
 */
export function missingPrograms(names) {
  return names.filter((name) => !onPath(name))
}

/** @param {string} name */
function onPath(name) {
  return programPath(name) !== undefined
}

/**
 * Where a program is.
 *
 * @param {string} name
 */
export function programPath(name) {
  const paths = (process.env.PATH ?? '').split(delimiter).map((directory) => join(directory, name))
  return paths.find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/**
 * Declares tests that need something, or, if something is missing, one that says so.
 *
 * @param {string[]} missing  What is not there; empty if the tests can run.
 * @param {string} name
 * @param {() => void} body
 */
export function describeWith(missing, name, body) {
  if (missing.length === 0) {
    describe(name, body)
    return
  }
  const reason = `not run: needs ${missing.join(', ')}`
  describe(name, () => {
    test(reason, () => {
      process.stderr.write(`${name}: ${reason}\n`)
      if (process.env.CI === 'true') throw new Error(reason)
    })
  })
}
