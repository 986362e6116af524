// `npm run bench`: measures, appends the figures to docs/benchmarks.csv and makes the page from it.
import { fileURLToPath } from 'node:url'
import { integer, oneOf, readOptions } from '@sandglass/common/options'
import buildEngine from '../support/build.js'
import { BENCHMARKS } from './benchmarks.js'
import { reached, written } from './figure.js'
import { append, describeRun, writePage } from './report.js'

const DOCS = fileURLToPath(new URL('../../docs/', import.meta.url))
const CSV = `${DOCS}benchmarks.csv`
const PAGE = `${DOCS}benchmarks.md`
const NAMES = BENCHMARKS.map(({ name }) => name)
const QUICK_S = 5

const options = readOptions(
  {
    name: 'npm run bench --',
    description: 'Measures the platform on this machine, load generator included.',
    options: [
      {
        flag: '--seconds <n>',
        help: 'how long each benchmark measures',
        default: '60',
        parse: integer(1, 3600),
      },
      { flag: '--only <name>', help: `one of ${NAMES.join(', ')}`, parse: oneOf(NAMES) },
      { flag: '--quick', help: `${QUICK_S} s each, and nothing is written: does it run at all` },
      { flag: '--dry-run', help: 'print the figures, write nothing' },
    ],
  },
  process.argv,
)

if (process.env.CQL_HOSTS) {
  process.stderr.write('The benchmarks measure our own engine: unset CQL_HOSTS.\n')
  process.exit(2)
}
process.exitCode = await main()

/** @returns {Promise<number>}  The exit code: 0 if every floor was reached. */
async function main() {
  buildEngine()
  const seconds = options.quick ? QUICK_S : options.seconds
  const command = [
    'npm run bench',
    ...(process.argv.length > 2 ? ['--'] : []),
    ...process.argv.slice(2),
  ]
  const run = describeRun(command.join(' '))
  const chosen = BENCHMARKS.filter(({ name }) => !options.only || name === options.only)
  let allReached = true
  for (const [index, benchmark] of chosen.entries()) {
    say(`[${index + 1}/${chosen.length}] ${benchmark.title}`)
    const figures = await benchmark.run({ seconds, progress: (text) => say(`  … ${text}`) })
    for (const figure of figures) {
      allReached &&= reached(figure) !== false
      say(`  ${line(figure)}`)
    }
    if (!options.quick && !options.dryRun) append(CSV, run, figures)
  }
  if (!options.quick && !options.dryRun) {
    writePage(CSV, PAGE, BENCHMARKS)
    say(`written: ${PAGE}`)
  }
  if (!allReached) say('A floor was not reached.')
  return allReached ? 0 : 1
}

/** @param {import('./figure.js').Figure} figure */
function line(figure) {
  const { name, value, unit, bound, floor } = figure
  const promise = bound === '' ? '' : `  (${bound} ${floor}: ${reached(figure) ? 'pass' : 'FAIL'})`
  return `${name.padEnd(42)} ${written(value).padStart(8)} ${unit}${promise}`
}

/** @param {string} text */
function say(text) {
  process.stdout.write(`${text}\n`)
}
