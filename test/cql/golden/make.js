// Makes a directory as this version of the engine leaves it when it is killed, and what it holds:
// `node test/cql/golden/make.js NAME` writes NAME.tar.gz and NAME.json. One is made for each format
// of the directory; tests see to it that later versions read it.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startStack } from '../../support/stack.js'
import { FLUSHED, LOGGED, readAll, restart } from './data.js'

const [name] = process.argv.slice(2)
if (!name) throw new Error('say how the directory is called: node test/cql/golden/make.js NAME')
const target = (/** @type {string} */ extension) => join(import.meta.dirname, name + extension)

const stack = await startStack({ parts: ['engine'], engineEnv: { DB_SHARDS: '2' } })
try {
  const engine = stack.part('engine')
  let client = await stack.client()
  for (const statement of FLUSHED) await client.execute(statement)
  client = await restart(stack)
  for (const statement of LOGGED) await client.execute(statement)
  const all = await readAll(client)
  await engine.kill9()
  writeFileSync(target('.json'), `${JSON.stringify(all, undefined, 2)}\n`)
  execFileSync('tar', ['-C', join(stack.directory, 'data'), '-czf', target('.tar.gz'), '.'])
  await engine.start()
} finally {
  await stack.end()
}
