/**
 * A database in memory that knows timestamps, times to live and deletions, on a clock of the test's
 * own, for ingest and for rewrites. Requests take as long as the test says, and may be lost.
 */

import { bucketAt, layoutAt, measurementTable, retentionClass } from '@sandglass/common/schema'
import { FakeStorage } from './fake-storage.js'

/** @typedef {import('@sandglass/common/schema').Layout} Layout */
/** @typedef {import('@sandglass/common/schema').Place} Place */
/** @typedef {{ key: string, partition: string, table: string, metric: string, ts: number,
 *   seq: number, value: unknown, timestamp: number, untilMs: number }} Cell */

/** A process that dies, or a request of which it hears nothing. */
export class Killed extends Error {}

export class ModelDatabase extends FakeStorage {
  /** By partition and key. @type {Map<string, Map<string, Cell>>} */
  cells = new Map()
  /** Timestamps of deletions, of rows and partitions. @type {Map<string, number>} */
  deleted = new Map()
  /** By sensor and begin. @type {Map<string, { layout: Layout | undefined, stamp: number }>} */
  layoutRows = new Map()
  /** Requests on their way. @type {{ atMs: number, end: () => void }[]} */
  onTheWay = []
  /** How long a request takes, in milliseconds. */
  delayMs = () => 0

  /** @param {{ nowMs: number }} clock */
  constructor(clock) {
    super()
    this.clock = clock
  }

  /** @param {readonly import('../../src/write/row.js').Row[]} rows */
  async insert(rows) {
    const delayMs = this.delayMs()
    if (delayMs > 0) {
      await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
        this.onTheWay.push({ atMs: this.clock.nowMs + delayMs, end: resolve })
      })
    }
    await super.insert(rows)
  }

  /** When the next request ends. */
  get nextMs() {
    return Math.min(Infinity, ...this.onTheWay.map(({ atMs }) => atMs))
  }

  /** Ends the requests whose time has come. */
  land() {
    const due = this.onTheWay.filter(({ atMs }) => atMs <= this.clock.nowMs)
    this.onTheWay = this.onTheWay.filter(({ atMs }) => atMs > this.clock.nowMs)
    for (const { end } of due) end()
  }

  /** @param {{ query: string, params: readonly any[] }} row */
  keep(row) {
    const [, table, names] = /INTO \w+\.(\w+) \(([^)]*)\)/.exec(row.query) ?? []
    const columns = names.split(', ')
    const one = Object.fromEntries(columns.map((column, at) => [column, row.params[at]]))
    const isMortal = row.query.endsWith('AND TTL ?')
    const timestamp = Number(row.params.at(isMortal ? -2 : -1))
    if (table === 'layout') {
      const layout = { fromMs: one.from_ts, className: one.class, bucketS: one.bucket_s }
      this.setLayout(String(one.sensor_id), one.from_ts, layout, timestamp)
    } else if (table.startsWith('measurement_')) {
      const className = table.slice('measurement_'.length)
      const ttlS = isMortal ? row.params.at(-1) : retentionClass(className).ttlS
      const place = { sensorId: String(one.sensor_id), className, bucket: Number(one.bucket) }
      const { metric, ts, v: value } = one
      this.setCell(place, { metric, ts, seq: Number(one.seq), value }, ttlS, timestamp)
    } else {
      super.keep(/** @type {any} */ (row))
    }
  }

  /**
   * @param {{ sensorId: string, className: string, bucket: number }} place
   * @param {{ metric: string, ts: number, seq: number, value: unknown }} row
   * @param {number} ttlS
   * @param {number} timestamp
   */
  setCell({ sensorId, className, bucket }, row, ttlS, timestamp) {
    const partition = `${className}/${sensorId}/${bucket}`
    const key = `${partition}/${row.metric}/${row.ts}/${row.seq}`
    const untilMs = ttlS > 0 ? this.clock.nowMs + ttlS * 1000 : Infinity
    const cells = this.cells.get(partition) ?? new Map()
    const before = cells.get(key)
    if (before && before.timestamp > timestamp) return
    if (before?.timestamp === timestamp && before.untilMs < untilMs) return
    const table = measurementTable(className)
    cells.set(key, { ...row, key, partition, table, timestamp, untilMs })
    this.cells.set(partition, cells)
  }

  /** The rows that are there now. @param {string} partition */
  cellsOf(partition) {
    const cells = [...(this.cells.get(partition)?.values() ?? [])]
    return cells.filter((cell) => this.isVisible(cell))
  }

  /**
   * @param {string} id
   * @param {number} fromMs
   * @param {Layout | undefined} layout
   * @param {number} stamp
   */
  setLayout(id, fromMs, layout, stamp) {
    const before = this.layoutRows.get(`${id}/${fromMs}`)
    if (before && before.stamp > stamp) return
    this.layoutRows.set(`${id}/${fromMs}`, { layout, stamp })
  }

  /** @param {string} id */
  registered(id) {
    const layouts = [...this.layoutRows]
      .filter(([key, { layout }]) => key.startsWith(`${id}/`) && layout)
      .map(([, { layout }]) => /** @type {Layout} */ (layout))
      .sort((a, b) => a.fromMs - b.fromMs)
    return { isRegistered: layouts.length > 0, isHidden: false, layouts }
  }

  /**
   * @param {{ id: string, layouts?: readonly Layout[] }} sensor
   * @param {string} metric
   * @param {number} timeMs
   */
  async *rowsAt({ id, layouts = [] }, metric, timeMs) {
    const layout = layoutAt(layouts, timeMs)
    const partition = `${layout.className}/${id}/${bucketAt(layout, timeMs)}`
    yield* this.cellsOf(partition)
      .filter((cell) => cell.metric === metric && cell.ts === timeMs)
      .map(({ ts, seq, value }) => /** @type {any} */ ({ ts: new Date(ts), seq, v: value }))
  }

  /**
   * What a reader finds who has read these layouts.
   *
   * @param {string} id
   * @param {readonly Layout[]} layouts
   */
  read(id, layouts) {
    return [...this.cells.keys()].flatMap((partition) =>
      this.cellsOf(partition).filter(({ ts }) => {
        const layout = layoutAt(layouts, ts)
        return partition === `${layout.className}/${id}/${bucketAt(layout, ts)}`
      }),
    )
  }

  /** @param {Cell} cell */
  isVisible({ key, partition, untilMs, timestamp }) {
    return (
      untilMs > this.clock.nowMs &&
      timestamp > (this.deleted.get(key) ?? -1) &&
      timestamp > (this.deleted.get(partition) ?? -1)
    )
  }
}

