/**
 * Keeps `series.told_unit`: the unit that a device tells of a metric. It costs a row when it
 * changes and not one a message. What is stored is read with all else that the database says of a
 * sensor, so a restart writes nothing, and what another process stored is heard of.
 */

/** @typedef {import('../message/message.js').Message} Message */
/** @typedef {import('../write/row.js').Row} Row */
/** @typedef {import('../write/rows.js').Rows} Rows */
/** @typedef {import('./series.js').Series} Series */

/**
 * @typedef {object} ToldUnit
 * @property {string} unit
 * @property {number} toldMs  When the message that told it was received, ms since the Unix epoch.
 */

/**
 * Makes sure that the unit of a series is stored once its message is acknowledged.
 *
 * @param {Rows} rows
 * @param {Series} series
 * @param {string} unit
 * @param {Message} message
 * @returns {Row | undefined}  To be written.
 */
export function noteUnit(rows, series, unit, message) {
  const { sensor, metric, unitRow } = series
  if (unitRow?.unit === unit) {
    unitRow.row.holdBack(message)
    return undefined
  }
  const known = sensor.units.get(metric)
  // Another one may be on its way: then what is stored now will not stay.
  if (known?.unit === unit && !unitRow) return undefined
  // Out of the spool, or a dead letter: it has been told otherwise since.
  if (known && known.toldMs > message.receivedMs) return undefined
  const row = rows.seriesUnit(series, unit, message)
  series.unitRow = { unit, row }
  row.onDone = () => {
    if (series.unitRow?.row === row) series.unitRow = undefined
    sensor.storedUnit(metric, { unit, toldMs: message.receivedMs })
  }
  return row
}
