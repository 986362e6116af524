/** Where the description of the interface says what can be done next: OpenAPI's links. Pure. */

/** @typedef {Record<string, any>} Schema */

/** Whether an operation makes a thing, and its answer tells the id. @param {Schema} operation */
const makesOne = ({ responses }) =>
  responses['201']?.content?.['application/json']?.schema !== undefined

/**
 * The description, in which what makes a thing at a path leads to all operations of
 * `path/{parameter}` and below, with the id of what was made.
 *
 * @param {Schema} document
 */
export function withLinks(document) {
  /** @type {[string, Schema][]} */
  const paths = Object.entries(document.paths)
  for (const [path, { post }] of paths) {
    if (!post || !makesOne(post)) continue
    const links = paths.flatMap(([below, operations]) => linksTo(path, below, operations))
    if (links.length > 0) post.responses['201'].links = Object.fromEntries(links)
  }
  return document
}

/**
 * @param {string} path   Of what makes the thing.
 * @param {string} below  Another one, which may be below it.
 * @param {Schema} operations  Of that, by method.
 * @returns {[string, Schema][]}
 */
function linksTo(path, below, operations) {
  const start = `${path}/{`
  if (!below.startsWith(start)) return []
  const parameter = below.slice(start.length, below.indexOf('}', start.length))
  return Object.values(operations).map(({ operationId }) => [
    operationId,
    { operationId, parameters: { [`path.${parameter}`]: '$response.body#/id' } },
  ])
}
