// Results as they are kept: one CSV line a figure, ever appended, and a page made from it.
import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { csvLine, parseCsv } from './csv.js'
import { written } from './figure.js'
import { panelsOf, svgOf } from './plot.js'
import { sideBySide, table } from './table.js'

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
    [
      'status',
      '--porcelain',
      '--untracked-files=no',
      '--',
      '.',
      ':!docs/benchmarks.*',
      ':!docs/soak.csv',
      ':!docs/images/soak.svg',
    ],
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
  const { date, commit, machine, command } = run
  const lines = figures.map(({ benchmark, name, value, unit, bound, floor }) =>
    csvLine([date, commit, machine, command, benchmark, name, written(value), unit, bound, floor]),
  )
  const begin = existsSync(file) ? '' : `${HEADER}\n`
  appendFileSync(file, `${begin}${lines.join('\n')}\n`)
}

/**
 * Writes the page, and draws what it shows: of every benchmark its newest run, and under which
 * conditions that was.
 *
 * @param {string} docs  The folder that has `benchmarks.csv`.
 * @param {import('../benchmarks.js').Benchmark[]} benchmarks  In the order of the page.
 */
export function writePage(docs, benchmarks) {
  const rows = parseCsv(readFileSync(`${docs}benchmarks.csv`, 'utf8'))
  const parts = benchmarks.flatMap((benchmark) => {
    const own = rows.filter((row) => row.benchmark === benchmark.name)
    const newest = own.at(-1)
    if (!newest) return []
    const lines = own.filter(({ date }) => date === newest.date)
    return [section(benchmark, lines, benchmark.plot ? [draw(docs, benchmark.plot)] : [])]
  })
  writeFileSync(`${docs}benchmarks.md`, `${INTRODUCTION}\n${parts.join('\n')}\n${OTHERS}`)
}

/**
 * Draws a table, and gives the line of the page that shows it.
 *
 * @param {string} docs
 * @param {string} name  Of the table: `docs/NAME.csv`.
 */
function draw(docs, name) {
  const rows = parseCsv(readFileSync(`${docs}${name}.csv`, 'utf8'))
  writeFileSync(`${docs}images/${name}.svg`, svgOf(panelsOf(rows)))
  return `\n![All that was looked at, over time](images/${name}.svg)\n`
}

