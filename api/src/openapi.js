/**
 * The description of the interface (OpenAPI 3.1): what routes say of themselves in their schemas,
 * and what holds for all of them. `/openapi.json` is for programs, `/docs` for people.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { scopeOf } from './auth.js'
import { CONTENT_POLICY } from './guard.js'
import { withLinks } from './links.js'
import * as schemas from './schemas.js'

/** @typedef {Record<string, any>} Schema */

/** What stands in `components` instead of at each place where it is used. */
const COMPONENTS = {
  Sensor: schemas.sensor,
  SensorInFull: schemas.sensorInFull,
  Measurement: schemas.measurement,
  Latest: schemas.latest,
  DeadLetter: schemas.deadLetter,
  Problem: schemas.problemDocument,
}

const TAGS = {
  sensors: 'What sensors there are, and what is known of each.',
  measurements: 'What was measured, value by value.',
  series: 'What was measured, summed up in windows.',
  latest: 'The newest value of each metric.',
  metadata: 'What numbers mean: units, labels, expected ranges.',
  dashboards: 'Charts that people saved, several together.',
  alerts: 'Rules on what is measured, what they found, and who is told.',
  deletions: 'What is deleted for good.',
  ingest: 'How measurements come in, and what could not be stored.',
  keys: 'Who may do what.',
  service: 'How the api is.',
}

/** The one style that Swagger UI has within its script, by its hash. */
const UI_STYLE = "'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='"

/** What an answer is that says no more of itself, by status. @type {Record<string, string>} */
const ANSWERS = {
  200: 'What was asked for.',
  201: 'What was made.',
  202: 'What will be done.',
  503: 'The same, while something is away.',
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {{ requireKeys: boolean, web: string }} parts  `web` is the folder of the page.
 */
export async function describe(app, { requireKeys, web }) {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Sandglass',
        version: '1',
        description:
          'What sensors measured. Times are milliseconds since 1970. Errors are problem documents ' +
          '(RFC 9457): `type` says what is wrong, and stays the same.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/', description: 'The api that gives this description.' }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      components: {
        securitySchemes: {
          key: {
            type: 'http',
            scheme: 'bearer',
            description:
              'A key of `npm run keys` or `POST /v1/keys`. Each operation names the scope that the ' +
              `key needs. This api ${requireKeys ? 'asks for one' : 'asks for none'}.`,
          },
        },
      },
    },
    transform: ({ schema, url, route }) => ({
      schema: inFull(schema, url, String(route.method), requireKeys),
      url,
    }),
    transformObject: (document) => {
      if (!('openapiObject' in document)) return document.swaggerObject
      const described = /** @type {Schema} */ (inJsonSchema(document.openapiObject))
      return withLinks(withComponents(described))
    },
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    // No word to a validator on the network.
    uiConfig: { validatorUrl: null },
    staticCSP: CONTENT_POLICY.replace("style-src 'self'", `style-src 'self' ${UI_STYLE}`),
    logo: { type: 'image/svg+xml', content: readFileSync(join(web, 'icon.svg')), href: '/' },
    theme: {
      title: 'Sandglass REST',
      css: [{ filename: 'docs.css', content: readFileSync(join(web, 'docs.css'), 'utf8') }],
    },
  })
}

/**
 * What is described of a route and not validated by Fastify: a body that is read as bytes, and the
 * scope of the key.
 *
 * @param {Schema} schema
 * @param {string} url
 * @param {string} method
 * @param {boolean} requireKeys
 */
function inFull(schema, url, method, requireKeys) {
  if (!schema || schema.hide) return schema
  const scope = scopeOf(method, url)
  const { rawBody, response, ...rest } = schema
  return {
    ...rest,
    ...(rawBody && { body: rawBody }),
    response: Object.fromEntries(
      Object.entries(response).map(([status, answer]) => [
        status,
        { 'x-response-description': answer.description ?? ANSWERS[status], ...answer },
      ]),
    ),
    security:
      scope === undefined
        ? []
        : [...(requireKeys ? [] : [{}]), { key: scope === 'any' ? [] : [scope] }],
  }
}

/**
 * JSON Schema has null as a type; OpenAPI 3.0, and Fastify with it, has a word beside the type.
 * What an answer always has is `required`.
 *
 * @param {any} node
 * @returns {any}
 */
function inJsonSchema(node) {
  if (Array.isArray(node)) return node.map(inJsonSchema)
  if (node === null || typeof node !== 'object') return node
  const { nullable, 'x-always': always, ...rest } = node
  const mapped = Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [key, inJsonSchema(value)]),
  )
  if (always !== undefined) mapped.required = always
  if (nullable !== true) return mapped
  return {
    ...mapped,
    type: [mapped.type, 'null'],
    ...(mapped.enum && { enum: [...mapped.enum, null] }),
  }
}

/** @param {Schema} document */
function withComponents(document) {
  const components = Object.entries(COMPONENTS).map(([name, schema]) => [
    name,
    inJsonSchema(schema),
  ])
  const byText = new Map(components.map(([name, schema]) => [JSON.stringify(schema), name]))
  /** @param {any} node  @returns {any} */
  const refer = (node) => {
    if (Array.isArray(node)) return node.map(refer)
    if (node === null || typeof node !== 'object') return node
    const name = byText.get(JSON.stringify(node))
    if (name !== undefined) return { $ref: `#/components/schemas/${name}` }
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, refer(value)]))
  }
  return {
    ...document,
    components: { ...document.components, schemas: Object.fromEntries(components) },
    paths: refer(document.paths),
  }
}
