/** The list of rewrites that may not be over: the api puts them on it, ingest takes them off. */

/** Lists a rewrite, before it is asked for. @param {string} keyspace */
export function openRewriteStatement(keyspace) {
  return `INSERT INTO ${keyspace}.rewrite_open (sensor_id, asked) VALUES (?, ?) USING TIMESTAMP ?`
}

/**
 * Takes it off the list. Its timestamp is above that of {@link openRewriteStatement}, whatever the
 * clocks of those say who list it and take it off.
 *
 * @param {string} keyspace
 */
export function closeRewriteStatement(keyspace) {
  return `DELETE FROM ${keyspace}.rewrite_open USING TIMESTAMP ?
          WHERE sensor_id = ? AND asked = ?`
}

/** The timestamp of {@link openRewriteStatement}, in microseconds. @param {number} askedMs */
export const openRewriteStampUs = (askedMs) => askedMs * 1000

/** The timestamp of {@link closeRewriteStatement}. @param {number} askedMs */
export const closeRewriteStampUs = (askedMs) => askedMs * 1000 + 1
