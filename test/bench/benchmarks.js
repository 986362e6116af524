// The benchmarks, in the order in which they run and are published.
import { attacks } from './attacks.js'
import { engine } from './engine.js'
import { idle } from './idle.js'
import { memory, throughput } from './ingest.js'
import { maximum } from './maximum.js'
import { queryable, reads } from './reads.js'

/**
 * @typedef {object} Context
 * @property {number} seconds  The measured time of each benchmark.
 * @property {(text: string) => void} progress
 *
 * @typedef {object} Benchmark
 * @property {string} name
 * @property {string} title
 * @property {(context: Context) => Promise<import('./figure.js').Figure[]>} run
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
    run: throughput('ingest-10000', { connections: 10_000, sensors: 10_000, floor: 10_000 }),
  },
  {
    name: 'queryable',
    title: 'From publish to queryable, while 10,000 messages/s come in',
    run: queryable,
  },
  { name: 'reads', title: 'REST reads, while 2,000 messages/s come in', run: reads },
  { name: 'memory', title: 'Memory at 1,000 messages/s', run: memory },
  { name: 'engine', title: 'The engine alone: CPU of one operation', run: engine },
  {
    name: 'attacks',
    title: 'The engine under nine attacks at once: how long another client waits',
    run: attacks,
  },
  { name: 'idle', title: 'The engine when nothing is to do', run: idle },
]
