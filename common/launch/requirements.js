/**
 * What a machine needs to build and run Sandglass. Works with Node alone, because it runs before
 * any package is installed. Each thing that is missing is one line that says what to do.
 */

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Failure } from './failure.js'

const NODE_MAJOR_MIN = 20

/**
 * Whether `version` is at least `minimum`, number by number.
 *
 * @param {string} version  e.g. `1.95.0`
 * @param {string} minimum  e.g. `1.95`
 */
export function atLeast(version, minimum) {
  const have = version.split('.').map((part) => Number.parseInt(part, 10))
  const need = minimum.split('.').map((part) => Number.parseInt(part, 10))
  for (const [index, part] of need.entries()) {
    const own = have[index] ?? 0
    if (own !== part) return own > part
  }
  return true
}

/**
 * @param {{ platform: string, nodeVersion: string }} machine
 * @throws {Failure}
 */
export function checkMachine({ platform, nodeVersion }) {
  if (platform !== 'linux') {
    throw new Failure(
      `Sandglass runs on Linux, and this is ${platform}: use a Linux machine or a virtual one`,
    )
  }
  if (!atLeast(nodeVersion, `${NODE_MAJOR_MIN}`)) {
    throw new Failure(
      `Node ${nodeVersion} is too old: Sandglass needs Node ${NODE_MAJOR_MIN} or newer`,
    )
  }
}

/**
 * Checks the tools that the engine is built with.
 *
 * @param {string} root  The repository.
 * @throws {Failure}
 */
export function checkTools(root) {
  const manifest = readFileSync(join(root, 'db-engine/Cargo.toml'), 'utf8')
  const minimum = /^rust-version\s*=\s*"([\d.]+)"/m.exec(manifest)?.[1] ?? '0'
  const install = 'install Rust with rustup (https://rustup.rs)'
  if (version('cargo') === undefined) throw new Failure(`cargo is missing: ${install}`)
  const rustc = version('rustc')
  if (rustc === undefined) throw new Failure(`rustc is missing: ${install}`)
  if (!atLeast(rustc, minimum)) {
    throw new Failure(`rustc ${rustc} is too old: the engine needs ${minimum}; run: rustup update`)
  }
  if (version('cc') === undefined) {
    throw new Failure(
      'a C compiler (cc) is missing: install one, e.g. with: apt-get install build-essential',
    )
  }
}

/**
 * The version a tool says it has.
 *
 * @param {string} tool
 * @returns {string | undefined}  Undefined if it cannot be run; `0` if it says none.
 */
function version(tool) {
  const { error, status, stdout } = spawnSync(tool, ['--version'], { encoding: 'utf8' })
  if (error || status !== 0) return undefined
  return /\d+\.\d+(\.\d+)?/.exec(stdout)?.[0] ?? '0'
}
