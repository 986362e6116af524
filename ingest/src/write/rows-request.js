/**
 * A request of rows, made for our own engine. It is cassandra-driver's batch, without what costs a
 * row most there: the search for the node that has the first row (there is one), a promise for each
 * statement, and the buffers of each value.
 *
 * The only file that uses private parts of the driver's requests; its version is fixed therefore
 * (docs/adr/0060).
 */

import executionOptions from 'cassandra-driver/lib/execution-options.js'
import PrepareHandler from 'cassandra-driver/lib/prepare-handler.js'
import RequestHandler from 'cassandra-driver/lib/request-handler.js'
import requests from 'cassandra-driver/lib/requests.js'
import { FrameValues } from './frame-values.js'

const { DefaultExecutionOptions } = executionOptions

const PROTOCOL_VERSION = 4
const HEADER_BYTES = 9
const OPCODE_BATCH = 13
const KIND_PREPARED = 1
const FLAG_TIMESTAMP = 0x20

const OPTIONS = Object.freeze({ prepare: true, logged: false, isIdempotent: true })

/** @typedef {import('./row.js').Row} Row */
/** @typedef {import('./frame-values.js').Column} Column */
/** @typedef {import('./frame-values.js').Encoder} Encoder */

/**
 * As the driver's batch has them.
 *
 * @typedef {{ queryId: Buffer, meta: { columns: Column[] } }} Prepared
 * @typedef {Prepared & { query: string, params: unknown[] }} Statement
 */

/** One at a time: a request is written at once. */
const values = new FrameValues()

/** @extends {requests.BatchRequest<Statement>} */
export class RowsRequest extends requests.BatchRequest {
  /**
   * @param {Encoder & { protocolVersion: number }} encoder
   * @param {number} streamId  Which answer will be its own.
   * @returns {Buffer}
   */
  write(encoder, streamId) {
    const { options, timestamp } = this
    const isPlain =
      encoder.protocolVersion === PROTOCOL_VERSION &&
      !options.isQueryTracing() &&
      !options.getCustomPayload() &&
      !options.getSerialConsistency()
    if (!isPlain) return super.write(encoder, streamId)
    values.clear()
    values.byte(PROTOCOL_VERSION)
    values.byte(0)
    values.short(streamId)
    values.byte(OPCODE_BATCH)
    // The length of the body, once it is known.
    values.int(0)
    values.byte(this.type)
    values.short(this.queries.length)
    for (const { queryId, params, meta } of this.queries) {
      values.byte(KIND_PREPARED)
      values.short(queryId.length)
      values.raw(queryId)
      values.short(params.length)
      for (let at = 0; at < params.length; at++) {
        values.value(params[at], meta.columns[at], encoder)
      }
    }
    values.short(options.getConsistency())
    const hasTimestamp = timestamp !== null && timestamp !== undefined
    values.byte(hasTimestamp ? FLAG_TIMESTAMP : 0)
    if (hasTimestamp) values.long(timestamp.getHighBits(), timestamp.getLowBits())
    this.length = values.length - HEADER_BYTES
    values.setInt(HEADER_BYTES - 4, this.length)
    return values.copy
  }
}

/**
 * Writes rows in one request.
 *
 * @param {import('cassandra-driver').Client} client  Connected.
 * @param {readonly Row[]} rows
 */
export async function sendRows(client, rows) {
  const options = DefaultExecutionOptions.create(OPTIONS, client)
  const policy = options.getLoadBalancingPolicy()
  /** @type {Map<string, Prepared>} */
  const prepared = new Map()
  for (const { query } of rows) {
    if (prepared.has(query)) continue
    prepared.set(query, await PrepareHandler.getPrepared(client, policy, query, client.keyspace))
  }
  const statements = rows.map(({ query, params }) => {
    const { queryId, meta } = /** @type {Prepared} */ (prepared.get(query))
    return { query, params, queryId, meta }
  })
  await RequestHandler.send(new RowsRequest(statements, options), options, client)
}
