// The benchmarks, in the order in which they run and are published.
import { missingOthers } from './others/others.js'
import { attacks } from './steps/attacks.js'
import { comparison } from './steps/comparison.js'
import { engine } from './steps/engine.js'
import { fleet } from './steps/fleet.js'
import { floor } from './steps/floor.js'
import { idle } from './steps/idle.js'
import { throughput } from './steps/ingest.js'
import { maximum } from './steps/maximum.js'
import { queryable } from './steps/queryable.js'
import { reads } from './steps/reads.js'
import { comeBack } from './steps/return.js'
import { rules } from './steps/rules.js'
import { soak } from './steps/soak.js'
import { flatReads, manySstables, ycsb } from './steps/stored.js'

/**
 * @typedef {object} Context
 * @property {number} seconds  The measured time of each benchmark.
 * @property {(text: string) => void} progress
 * @property {(name: string, text: string) => void} write  Keeps a file beside the page.
 *
 * @typedef {object} Benchmark
 * @property {string} name
 * @property {string} title
 * @property {string} [note]  What the page says besides, in Markdown.
 * @property {number} [seconds]  How long it measures, if nobody says.
 * @property {boolean} [isByNameOnly]  Whether it is left out where all are run: it takes long.
 * @property {boolean} [isSideBySide]  Whether its figures are named `COLUMN: ROW`.
 * @property {string} [plot]  The table `docs/NAME.csv` that it writes is drawn.
 * @property {() => string[]} [missing]  What this machine lacks for it, and how to install that.
 * @property {(context: Context) => Promise<import('./report/figure.js').Figure[]>} run
 */

/** @type {Benchmark[]} */
export const BENCHMARKS = [
  {
    name: 'ingest-100',
    title: 'How soon QoS 1 messages are acknowledged, 100 a second',
    run: throughput('ingest-100', { connections: 100, sensors: 100, floor: 100, ackP99MsMax: 2 }),
  },
  {
    name: 'ingest-500',
    title: 'QoS 1 messages of 500 sensors on 500 connections',
    run: throughput('ingest-500', { connections: 500, sensors: 500, floor: 20_000 }),
  },
  {
    name: 'ingest-spread',
    title: 'How soon QoS 1 messages are acknowledged, spread over the second',
    run: throughput('ingest-spread', {
      connections: 500,
      sensors: 500,
      floor: 10_000,
      ackP99MsMax: 6,
      slowLogWritesMax: 0,
    }),
  },
  {
    name: 'floor',
    title: 'What the machine gives a broker that only writes',
    note: `One process, without a database: it reads a message, writes 128 bytes of it durably, and answers.
Nothing on this machine acknowledges durable messages sooner.`,
    run: floor,
  },
  {
    name: 'ingest-pipelined',
    title: 'QoS 1 messages of 500 connections with up to 20 in flight, 50,500 a second',
    run: throughput('ingest-pipelined', { connections: 500, sensors: 500, floor: 50_000 }),
  },
  {
    name: 'ingest-maximum',
    title: 'As many QoS 1 messages as are acknowledged as fast as they are due',
    run: maximum,
  },
  {
    name: 'ingest-10000',
    title: 'QoS 1 messages of 10,000 sensors on 10,000 connections',
    run: throughput('ingest-10000', {
      connections: 10_000,
      sensors: 10_000,
      floor: 10_000,
      cpuUsMax: 35,
      ingestMbMax: 300,
    }),
  },
  {
    name: 'ingest-return',
    title: '10,000 clients come back after ingest was killed, each a second after it was refused',
    seconds: 30,
    run: comeBack,
  },
  {
    name: 'queryable',
    title: 'From publish to queryable, while 10,000 messages/s come in',
    run: queryable,
  },
  {
    name: 'rules',
    title: 'An alert rule about 10,000 sensors, and none, while 4,000 messages/s come in',
    note: `A profile of V8 tells which share of what ingest computes is code of ingest/src/rules or called by it. That
share of ingest's CPU, garbage collection and system calls included, is the figure. What the driver does later for
what rules ask of the database is not in it.`,
    run: rules,
  },
  { name: 'reads', title: 'REST reads, while 2,000 messages/s come in', run: reads },
  {
    name: 'fleet',
    title: 'The first page of a fleet of 100,000 sensors',
    note: 'A page of 100, asked for twice a second in each order, one after the other.',
    run: fleet,
  },
  {
    name: 'soak',
    title: 'An hour at 1,000 messages/s',
    seconds: 3600,
    isByNameOnly: true,
    plot: 'soak',
    run: soak,
  },
  {
    name: 'comparison',
    title: 'Beside mosquitto, Telegraf and VictoriaMetrics',
    note: `By turns on the same machine, with the same generator: QoS 1, 500 connections, arrivals
spread. Ours acknowledges what is durable, mosquitto what it has in memory.`,
    isByNameOnly: true,
    isSideBySide: true,
    missing: missingOthers,
    run: comparison,
  },
  { name: 'engine', title: 'The engine alone: CPU of one operation', run: engine },
  {
    name: 'attacks',
    title: 'The engine under nine attacks at once: how long another client waits',
    run: attacks,
  },
  { name: 'idle', title: 'The engine when nothing is to do', run: idle },
  {
    name: 'flat-reads',
    title: 'Reads of measurements with more and more of them stored',
    note: `100,000 sensors and 256 MiB of memory. Medians are those of four reads at a time; ingest is
5,000 rows/s.`,
    run: flatReads('flat-reads', [10], []),
  },
  {
    name: 'flat-reads-late',
    title: 'The same where 1 and 10 % come up to a day late',
    isByNameOnly: true,
    run: flatReads('flat-reads-late', [10], [1, 10]),
  },
  {
    name: 'flat-reads-50',
    title: 'The same with 50 million in order',
    isByNameOnly: true,
    run: flatReads('flat-reads-50', [50], []),
  },
  {
    name: 'ycsb',
    title: 'YCSB on five times as much data as memory, and reads beside a compaction',
    note: `Rows of 10 × 100 bytes, 128 MiB of memory; 64 requests in flight. The floors of A to D
are a quarter of what Cassandra 5 took, that of the compaction is a fifth.`,
    run: ycsb,
  },
  {
    name: 'many-sstables',
    title: 'A thousand sstables, and few files that may be open; a start with 10 GiB',
    run: manySstables,
  },
]
