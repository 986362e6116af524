// Results as they are kept: one CSV line a figure, ever appended, and a page made from it.
import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { reached, written } from './figure.js'

/** @typedef {import('./figure.js').Figure} Figure */

/**
 * Where and how figures were measured.
 *
 * @typedef {object} Run
 * @property {string} date  ISO 8601, to the second.
 * @property {string} commit
 * @property {string} machine
 * @property {string} command
 */

const COLUMNS = ['date', 'commit', 'machine', 'command', 'benchmark', 'name', 'value', 'unit']
const HEADER = [...COLUMNS, 'bound', 'floor'].join(',')

/**
 * @param {string} command  As it was typed.
 * @returns {Run}
 */
export function describeRun(command) {
  const model = cpus()[0].model.replace(/\s+/g, ' ').trim()
  const memoryGb = Math.round(totalmem() / 2 ** 30)
  return {
    date: new Date().toISOString().replace(/\.\d+/, ''),
    commit: commit(),
    machine: `${cpus().length} × ${model}; ${memoryGb} GiB; Linux ${release()}; Node ${process.version}`,
    command,
  }
}

/** The commit that is checked out, with a mark if files of it were changed. */
function commit() {
  const hash = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
  const changed = execFileSync(
    'git',
    ['status', '--porcelain', '--untracked-files=no', '--', '.', ':!docs/benchmarks.*'],
    {
      encoding: 'utf8',
    },
  ).trim()
  return changed === '' ? hash : `${hash} and changes`
}

/**
 * @param {string} file  CSV; begun if it does not exist.
 * @param {Run} run
 * @param {Figure[]} figures
 */
export function append(file, run, figures) {
  const lines = figures.map((figure) => {
    const { benchmark, name, unit, bound, floor } = figure
    const { date, commit, machine, command } = run
    return [
      date,
      commit,
      machine,
      command,
      benchmark,
      name,
      written(figure.value),
      unit,
      bound,
      floor,
    ]
      .map(quoted)
      .join(',')
  })
  const begin = existsSync(file) ? '' : `${HEADER}\n`
  appendFileSync(file, `${begin}${lines.join('\n')}\n`)
}

