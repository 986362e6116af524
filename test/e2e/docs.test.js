// The documentation is typed in, page by page, command by command, as a reader would: on the
// documented ports, in a clone of the repository. What it says is printed is printed.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { isPrinted, printingCommands, stepsOf } from '../support/page.js'
import { missingPackages, WHEELS } from '../support/python.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { ENGINE, GIVEN_DATABASE, SPOOLED_LATE } from '../support/stack.js'
import { missingForTerminal, Terminal } from '../support/terminal.js'
import { until } from '../support/until.js'

/** @typedef {import('../support/page.js').Step} Step */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const GUIDE = 'docs/guide'
/** Python packages, which `.ci/run` fetches: a terminal's network leads nowhere. */

/** What a page needs beyond `curl`. @type {Record<string, string[]>} */
const NEEDS = {
  'README.md': ['mosquitto_pub'],
  'quick-start.md': ['mosquitto_pub'],
  'connect-a-device.md': ['mosquitto_pub', 'openssl', 'python3', 'paho-mqtt'],
  'integrations.md': ['mosquitto_pub'],
  'alerts.md': ['jq', 'mosquitto_pub'],
  'decoders.md': ['jq', 'mosquitto_pub'],
  'moving.md': ['jq'],
  'query.md': ['jq', 'python3', 'cqlsh'],
  'monitor.md': ['jq', 'prometheus', 'promtool'],
  'troubleshooting.md': ['jq', 'mosquitto_pub'],
  'operate.md': ['jq', 'mosquitto', 'mosquitto_pub'],
}

/** Blocks that nobody runs, and why: what they contain. @type {Record<string, string>} */
const NOT_RUN = {
  'git pull': 'a clone of what is tested has nothing to pull; npm start is run elsewhere',
  '--cql-hosts 10.0.0.1:9042': 'a cluster of three machines: test/cassandra/three.js has one',
}

/**
 * Commands that run until they are stopped, each after what ran under its name before, and what
 * they print once they are up if the page does not say it.
 */
const RUNS_ON = [
  {
    name: 'platform',
    command: /^(\w+=('[^']*'|\S+)\s(\\\n\s*)?)*npm start\b[^&]*$/,
    up: 'Sandglass is up',
  },
  { name: 'platform', command: /^npm run demo\b/, up: 'Sandglass is up…in all…in all' },
  { name: 'stream', command: /^curl -N / },
  { name: 'prometheus', command: /^prometheus /, up: 'Server is ready' },
  { name: 'broker', command: /^mosquitto -c /, up: 'running' },
  { name: 'ingest', command: /^npm run ingest /, up: '"ready"' },
]

/** What is renewed every second, by Prometheus every five, or takes a while: one asks again. */
const ASKED_AGAIN = /^(sleep |promtool query |curl '[^']*\/latest)|\/v1\/sensors\?q=/

/** An answer of the api that is a refusal. */
const REFUSAL = /"status":[45]\d\d/

const STEP_MS_MAX = 90_000

const PAGES = [
  'README.md',
  ...readdirSync(join(ROOT, GUIDE))
    .sort()
    .map((name) => `${GUIDE}/${name}`),
]

/** @param {string} page */
function missing(page) {
  const needs = NEEDS[page.split('/').at(-1) ?? ''] ?? []
  const packages = ['paho-mqtt', 'cqlsh']
  return [
    ...(GIVEN_DATABASE ? ['an engine of its own'] : []),
    ...missingForTerminal(),
    ...missingPrograms(['curl', ...needs.filter((name) => !packages.includes(name))]),
    ...missingPackages(needs.filter((name) => packages.includes(name))),
  ]
}

/** @param {Step} step */
const reasonNotToRun = ({ text }) =>
  Object.entries(NOT_RUN).find(([part]) => text.includes(part))?.[1]

/** @param {Step} step */
const title = ({ line, text }) => `line ${line}: ${text.trim().split('\n')[0]}`

for (const page of PAGES) {
  const steps = stepsOf(readFileSync(join(ROOT, page), 'utf8'))

  test(`${page}: every block is run, or it is known why not`, () => {
    const unknown = steps.filter((step) => step.kind === 'look' && !reasonNotToRun(step))
    expect(unknown.map(title)).toEqual([])
  })

  test(`${page}: what is printed belongs to one command`, () => {
    const shared = steps.filter(
      ({ text, expected }) => expected !== undefined && printingCommands(text).length !== 1,
    )
    expect(shared.map(title)).toEqual([])
  })

  const done = steps.filter((step) => step.kind !== 'look' && !reasonNotToRun(step))
  if (done.length === 0) continue
  describeWith(missing(page), page, () => {
    /** @type {Terminal} */
    let terminal
    /** The step that did not work: what comes after it would only wait for it. */
    let broken = ''

    beforeAll(async () => {
      terminal = new Terminal({
        DB_PROGRAM: ENGINE,
        // A page reads at once what was acknowledged.
        ...SPOOLED_LATE,
        PIP_NO_INDEX: '1',
        PIP_FIND_LINKS: WHEELS,
        PIP_DISABLE_PIP_VERSION_CHECK: '1',
      })
      // A page that starts nothing is for whoever has a platform that runs.
      const isStarted = (/** @type {Step} */ { text }) =>
        RUNS_ON.find(({ command }) => command.test(text))?.name === 'platform'
      if (!steps.some(isStarted)) {
        await terminal.start('platform', 'npm start', (printed) => isPrinted(printed, 'is up'))
      }
    }, STEP_MS_MAX)

    test.each(done.map((step) => ({ step, title: title(step) })))(
      '$title',
      async ({ step }) => {
        if (broken) throw new Error(`not tried after ${broken}`)
        broken = title(step)
        await take(terminal, step)
        broken = ''
      },
      STEP_MS_MAX,
    )

    test(
      'what was started stops in order',
      async () => {
        expect([undefined, 0]).toContain(await terminal.stop('platform'))
      },
      STEP_MS_MAX,
    )

    afterAll(async () => terminal.close(), STEP_MS_MAX)
  })
}

/** @param {Terminal} terminal  @param {Step} step */
async function take(terminal, { kind, text, name, expected }) {
  if (kind === 'save') {
    terminal.save(String(name), text)
    return
  }
  const running = RUNS_ON.find(({ command }) => command.test(text))
  if (running) {
    await terminal.stop(running.name)
    const wanted = expected ?? running.up ?? ''
    await terminal.start(running.name, text, (printed) => isPrinted(printed, wanted))
    return
  }
  const isAsSaid = (/** @type {string} */ printed) =>
    expected === undefined ? !REFUSAL.test(printed) : isPrinted(printed, expected)
  const printed = ASKED_AGAIN.test(text)
    ? await until('it is as the page says', async () => {
        const once = await terminal.run(text)
        return isAsSaid(once) && once
      })
    : await terminal.run(text)
  if (!isAsSaid(printed)) expect(printed).toBe(expected ?? 'no refusal')
}
