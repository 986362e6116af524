/** What is known of metrics, in memory, behind the questions that the api asks of the database. */

/** @typedef {import('@sandglass/common/metadata').Metadata} Metadata */
/** @typedef {import('../../src/metadata/store.js').SensorMetric} SensorMetric */
/** @typedef {import('../../src/metadata/store.js').TypeMetric} TypeMetric */

/**
 * @param {(sensorId: string) => string[]} measuredOf  Metrics of which there are values.
 * @param {() => Iterable<string>} sensorIds
 */
export function fakeMetadata(measuredOf, sensorIds) {
  /** By sensor, and by type. */
  /** @type {Map<string, Map<string, { said: Metadata, device?: string }>>} */
  const all = new Map()

  /** @param {string} owner  @param {string} metric */
  function metricOf(owner, metric) {
    const own = all.get(owner) ?? new Map()
    all.set(owner, own)
    if (!own.has(metric)) own.set(metric, { said: {} })
    return own.get(metric)
  }

  /** @param {string} sensorId  @returns {SensorMetric[]} */
  function ofSensor(sensorId) {
    const measured = new Set(measuredOf(sensorId))
    const metrics = new Set([...measured, ...(all.get(sensorId)?.keys() ?? [])])
    return [...metrics].sort().map((metric) => {
      const { said = {}, device } = all.get(sensorId)?.get(metric) ?? {}
      return { metric, said, device, isMeasured: measured.has(metric) }
    })
  }

  /** @param {string} type  @returns {TypeMetric[]} */
  const ofType = (type) =>
    [...(all.get(`type ${type}`) ?? [])].map(([metric, { said }]) => ({ metric, said }))

  return {
    /** How often the database was asked. */
    asked: { sensor: 0, type: 0 },

    /** @param {string} sensorId */
    async metricsOfSensor(sensorId) {
      this.asked.sensor++
      return ofSensor(sensorId)
    },
    /** @param {string} type */
    async metricsOfType(type) {
      this.asked.type++
      return ofType(type)
    },
    async *metricsOfSensors() {
      for (const sensorId of sensorIds()) {
        yield ofSensor(sensorId).map(({ metric, said }) => ({ sensorId, metric, said }))
      }
    },
    async *metricsOfTypes() {
      for (const owner of all.keys()) {
        const [, type] = /^type (.*)$/.exec(owner) ?? []
        if (type !== undefined) yield ofType(type).map((row) => ({ type, ...row }))
      }
    },
    /** @param {string} sensorId  @param {string} metric  @param {Metadata} said */
    async putMetricOfSensor(sensorId, metric, said) {
      metricOf(sensorId, metric).said = said
    },
    /** @param {string} sensorId  @param {string} metric */
    async forgetToldUnit(sensorId, metric) {
      metricOf(sensorId, metric).device = undefined
    },
    /** @param {string} sensorId  @param {string} metric  @param {string} unit */
    async restoreToldUnit(sensorId, metric, unit) {
      metricOf(sensorId, metric).device ??= unit
    },
    /** @param {string} type  @param {string} metric  @param {Metadata} said */
    async putMetricOfType(type, metric, said) {
      metricOf(`type ${type}`, metric).said = said
    },
    /** @param {string} type  @param {string} metric */
    async deleteMetricOfType(type, metric) {
      all.get(`type ${type}`)?.delete(metric)
    },
    forgetAll: () => all.clear(),
    /** What ingest does. @param {string} sensorId  @param {string} metric  @param {string} unit */
    tellUnit(sensorId, metric, unit) {
      metricOf(sensorId, metric).device = unit
    },
  }
}
