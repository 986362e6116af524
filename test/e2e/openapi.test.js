// The description of the interface is true: clients are generated from it and work, and whatever it
// allows is answered as it says.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import openapiTS, { astToString } from 'openapi-typescript'
import { Browser } from '../support/browser.js'
import { installPackages, missingPackages } from '../support/python.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { publishAll } from '../support/rest.js'
import { startStack } from '../support/stack.js'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SETTINGS = fileURLToPath(new URL('../support/schemathesis.toml', import.meta.url))

/** Of what is generated; another one finds other things. */
const SEED = process.env.SANDGLASS_SEED ?? '1'
const EXAMPLES = '5'

/** What Schemathesis and the compiler may take, in milliseconds. */
const PROGRAM_MS_MAX = 300_000

/** A program as a user writes it, with types that were generated. */
const CLIENT = `
import createClient from 'openapi-fetch'
import type { components, paths } from './sandglass.d.ts'

const client = createClient<paths>({ baseUrl: process.argv[2] ?? '' })

const stored = await client.POST('/v1/measurements', {
  body: [{ sensor: 'typed', t: 1767225600000, temperature: 21.5 }],
})
if (stored.error) throw new Error(stored.error.detail)
const count: number = stored.data.stored

const page = await client.GET('/v1/sensors/{sensor}/measurements', {
  params: { path: { sensor: 'typed' }, query: { metric: ['temperature'], limit: 5 } },
})
if (page.error) throw new Error(page.error.detail)
const items: components['schemas']['Measurement'][] = page.data.items
const next: string | null = page.data.next

const nobody = await client.GET('/v1/sensors/{sensor}', { params: { path: { sensor: 'nobody' } } })
const problem: components['schemas']['Problem'] | undefined = nobody.error

// @ts-expect-error  There is no such path.
void (() => client.GET('/v1/nothing'))
// @ts-expect-error  A page has a number of items.
void (() => client.GET('/v1/sensors', { params: { query: { limit: 'all' } } }))
// @ts-expect-error  A sensor has a name.
void (() => client.POST('/v1/sensors', { body: { unit: 'Cel' } }))

console.log(JSON.stringify({ count, items, next, problem: problem?.type }))
`

const COMPILER = {
  compilerOptions: {
    target: 'es2022',
    module: 'nodenext',
    strict: true,
    skipLibCheck: true,
    types: ['node'],
  },
  files: ['client.ts'],
}

/** @type {import('../support/stack.js').Stack} */
let stack
beforeAll(async () => {
  stack = await startStack()
  await publishAll(stack.apiUrl, [{ sensor: 'typed', t: 1767225600000, temperature: 21.5 }])
})
afterAll(() => stack?.end())

describe('a client that is generated', () => {
  // Inside of the tree, where the packages are found that it uses.
  const parent = join(ROOT, 'test/node_modules/.cache')
  mkdirSync(parent, { recursive: true })
  const directory = mkdtempSync(join(parent, 'client-'))
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  test('is compiled with its types, and works', async () => {
    const types = await openapiTS(new URL(`${stack.apiUrl}/openapi.json`))
    writeFileSync(join(directory, 'sandglass.d.ts'), astToString(types))
    writeFileSync(join(directory, 'client.ts'), CLIENT)
    writeFileSync(join(directory, 'package.json'), '{ "type": "module" }')
    writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify(COMPILER))
    const how = { cwd: directory, timeout: PROGRAM_MS_MAX }
    await run(join(ROOT, 'node_modules/.bin/tsc'), [], how)
    const { stdout } = await run('node', ['client.js', stack.apiUrl], how)
    expect(JSON.parse(stdout)).toEqual({
      count: 1,
      items: [{ metric: 'temperature', t: 1767225600000, v: 21.5 }],
      next: null,
      problem: 'urn:sandglass:problem:unknown-sensor',
    })
  })
})

describeWith(missingPrograms(['chromium']), 'the page that describes it', () => {
  /** @type {Browser} */
  let browser
  beforeAll(async () => {
    browser = await Browser.open()
  })
  afterAll(() => browser?.close())

  test.each(['light', 'dark'])(
    'asks the api from a %s page, and loads nothing else',
    async (scheme) => {
      const { page } = browser
      /** @type {Set<string>} */
      const origins = new Set()
      page.on('request', (request) => origins.add(new URL(request.url()).origin))
      await page.emulateMedia({ colorScheme: /** @type {'light' | 'dark'} */ (scheme) })
      await page.goto(`${stack.apiUrl}/docs`)
      const operation = page.locator('#operations-latest-getLatest')
      await operation.locator('.opblock-summary').click()
      await operation.getByText('Try it out').click()
      await operation.getByPlaceholder('sensor').fill('typed')
      await operation.getByText('Execute').click()
      await operation.getByText('21.5').first().waitFor()
      expect([browser.errors, browser.refusals]).toEqual([[], []])
      expect([...origins].filter((origin) => !/^data:|null/.test(origin))).toEqual([stack.apiUrl])
    },
  )
})

const missing = [...missingPrograms(['python3']), ...missingPackages(['schemathesis'])]

describeWith(missing, 'Schemathesis', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-schemathesis-'))
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  test(
    `finds nothing that is answered otherwise than described (SANDGLASS_SEED=${SEED})`,
    async () => {
      const program = join(installPackages(directory, ['schemathesis']), 'schemathesis')
      const checks = ['--seed', SEED, '--max-examples', EXAMPLES]
      const url = [`${stack.apiUrl}/openapi.json`, '--url', stack.apiUrl]
      const how = { cwd: directory, timeout: PROGRAM_MS_MAX, maxBuffer: 2 ** 26 }
      const told = await run(
        program,
        ['--config-file', SETTINGS, 'run', ...checks, ...url],
        how,
      ).then(
        ({ stdout }) => stdout,
        (error) => `${error.message}\n${error.stdout}`,
      )
      expect(told).toMatch(/^ +\d{3,} generated, \d{3,} passed$/m)
      expect(told).toMatch(/Tested: (5[5-9]|[6-9]\d)/)
    },
    PROGRAM_MS_MAX,
  )
})
