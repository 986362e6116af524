// How soon a reading that is published can be read.
import { setTimeout as delay } from 'node:timers/promises'
import { sensorId } from '@sandglass/common/sensor'
import { Publisher } from '../../support/publisher.js'
import { Histogram } from '../load/histogram.js'
import { fetchBody } from '../measure/fetch-body.js'
import { underLoad } from '../measure/underload.js'
import { figuresOf } from '../report/figure.js'

/** @typedef {import('../report/figure.js').Figure} Figure */
/** @typedef {import('../benchmarks.js').Context} Context */
/** @typedef {import('../../support/stack.js').Stack} Stack */

const figure = figuresOf('queryable')

/** Half of the ingest floor, on the same connections. */
const QUERYABLE_LOAD = { connections: 500, sensors: 500, rate: 10_000 }
const QUERYABLE_MS_MAX = 250
/** Pause between two readings whose way is timed, in milliseconds. */
const QUERYABLE_EVERY_MS = 20

/**
 * Publishes a reading and asks for it until it is there; again and again. The time is from the call
 * that publishes to the end of the answer that holds the reading.
 *
 * @param {Context} context
 * @returns {Promise<Figure[]>}
 */
export async function queryable({ seconds, progress }) {
  const times = new Histogram()
  /** @param {Stack} stack */
  const during = async (stack) => {
    const publisher = new Publisher({ ...stack.mqtt, clientId: 'probe' })
    await publisher.open()
    const url = `${stack.apiUrl}/v1/sensors/${sensorId('probe')}/measurements?metric=m&limit=1`
    await publisher.publish('sensors/probe/m', '-1')
    const end = performance.now() + seconds * 1000
    for (let value = 0; performance.now() < end; value++) {
      const published = performance.now()
      const acknowledged = publisher.publish('sensors/probe/m', String(value))
      while (JSON.parse(String(await fetchBody(url))).items[0]?.v !== value) {
        if (performance.now() > end + 10_000) throw new Error(`reading ${value} never came`)
      }
      times.add((performance.now() - published) * 1000)
      await acknowledged
      await delay(QUERYABLE_EVERY_MS)
    }
    await publisher.close()
  }
  const { load, usage } = await underLoad({
    load: { ...QUERYABLE_LOAD, seconds },
    during,
    progress,
  })
  return [
    figure('published to queryable, p99', times.percentile(0.99) / 1000, 'ms', {
      atMost: QUERYABLE_MS_MAX,
    }),
    figure('the same, median', times.percentile(0.5) / 1000, 'ms'),
    figure('readings timed', times.count),
    figure('load meanwhile', load.acknowledged / load.seconds, 'messages/s'),
    figure('kept busy by other programs (and by the reader)', usage.otherCores, 'cores'),
  ]
}
