// What node.Dockerfile does, without Docker: its copies and its `npm ci`, then the service starts.
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from '@jest/globals'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const INSTALL_MS_MAX = 120_000

const run = promisify(execFile)

/** @param {string} service  The steps of the Dockerfile, with its argument filled in. */
function steps(service) {
  const text = readFileSync(join(ROOT, 'docker/node.Dockerfile'), 'utf8')
  return text
    .replaceAll(`\${SERVICE}`, service)
    .split('\n')
    .map((line) => line.match(/^(COPY|RUN) (?!--from)(.*)$/))
    .filter((match) => match !== null)
    .map(([, instruction, rest]) => ({ instruction, words: rest.replaceAll('"', '').split(' ') }))
}

describe('the image of a service', () => {
  test.each(['ingest', 'api', 'simulator'])(
    'has all that %s needs to start',
    async (service) => {
      const directory = mkdtempSync(join(tmpdir(), 'sandglass-image-'))
      try {
        for (const { instruction, words } of steps(service)) {
          if (instruction === 'RUN') {
            await run(words[0], words.slice(1), { cwd: directory })
            continue
          }
          const target = join(directory, words[words.length - 1])
          for (const source of words.slice(0, -1)) {
            const isFolder = source.endsWith('/')
            const to = isFolder ? target : join(target, source.split('/').at(-1) ?? '')
            cpSync(join(ROOT, source), to, { recursive: true, filter: isOurs })
          }
        }
        const main = join(directory, service, 'src/main.js')
        const { stdout } = await run(process.execPath, [main, '--help'], { cwd: dirname(main) })
        expect(stdout).toContain('Usage')
      } finally {
        rmSync(directory, { recursive: true, force: true })
      }
    },
    INSTALL_MS_MAX,
  )
})

/** What the packages need is installed, not copied. @param {string} path */
function isOurs(path) {
  return !path.slice(ROOT.length).includes('node_modules')
}
