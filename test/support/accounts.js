/**
 * How many messages ingest cannot account for. Each one that it received, or found in its spool, is
 * in exactly one place.
 *
 * @param {Record<string, number>} stats  The document `/stats`.
 */
export function unaccounted(stats) {
  const { received, recovered, stored, deadLettered, spooled, held, droppedQos0, lost } = stats
  return received + recovered - stored - deadLettered - spooled - held - droppedQos0 - lost
}
