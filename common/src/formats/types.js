/**
 * What a decoder is: one format in which devices send measurements. Each is a file of its own that
 * exports one {@link Format}; `registry.js` lists them. Decoders are pure.
 */

/** @typedef {import('../measurement.js').Measurement} Measurement */

/**
 * What the topic says.
 *
 * @typedef {object} Place
 * @property {string} topic
 * @property {string | undefined} sensor  Undefined where the topic names none.
 * @property {string | undefined} metric  Undefined where the payload names it.
 * @property {number} [receivedMs]  When the message was received, milliseconds since the Unix
 *   epoch: for times that are relative to now.
 */

/**
 * A field that is no measurement. It is lost, counted and named; the other fields are stored.
 *
 * @typedef {object} RefusedField
 * @property {string} field  Where it stands, such as `color.x` or `[2].temperature`.
 * @property {string} reason  For the sender.
 * @property {import('../payload.js').PayloadFault} [fault]
 */

/**
 * What a payload says.
 *
 * @typedef {object} DecodedPayload
 * @property {string} [sensor]  Only where the payload names it: else it is that of the topic.
 * @property {Measurement[]} measurements
 * @property {RefusedField[]} refused
 * @property {Map<string, string>} [units]  By metric, where the payload tells them, in the names of
 *   UCUM or SenML. One that changes is stored (ADR 0070).
 */

/**
 * One format.
 *
 * @typedef {object} Format
 * @property {string} name  In topic templates and requests, such as `senml-json`.
 * @property {number} number  In spool records and dead letters: 0 to 127. It never changes.
 * @property {string} help  One line for people.
 * @property {boolean} [namesSensor]  Whether the payload can name its sensor, so that a topic
 *   template needs no `{sensor}`.
 * @property {(place: Place, payload: Buffer) => DecodedPayload} decode  Throws a `PayloadError`
 *   where nothing of the payload can be understood.
 */

export {}