/** @param {string | number} field */
function quoted(field) {
  const text = String(field)
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/**
 * Writes the page: of every benchmark its newest run, and under which conditions that was.
 *
 * @param {string} csvFile
 * @param {string} pageFile
 * @param {{ name: string, title: string }[]} benchmarks  In the order of the page.
 */
export function writePage(csvFile, pageFile, benchmarks) {
  const rows = parse(readFileSync(csvFile, 'utf8'))
  const parts = benchmarks.flatMap(({ name, title }) => {
    const own = rows.filter((row) => row.benchmark === name)
    const newest = own.at(-1)
    if (!newest) return []
    return [
      section(
        title,
        own.filter(({ date }) => date === newest.date),
      ),
    ]
  })
  writeFileSync(pageFile, `${INTRODUCTION}\n${parts.join('\n')}\n${OTHERS}`)
}

const INTRODUCTION = `# Benchmarks

Made by \`npm run bench\` from [benchmarks.csv](benchmarks.csv), which holds every run; this page shows
the newest of each benchmark. Everything runs on one machine: engine, ingest, api and the load
generator share its cores. Times of messages run from when a message was due, so a stall counts for
all that wait. CPU is what the kernel charged the process (\`schedstat\`), memory is proportional set
size (\`smaps_rollup\`). Where other programs kept cores busy meanwhile, the page says how many: what
was measured beside a compiler is a lower bound and no verdict. Those who attack the engine run at the lowest
priority: in reality they compute on other machines.
`

/** What others publish, for comparison: other machines, other loads. */
const OTHERS = `## Where the time goes

Of ingest's CPU at 50,500 messages a second (V8's profiler, 2026-11-21): its own code, from payloads to
rows, 27 %; writing to sockets 22 %; Node's streams and buffers 16 %; the driver 15 %; collecting garbage
8 % (18 % with the default young generation); taking packets apart 2 %. A third of the time it had
nothing to do.
Such a profile is written when ingest ends, with \`--cpu-prof\` among the \`INGEST_FLAGS\` of
\`common/src/service.js\` and \`npm run bench -- --only ingest-pipelined --dry-run\`.

What static columns, deleted ranges and elements cost those who use none of them, in instructions of the engine
(callgrind, which does not depend on load; commit 80613bd, before them, and 2026-11-22):

| | before | after |
|---|---:|---:|
| a new row, in a batch of 50 of one sensor | 2,506 | 2,405 |
| a new row, in a batch of 50 sensors | 2,942 | 2,954 |
| a row that is written again, in such batches | 3,061 and 3,501 | 2,733 and 3,276 |
| a write alone, 16 in flight | 4,548 | 4,698 |
| a write alone, one in flight | 14,791 | 12,315 |
| one row read by its key | 12,982 | 11,142 |
| the newest row | 9,978 | 9,574 |
| a row of a page of 100 | 1,603 | 1,645 |

Both engines by turns in one run, on a busy machine: CPU of a row in a batch of 50 is 1.00 times what it was, and
0.91 times with 50 sensors (medians of 8 rounds; single rounds 0.81 to 1.28).

The p99 of \`latest\` is over its 3 ms where that of a request that asks nothing is over 3 ms, too: five
processes share two cores, and a request waits for its turn in one of them. Its median is 1.2 ms.

Of the 35 µs of ingest for a message at 10,000/s, twenty at once (before ADRs 0060 and 0061: 42; both by turns, beside busy
programs, 2026-11-22), some 14 are what a Node server takes that does nothing but read a message and write
four bytes, from 500 connections; two thirds of these are the kernel's. The rest is its own code, the driver,
and memory that is no longer in the cache when a sensor's next message comes. At 20,000/s the same two
versions took 31 and 32 µs, at 50,000/s 20 and 20: there requests are so large that the driver costs little.

At 10,000 messages a second, spread, the generator sends a message 0.8 ms late in the p99. From when it is
due to PUBACK the median is 2.6 ms, of which rows wait one for company and acknowledgements for the thread
that sleeps meanwhile (docs/adr/0063). The p99 was 7.9 and 11.5 ms on a quiet machine (2026-11-22), with 30 µs of
CPU of ingest and 9.5 of the engine a message, and 6.1 ms at 100 messages a second; nearly all of the slow ones
waited for a core. The cores are idle half of the time, but a thread that computes keeps others waiting for
up to 5 ms. V8 has four helpers in each of the three processes of Node (the generator is one); when one
collects its old generation, for 70 ms every 20 s, they take both cores. A collection of ingest's young
generation, twice a second, took 3 to 5 ms besides, with helpers (docs/adr/0053). Log writes of more than 10 ms were 4 to 6 in a run of
30 to 60 s and came from the same waiting (docs/adr/0039); with short slices there was one in 30 s. The
device alone has such outliers, too: of 67,500 durable writes in 45 s, 1,500 a second and nothing beside
them, two took 20 ms, with a median of 0.16 ms and a p99 of 0.28 ms; of 62,800 in another minute none took
10 ms. Traced at 10,000 messages a second beside compilers (\`perf record\` of \`pwrite64\`, \`block_rq_issue\`,
\`block_rq_complete\` and \`sched_switch\`), 25 of 15,682 took more than 10 ms: 14 waited for the device to
empty its cache, 6 for a core, 5 for their data or inode. One of them came while a segment was prepared, as
3 % of all did: making segments does not hold them up.

## Beside other platforms

As they publish it, or as others measured it; not measured by us, on other machines. Ours are above.

| what | figure | from |
|---|---|---|
| ThingsBoard, MQTT to Cassandra, one machine | 33,333 points/s at 55 % of 36 vCPUs; about 3,500 messages/s on 4 vCPUs | its own pages |
| EMQX to TimescaleDB, one node | 100,000 messages/s, QoS 1 | its own page |
| IoTDB, InfluxDB 2.7, TimescaleDB: latest value, p99 | 1.35, 51, 1.44 ms | iot-benchmark 2026 |
| the same: downsampling query, p99 | 4.8, 15.9, 1.6 ms | iot-benchmark 2026 |
| the same: memory | 12-16 GB (IoTDB), 0.3-1.5 GB (InfluxDB) | iot-benchmark 2026 |
| ThingsBoard on Cassandra, disk | 3.5 bytes a point | its own page, divided |
`

/**
 * @param {string} title
 * @param {Record<string, string>[]} rows  Of one run.
 */
function section(title, rows) {
  const { date, commit, machine, command } = rows[0]
  const lines = rows.map(({ name, value, unit, bound, floor }) => {
    const promise = bound === '' ? '' : `${bound} ${floor}`
    return `| ${name} | ${value} ${unit} | ${promise} | ${verdict({ value, bound, floor })} |`
  })
  return `## ${title}

\`${command}\` · commit ${commit} · ${date}
${machine}

| figure | measured | floor | |
|---|---:|---:|---|
${lines.join('\n')}
`
}

/** @param {{ value: string, bound: string, floor: string }} row */
function verdict({ value, bound, floor }) {
  const figure = { benchmark: '', name: '', unit: '', value: Number(value), floor: Number(floor) }
  const passed = reached({ ...figure, bound: /** @type {Figure['bound']} */ (bound) })
  if (passed === undefined) return ''
  return passed ? 'pass' : '**fail**'
}

/** @param {string} csv  @returns {Record<string, string>[]} */
function parse(csv) {
  const [header, ...lines] = csv.trimEnd().split('\n')
  const names = header.split(',')
  return lines.map((line) => {
    const fields = [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
      ([, escaped, plain]) => escaped?.replaceAll('""', '"') ?? plain,
    )
    return Object.fromEntries(names.map((name, index) => [name, fields[index] ?? '']))
  })
}
