// Builds the engine before the tests that run it, unless they are given another database or
// another executable. Without a change this takes a fraction of a second.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export default function buildEngineIfNeeded() {
  if (!process.env.CQL_HOSTS) buildEngine()
}

/** Builds the engine, unless another executable is given. */
export function buildEngine() {
  if (process.env.SANDGLASS_DB) return
  const manifest = join(ROOT, 'db-engine/Cargo.toml')
  const { status, error } = spawnSync(
    'cargo',
    ['build', '--release', '--quiet', '--manifest-path', manifest],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  )
  if (error) throw new Error('the engine cannot be built: install Rust (https://rustup.rs)')
  if (status !== 0) throw new Error(`cargo build ended with ${status}`)
}