/** What `RewriteStore` is, over the model. A request may end a process before or after it. */
export class ModelRewriteStore {
  /** @typedef {{ askedMs: number, className: string | null, state: string | undefined }} JobRow */
  /** @type {Map<string, JobRow>} */
  jobRows = new Map()

  /** @param {ModelDatabase} database  @param {() => Promise<void>} hazard */
  constructor(database, hazard) {
    this.database = database
    this.hazard = hazard
  }

  /** @template T  @param {() => T} act */
  async request(act) {
    await this.hazard()
    const result = act()
    await this.hazard()
    return result
  }

  /** @param {string} sensorId  @param {string | null} className */
  ask(sensorId, className) {
    const state = this.jobRows.get(sensorId)?.state
    this.jobRows.set(sensorId, { askedMs: this.database.clock.nowMs, className, state })
  }

  /** @param {string} sensorId */
  async job(sensorId) {
    return this.request(() => {
      const row = this.jobRows.get(sensorId)
      return row && { ...row, sensorId, state: row.state && JSON.parse(row.state) }
    })
  }

  async jobs() {
    const jobs = await Promise.all([...this.jobRows.keys()].map((id) => this.job(id)))
    return jobs.filter((job) => job !== undefined)
  }

  /** @param {string} sensorId  @param {unknown} state */
  async save(sensorId, state) {
    const text = JSON.stringify(state)
    await this.request(() => {
      const row = /** @type {any} */ (this.jobRows.get(sensorId))
      row.state = text
    })
  }

  /** @param {string} sensorId */
  async layouts(sensorId) {
    return this.request(() => ({
      layouts: this.database.registered(sensorId).layouts,
      writtenUs: Math.max(0, ...[...this.database.layoutRows.values()].map(({ stamp }) => stamp)),
    }))
  }

  /**
   * @param {string} sensorId
   * @param {import('../../src/rewrite/layouts.js').Change} change
   * @param {number} stampUs
   */
  async change(sensorId, { put, drop }, stampUs) {
    await this.request(() => {
      for (const layout of put) this.database.setLayout(sensorId, layout.fromMs, layout, stampUs)
      for (const fromMs of drop) this.database.setLayout(sensorId, fromMs, undefined, stampUs)
    })
  }

  /** @param {string} sensorId */
  async extent(sensorId) {
    return this.request(() => {
      const rows = this.database.rowsOf('series').filter((row) => `${row.sensor_id}` === sensorId)
      if (rows.length === 0) return undefined
      return {
        fromMs: Math.min(...rows.map((row) => row.first_ts)) - 600_000,
        toMs: Math.max(...rows.map((row) => row.last_ts)) + 600_001,
      }
    })
  }

  /** @param {string} sensorId  @param {string} className  @param {number} bucket */
  async *rows(sensorId, className, bucket) {
    const cells = await this.request(() =>
      this.database.cellsOf(`${className}/${sensorId}/${bucket}`),
    )
    for (let at = 0; at < cells.length; at += 3) {
      await this.hazard()
      // As in a real database, a page shows what is there when it is asked for.
      const page = cells
        .slice(at, at + 3)
        .filter(({ untilMs }) => untilMs > this.database.clock.nowMs)
      yield page.map(({ metric, ts, seq, value, timestamp }) => ({
        metric,
        timeMs: ts,
        seq,
        kind: 1,
        values: [value],
        bytes: 1,
        receivedMs: Math.floor(timestamp / 1000),
      }))
    }
  }

  /** @param {string} sensorId  @param {Place} place  @param {any[]} rows */
  async put(sensorId, place, rows) {
    for (const { row, ttlS, stampUs } of rows) {
      await this.request(() => {
        const { metric, timeMs: ts, seq, values } = row
        const bucket = bucketAt(place, ts)
        const at = { sensorId, className: place.className, bucket }
        this.database.setCell(at, { metric, ts, seq, value: values[0] }, ttlS, stampUs)
      })
    }
  }

  /**
   * @param {string} sensorId
   * @param {string} className
   * @param {number} bucket
   * @param {number} stampUs
   */
  async dropPartition(sensorId, className, bucket, stampUs) {
    await this.request(() => {
      this.database.deleted.set(`${className}/${sensorId}/${bucket}`, stampUs)
    })
  }

  /**
   * @param {string} sensorId
   * @param {string} className
   * @param {number} bucket
   * @param {{ metric: string, timeMs: number, seq: number }[]} rows
   * @param {number} stampUs
   */
  async dropRows(sensorId, className, bucket, rows, stampUs) {
    await this.request(() => {
      for (const { metric, timeMs, seq } of rows) {
        const key = `${className}/${sensorId}/${bucket}/${metric}/${timeMs}/${seq}`
        this.database.deleted.set(key, stampUs)
      }
    })
  }
}
