/**
 * How requests are checked against their schemas. A query and a path are text, of which numbers and
 * lists are made; a body has types of its own, and `false` in it is no text.
 */

import { Ajv } from 'ajv'
import formats from 'ajv-formats'

const OPTIONS = { useDefaults: true, allErrors: false, allowUnionTypes: true }
const ofText = withFormats(new Ajv({ ...OPTIONS, coerceTypes: 'array' }))
const ofBodies = withFormats(new Ajv(OPTIONS))

/** @param {Ajv} ajv */
function withFormats(ajv) {
  // A module of CommonJS, whose types say that the default is in `default` once more.
  const add = /** @type {import('ajv-formats').FormatsPlugin} */ (/** @type {unknown} */ (formats))
  return add(ajv)
}

/**
 * Whether a value that came by another way than a request's parts fits a schema, as it is.
 *
 * @param {Record<string, unknown>} schema
 * @returns {import('ajv').ValidateFunction<unknown>}
 */
export function checkOf(schema) {
  return ofBodies.compile(schema)
}

/** @type {import('fastify').FastifySchemaCompiler<any>} */
export function validatorOf({ schema, httpPart }) {
  return (httpPart === 'body' ? ofBodies : ofText).compile(schema)
}
