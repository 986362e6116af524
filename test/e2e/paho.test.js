// Eclipse Paho, the client library of many devices, speaks MQTT 5 with the broker inside.
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { installPackages, missingPackages } from '../support/python.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack } from '../support/stack.js'

const run = promisify(execFile)
const here = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url))

const CLIENT = here('../support/paho-5.py')

/** How long the client may take, in milliseconds. */
const CLIENT_MS_MAX = 60_000

const missing = [...missingPrograms(['python3']), ...missingPackages(['paho-mqtt'])]

describeWith(missing, 'a client of Paho', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-paho-'))

  beforeAll(async () => {
    installPackages(directory, ['paho-mqtt'])
    stack = await startStack()
  })
  afterAll(async () => {
    await stack?.end()
    rmSync(directory, { recursive: true, force: true })
  })

  test('hears what is stored and what is refused, and all that messages carry', async () => {
    const { port } = new URL(stack.mqttUrl)
    const python = join(directory, 'bin/python')
    const { stdout } = await run(python, [CLIENT, port], { timeout: CLIENT_MS_MAX })
    const carried = [
      [
        ['b', '1'],
        ['a', '2'],
        ['b', '3'],
      ],
      'answers/1',
      '0001',
      [7],
    ]
    expect(JSON.parse(stdout)).toEqual({
      connack: 0,
      assigned: true,
      receiveMaximum: expect.any(Number),
      granted: [2, 1],
      heard0: ['0', 0, ...carried],
      heard1: ['1', 1, ...carried],
      heard2: ['2', 2, ...carried],
      job: 'job',
      stored: 0,
      storedBecause: false,
      refused: 0x99,
      refusedBecause: true,
      left: 0,
    })
  })
})