const INTRODUCTION = `# Benchmarks

Made by \`npm run bench\` from [benchmarks.csv](benchmarks.csv), which holds every run; this page shows
the newest of each benchmark. Everything runs on one machine: engine, ingest, api and the load
generator share its cores. Times of messages run from when a message was due, so a stall counts for
all that wait. CPU is what the kernel charged the process (\`schedstat\`), memory is proportional set
size (\`smaps_rollup\`; before commit 4553c6c read each second, since then what is resident each second less what is
shared at the end). Where other programs kept cores busy meanwhile, the page says how many: what
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

On a cluster a request holds one partition, and each partition has a queue of its own (docs/adr/0011). 100,000 messages
of 500 sensors by turns, in flight at once from 10 clients at QoS 1; three nodes of Cassandra 5.0.9 with a replica of
everything on each and LOCAL_QUORUM, on the same two cores, beside compilers; commit e0351df, before the queues, and
971237c, with them, by turns (2026-11-23):

| | before | with queues | before | with queues |
|---|---:|---:|---:|---:|
| rows a request | 15.6 | 46.5 | 15.0 | 42.4 |
| requests | 6,556 | 2,203 | 6,841 | 2,411 |
| messages/s, acknowledged | 7,730 | 6,503 | 6,549 | 8,689 |
| CPU of ingest, a message | 19.6 µs | 21.1 µs | 20.5 µs | 17.6 µs |

A request has three times as many rows. What the nodes take for them decides the rate here, and they share the cores with
other work: the rates do not differ by more than their runs do.

Two processes of ingest on two cores bring nothing, so there is one. At 10,000/s, spread, beside compilers that left half a
core, both by turns (2026-11-23), a message took 36 and 38 µs of ingest with two and their first one, and 18 and 25
with one: requests and wake-ups have half the messages each. Memory was 286 and 341 MiB, and 247 and 261. For sixteen
cores this is an argument and no measurement: one process is one thread, which takes 20 µs a message at 50,000/s and is
full at 50,000/s, and pressed at 93,750 (ingest-maximum, beside engine and generator). Four have four threads, and nothing
in common but the first one, which has nothing to do without subscribers: 200,000 to 375,000/s at most, if devices are
spread evenly. The engine, pressed, takes 0.9 µs a message: a third of a core, of its eight shards. With one
subscriber all messages also go through one thread, which was not measured.

The cache of blocks before and after ADR 0085 (b3b61e8 and the next engine, 2026-11-28), by turns in half an hour, four runs of
\`--only ycsb --seconds 4\` each, µs of the engine's CPU a request in the median: B 24.2 and 21.2, C 24.4 and 18.0 (one of the
four 28.5), each row as often 20.3 and 17.5, 10,000 rows 4.4 and 2.7; A and D do not differ. A read of C took 1.14 and 0.99
blocks from disk.

What decoders, metadata, MQTT 5, deletion for good and alert rules cost a message that uses none of them: commit 8f011ae, before
them, and fdf02cd, with them, each with its own engine and 500 connections of MQTT 3.1.1 (2026-11-28). Both at the same
time, each by \`npm run bench -- --only ingest-spread --seconds 40 --dry-run\` in its own checkout, with a floor of 4,000
in place of 10,000 in \`test/bench/benchmarks.js\` of both, six times: all parts took 1.009 to 1.055 times as much CPU, in the
median 1.033; ingest 1.020 to 1.075, in the median 1.045. By turns, medians of five runs at 10,000/s: 50.0 µs and 49.5 of all
parts, with single runs of one version between 45 and 54.

At 10,000 messages a second, spread, the generator sends a message 0.8 ms late in the p99. From when it is
due to PUBACK the median is 2.6 ms, of which rows wait one for company and acknowledgements for the thread
that sleeps meanwhile (docs/adr/0063). The p99 was 7.9 and 11.5 ms on a quiet machine (2026-11-22), with 30 µs of
CPU of ingest and 9.5 of the engine a message, and 6.1 ms at 100 messages a second; nearly all of the slow ones
waited for a core. The cores are idle half of the time, but a thread that computes keeps others waiting for
up to 5 ms. V8 has four helpers in each process of Node; when one collects its old generation, they take both cores.
The generator did so every 2 to 14 s, for some 15 ms, and the api three times after it had idled, for 20 to 30 ms each (2026-11-29, samples
of both cores laid beside the moments in which messages took more than 6 ms). The generator now collects alone: by turns, three runs of 30 s
each, the p99 was 7.7, 12.0 and 7.2 ms before, and 7.6, 6.1 and 7.7 with it. A collection of ingest's young
generation, twice a second, took 3 to 5 ms besides, with helpers (docs/adr/0053); one takes 2 on a slower machine since what dies
young is made young (docs/adr/0089).

At 100 messages a second V8 compiles ingest for the first 20 s, in its helpers, for 2 to 5 ms at a time. Of eight messages that
took more than 2.5 ms then, five had been acknowledged after 1.2 to 1.7 ms, and the generator, on the core of a helper, waited
for that while the other core was idle; in two the log's thread waited like that, and in one ingest's, for the generator's helper
(2026-11-30, \`sched_switch\` of both cores). Besides, all memory was looked at once a second, which took 4 ms and kept one message in a
hundred waiting: now the kernel's own count is read. On that machine, whose median was 1.3 ms in place of 0.7,
runs of 30 s (\`--only ingest-100\`) had a p99 of 4.4 to 5.0 ms with and without that, as the first seconds decide.
A lower priority for ingest's helpers, and slices of 0.1 ms for its thread, each set from outside while it ran, made no difference
that was larger than that between runs.

Log writes of more than 10 ms were 4 to 6 in a run of 30 to 60 s
and came from the same waiting (docs/adr/0039); with short slices there was one in 30 s. The
device alone has such outliers, too: of 67,500 durable writes in 45 s, 1,500 a second and nothing beside
them, two took 20 ms, with a median of 0.16 ms and a p99 of 0.28 ms; of 62,800 in another minute none took
10 ms. Traced at 10,000 messages a second beside compilers (\`perf record\` of \`pwrite64\`, \`block_rq_issue\`,
\`block_rq_complete\` and \`sched_switch\`), 25 of 15,682 took more than 10 ms: 14 waited for the device to
empty its cache, 6 for a core, 5 for their data or inode. One of them came while a segment was prepared, as
3 % of all did: making segments does not hold them up.

When ingest is killed and started, 10,000 clients try again in the same second; those that do not fit into the
kernel's queue (4,096) come back by retransmission, after 1, 3 and 7 s. As long as ingest listened by one handle,
of which Node accepts one connection in each turn of its loop, it was 36 s until all were back where they send 10,000
messages a second (2026-11-23, beside compilers that took more than a core), in which accepting was 3 % of its CPU, and
12.7 s with 100 messages a second. Traced then, 113 were in after four seconds of service: a turn took 50 ms
with the messages of those, and 60,000 attempts found the queue full. Now 16 are accepted in a turn, and are let in
before they are read (docs/adr/0067). In the first runs with that, beside programs that left ingest a quarter
of a core, 12,500 attempts found the queue full. What ingest did most then was to read each sensor's row,
layouts and series from the database, one by one; it reads up to 32 sensors at once now, which takes 8.0 s of CPU
until all are back instead of 13.4 (by turns, beside compilers).

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
 * @param {import('../benchmarks.js').Benchmark} benchmark
 * @param {Record<string, string>[]} rows  Of one run.
 * @param {string[]} after
 */
function section({ title, note, isSideBySide }, rows, after) {
  const { date, commit, machine, command } = rows[0]
  const lines = /** @type {import('./table.js').Line[]} */ (rows)
  return `## ${title}

\`${command}\` · commit ${commit} · ${date}
${machine}
${note ? `\n${note}\n` : ''}
${isSideBySide ? sideBySide(lines) : table(lines)}
${after.join('')}`
}
