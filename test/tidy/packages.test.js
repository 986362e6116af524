// The lockfile is one that `npm ci` takes on every machine.
import { expect, test } from '@jest/globals'
import { read } from './files.js'

/** @type {Record<string, { resolved?: string, optionalDependencies?: object }>} */
const packages = JSON.parse(read('package-lock.json')).packages

test('the lockfile has the packages of all systems, not only of the one it was made on', () => {
  const locked = new Set(Object.keys(packages).map((path) => path.split('node_modules/').at(-1)))
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies)
      .filter((name) => !locked.has(name))
      .map((name) => `${path} needs ${name}`),
  )
  expect(missing).toEqual([])
})

test('the lockfile names no registry', () => {
  const named = Object.entries(packages).filter(([, { resolved }]) => resolved?.startsWith('http'))
  expect(named.map(([path]) => path)).toEqual([])
})
