// `npm run bench`: measures, appends the figures to docs/benchmarks.csv and makes the page from it.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { integer, oneOf, readOptions } from '@sandglass/common/options'
import buildEngine from '../support/build.js'
import { BENCHMARKS } from './benchmarks.js'
import { reached, written } from './report/figure.js'
import { append, describeRun, writePage } from './report/report.js'

const DOCS = fileURLToPath(new URL('../../docs/', import.meta.url))
const CSV = `${DOCS}benchmarks.csv`
const NAMES = BENCHMARKS.map(({ name }) => name)
const LONG = BENCHMARKS.filter(({ isByNameOnly }) => isByNameOnly).map(({ name }) => name)
const QUICK_S = 5
const SECONDS = 60

const options = readOptions(
  {
    name: 'npm run bench --',
    description: 'Measures the platform on this machine, load generator included.',
    options: [
      {
        flag: '--seconds <n>',
        help: `how long each benchmark measures; ${SECONDS}, and of a soak 3600, if nobody says`,
        parse: integer(1, 86_400),
      },
      { flag: '--only <name>', help: `one of ${NAMES.join(', ')}`, parse: oneOf(NAMES) },
      { flag: '--quick', help: `${QUICK_S} s each, and nothing is written: does it run at all` },
      { flag: '--dry-run', help: 'print the figures, write nothing' },
      { flag: '--page', help: 'measure nothing: make the page from what is kept' },
    ],
    after: `Without --only all run but ${LONG.join(', ')}.`,
  },
  process.argv,
)

if (process.env.CQL_HOSTS) {
  process.stderr.write('The benchmarks measure our own engine: unset CQL_HOSTS.\n')
  process.exit(2)
}
process.exitCode = options.page ? page() : await main()

/** @returns {Promise<number>}  The exit code: 0 if every floor was reached. */
async function main() {
  const chosen = BENCHMARKS.filter(({ name, isByNameOnly }) =>
    options.only ? name === options.only : !isByNameOnly,
  )
  const missing = chosen.flatMap((benchmark) => benchmark.missing?.() ?? [])
  if (missing.length > 0) {
    process.stderr.write(`This machine lacks\n${missing.join('\n')}\n`)
    return 2
  }
  buildEngine()
  const command = [
    'npm run bench',
    ...(process.argv.length > 2 ? ['--'] : []),
    ...process.argv.slice(2),
  ]
  const run = describeRun(command.join(' '))
  const isKept = !options.quick && !options.dryRun
  let allReached = true
  for (const [index, benchmark] of chosen.entries()) {
    say(`[${index + 1}/${chosen.length}] ${benchmark.title}`)
    const figures = await benchmark.run({
      seconds: options.quick ? QUICK_S : (options.seconds ?? benchmark.seconds ?? SECONDS),
      progress: (text) => say(`  … ${text}`),
      write: (name, text) => isKept && writeFileSync(`${DOCS}${name}`, text),
    })
    for (const figure of figures) {
      allReached &&= reached(figure) !== false
      say(`  ${line(figure)}`)
    }
    if (isKept) append(CSV, run, figures)
  }
  if (isKept) page()
  if (!allReached) say('A floor was not reached.')
  return allReached ? 0 : 1
}

/** @returns {number}  The exit code. */
function page() {
  writePage(DOCS, BENCHMARKS)
  say(`written: ${DOCS}benchmarks.md`)
  return 0
}

/** @param {import('./report/figure.js').Figure} figure */
function line(figure) {
  const { name, value, unit, bound, floor } = figure
  const promise = bound === '' ? '' : `  (${bound} ${floor}: ${reached(figure) ? 'pass' : 'FAIL'})`
  return `${name.padEnd(42)} ${written(value).padStart(8)} ${unit}${promise}`
}

/** @param {string} text */
function say(text) {
  process.stdout.write(`${text}\n`)
}
