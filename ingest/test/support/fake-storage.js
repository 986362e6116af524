/**
 * A database in memory behind the interface that the writer and the registry use. A test says when
 * and how its requests end.
 */

import { layoutTimestampUs } from '@sandglass/common/layout'

/** @typedef {import('../../src/sensors/registry.js').KnownSensor} Known */
/** @typedef {Omit<Known, 'lastTimes' | 'units'>} KnownSensor */
/** @typedef {import('../../src/write/row.js').Row} Row */
/** @typedef {{ rows: readonly Row[], end: (error?: Error) => void }} Request */

/** An error that says what is to be done about it. */
export class FakeError extends Error {
  /** @param {import('../../src/write/writer.js').Remedy} remedy */
  constructor(remedy) {
    super(`an error to ${remedy}`)
    this.remedy = remedy
  }
}

export class FakeStorage {
  constructor() {
    /** Every row that is durable, by its key. @type {Map<string, Record<string, any>>} */
    this.stored = new Map()
    /** Requests that wait, while `isManual`. @type {Request[]} */
    this.requests = []
    /** Whether the test ends requests. */
    this.isManual = false
    /** Whether it is away. */
    this.isDown = false
    /** Rows that it will never take. @type {(row: Row) => boolean} */
    this.refuses = () => false
    /** What it knows of sensors. @type {Map<string, KnownSensor>} */
    this.sensors = new Map()
    /** What was deleted. @type {import('@sandglass/common/deletion').Deletion[]} */
    this.deletions = []
    this.inserts = 0
  }

  /** @param {readonly Row[]} rows */
  async insert(rows) {
    this.inserts++
    if (this.isDown) throw new FakeError('retry')
    if (this.isManual) {
      await new Promise((resolve, reject) => {
        const end = (/** @type {Error | undefined} */ error) =>
          error ? reject(error) : resolve(undefined)
        this.requests.push({ rows, end })
      })
    }
    if (rows.some(this.refuses)) throw new FakeError('refuse')
    for (const row of rows) this.keep(row)
  }

  /** @param {string} id  @returns {Promise<import('@sandglass/common/deletion').Deletion[]>} */
  async deletionsOf(id) {
    if (this.isDown) throw new FakeError('retry')
    return this.deletions.filter(({ sensorId }) => sensorId === id)
  }

  /** @param {Pick<Row, 'query' | 'params'>} row */
  keep({ query, params }) {
    const match = /INTO \w+\.(\w+) \(([^)]*)\)/.exec(query)
    const [table, columns] = [match?.[1] ?? '', (match?.[2] ?? '').split(', ')]
    const values = Object.fromEntries(columns.map((column, at) => [column, params[at]]))
    if ('seq' in values) values.seq = Number(values.seq)
    const keys = [
      'shard',
      'slot',
      'level',
      'sensor_id',
      'from_ts',
      'bucket',
      'metric',
      'ts',
      'seq',
      'id',
    ].filter((column) => column in values && !(column === 'ts' && table === 'latest'))
    const key = [table, ...keys.map((column) => String(values[column]))].join(' ')
    const isMortal = query.endsWith('AND TTL ?')
    const timestamp = Number(params.at(isMortal ? -2 : -1))
    const row = this.stored.get(key) ?? { table, timestamp, cells: {} }
    // As in the database: of each cell, the newest.
    for (const [column, value] of Object.entries(values)) {
      if (row.cells[column] > timestamp) continue
      row.cells[column] = timestamp
      row[column] = value
    }
    row.ttlS = isMortal ? params.at(-1) : undefined
    row.timestamp = Math.max(row.timestamp, timestamp)
    this.stored.set(key, row)
  }

  /** The rows of a table. @param {string} table */
  rowsOf(table) {
    return [...this.stored.values()].filter((row) => row.table === table)
  }

  /** @param {Error} error */
  remedy(error) {
    return error instanceof FakeError ? error.remedy : 'retry'
  }

  /** @param {readonly string[]} ids */
  async readSensors(ids) {
    if (this.isDown) throw new FakeError('retry')
    return new Map(ids.map((id) => [id, this.knownOf(id)]))
  }

  /** @param {string} id */
  knownOf(id) {
    const series = this.rowsOf('series').filter((row) => String(row.sensor_id) === id)
    const lastTimes = new Map(
      series
        .filter((row) => 'last_ts' in row)
        .map(({ metric, last_ts: lastMs }) => [metric, lastMs]),
    )
    const units = new Map(
      series
        .filter((row) => row.told_unit)
        .map(({ metric, told_unit: unit, cells }) => [
          metric,
          { unit, toldMs: cells.told_unit / 1000 },
        ]),
    )
    const known = this.sensors.get(id) ?? this.registered(id)
    return { ...known, lastTimes, units }
  }

  /** @param {string} id */
  async layouts(id) {
    if (this.isDown) throw new FakeError('retry')
    return this.registered(id).layouts
  }

  /** @param {string} id  @param {import('@sandglass/common/schema').Layout} layout */
  async addLayout(id, layout) {
    this.putLayout(id, layout, layoutTimestampUs(layout))
  }

  /**
   * @param {string} id
   * @param {import('@sandglass/common/schema').Layout} layout
   * @param {number} timestampUs
   */
  putLayout(id, { fromMs, className, bucketS }, timestampUs) {
    if (this.isDown) throw new FakeError('retry')
    const query = 'INSERT INTO k.layout (sensor_id, from_ts, class, bucket_s)'
    this.keep({ query, params: [id, fromMs, className, bucketS, timestampUs] })
  }

  /** What the rows say of a sensor. @param {string} id */
  registered(id) {
    const layouts = this.rowsOf('layout')
      .filter((row) => String(row.sensor_id) === id)
      .map((row) => ({ fromMs: row.from_ts, className: row.class, bucketS: row.bucket_s }))
      .sort((a, b) => a.fromMs - b.fromMs)
    return { isRegistered: layouts.length > 0, isHidden: false, layouts }
  }

  /** @param {{ id: string }} sensor  @param {string} metric */
  async newest(sensor, metric) {
    const rows = await this.#rawRows(sensor.id, metric)
    return rows.sort((a, b) => Number(b.ts) - Number(a.ts))
  }

  /** @param {{ id: string }} sensor  @param {string} metric  @param {number} timeMs */
  async *rowsAt(sensor, metric, timeMs) {
    yield* (await this.#rawRows(sensor.id, metric)).filter(({ ts }) => ts.getTime() === timeMs)
  }

  /** @type {import('../../src/write/storage.js').Storage['deadLetter']} */
  async deadLetter(id) {
    const row = this.rowsOf('dead_letter').find((letter) => String(letter.id) === id)
    return row && /** @type {any} */ ({ ...row, receivedMs: row.received })
  }

  /** @param {string} id  @param {string} metric */
  async #rawRows(id, metric) {
    if (this.isDown) throw new FakeError('retry')
    return [...this.stored.values()]
      .filter(
        (row) =>
          row.table.startsWith('measurement_') &&
          String(row.sensor_id) === id &&
          row.metric === metric,
      )
      .map((row) => /** @type {any} */ ({ ...row, ts: new Date(row.ts) }))
  }

  async countSensors() {
    return this.sensors.size
  }
}
