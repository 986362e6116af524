// Each script gives the same answers on Sandglass and on Cassandra, from which they were recorded:
// CQL_HOSTS names a cluster to run them against, and CQL_RECORD=1 writes its answers down.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startStack } from '../support/stack.js'
import { answer, parseScript } from './script.js'

const FOLDER = fileURLToPath(new URL('.', import.meta.url))
const RECORD = process.env.CQL_RECORD === '1'
const TIMEOUT_MS = 120_000

/** @type {Awaited<ReturnType<typeof startStack>>} */
let stack
/** @type {Awaited<ReturnType<typeof stack.client>>} */
let client
let sandglass = false

beforeAll(async () => {
  stack = await startStack({ parts: ['engine'] })
  client = await stack.client()
  const local = await client.execute('SELECT * FROM system.local')
  sandglass = local.columns.some(({ name }) => name === 'engine')
}, TIMEOUT_MS)

afterAll(async () => {
  await stack?.end()
}, TIMEOUT_MS)

/**
 * Runs all steps of a script; gives the script with the answers that came.
 *
 * @param {string} text
 * @param {string} keyspace
 */
async function run(text, keyspace) {
  /** @type {{ line: number, text: string, got: string[], wanted: string[] }[]} */
  const wrong = []
  /** @type {Map<number, string[]>} */
  const answers = new Map()
  /** @type {number[]} */
  let sizes = []
  for (const step of parseScript(text)) {
    const directive = step.text.match(/^-- (wait|pages) (.*)/)
    if (directive?.[1] === 'wait') await pause(waitMs(directive[2]))
    else if (directive) sizes = directive[2].split(' ').map(Number)
    else {
      const wanted = sandglass && step.differing.length > 0 ? step.differing : step.expected
      const got = await answer(client, keyspace, step.text)
      answers.set(step.line, got)
      const all = [got]
      for (const size of /^(SELECT|DESC)/.test(step.text) ? sizes : []) {
        all.push(await answer(client, keyspace, step.text, size))
      }
      const other = all.find((lines) => lines.join('\n') !== wanted.join('\n'))
      if (other) wrong.push({ line: step.line, text: step.text, got: other, wanted })
    }
  }
  return { wrong, answers }
}

/**
 * So many milliseconds, or until the next second has begun: a time to live ends with one.
 *
 * @param {string} what
 */
function waitMs(what) {
  return what === 'second' ? 1_010 - (Date.now() % 1_000) : Number(what)
}

/** @param {string} text  @param {Map<number, string[]>} answers */
function recorded(text, answers) {
  return text.split('\n').flatMap((line, index) => {
    if (/^--[>!]/.test(line)) return []
    return [line, ...(answers.get(index + 1) ?? [])]
  })
}

describe('conformance', () => {
  const scripts = readdirSync(FOLDER).filter((name) => name.endsWith('.cql'))

  test.each(scripts)(
    '%s',
    async (name) => {
      const text = readFileSync(`${FOLDER}${name}`, 'utf8')
      const keyspace = `cql_${name.replace('.cql', '')}_${process.pid}`
      const replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
      await client.execute(`CREATE KEYSPACE ${keyspace} WITH replication = ${replication}`)
      try {
        await client.execute(`USE ${keyspace}`)
        const { wrong, answers } = await run(text, keyspace)
        if (RECORD) writeFileSync(`${FOLDER}${name}`, recorded(text, answers).join('\n'))
        else expect(wrong).toEqual([])
      } finally {
        await client.execute(`DROP KEYSPACE IF EXISTS ${keyspace}`)
      }
    },
    TIMEOUT_MS,
  )
})
