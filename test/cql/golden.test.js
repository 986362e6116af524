// A directory that an earlier version left, killed, holds for this one what it held for that one.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { startStack } from '../support/stack.js'
import { readAll, restart } from './golden/data.js'

const GOLDEN = join(import.meta.dirname, 'golden')
const names = readdirSync(GOLDEN)
  .filter((file) => file.endsWith('.tar.gz'))
  .map((file) => file.slice(0, -'.tar.gz'.length))

test.each(names)(
  'the directory %s is read as it was written, and again after a stop',
  async (name) => {
    const stack = await startStack({
      parts: ['engine'],
      prepare: async ({ directory }) => {
        mkdirSync(join(directory, 'data'))
        execFileSync('tar', ['-C', join(directory, 'data'), '-xzf', join(GOLDEN, `${name}.tar.gz`)])
      },
    })
    try {
      let client = await stack.client()
      const written = JSON.parse(readFileSync(join(GOLDEN, `${name}.json`), 'utf8'))
      expect(await readAll(client)).toEqual(written)
      client = await restart(stack)
      expect(await readAll(client)).toEqual(written)
    } finally {
      await stack.end()
    }
  },
)
