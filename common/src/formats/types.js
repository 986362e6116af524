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
 * @property {ReadonlyMap<string, string>} [words]  What stands for the `{word}`s of the template,
 *   where the format gives them a meaning.
 * @property {string} [owner]  The sensor whose device may write to this one, too: that of an edge
 *   node.
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
 * @property {boolean} [isRelative]  Whether some of the measurements have an `offsetMs`.
 * @property {boolean} [isSilent]  Whether it is understood, and says nothing that is stored.
 */

/**
 * What topic templates of a format look like: texts, then these levels, of which the last one may
 * be missing.
 *
 * @typedef {object} TopicShape
 * @property {readonly string[]} levels  Each a `{word}`.
 * @property {string} name  Of the sensor, where the template gives none; what is in brackets is
 *   left out without the last level.
 * @property {string} joint  What joins words in that name; a word that has it is refused.
 * @property {Readonly<Record<string, string | undefined>>} commands  Words by which a topic becomes
 *   that on which its sender is told something; undefined: the level is left out.
 * @property {(words: ReadonlyMap<string, string>) => boolean} carries  Whether the messages of a
 *   topic are measurements, or should have been.
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
 * @property {TopicShape} [shape]  Of its topic templates; without it they may be of any.
 * @property {boolean} [isFollowed]  Whether messages are understood only by who has heard those
 *   before them, so that one process hears them all, in order.
 * @property {boolean} [isEvaluated]  Whether a message is decoded when it is received, and has what
 *   that gave for a payload: a topic template or a request cannot name it.
 * @property {number} [bytesMax]  Largest payload, where that is another one than for others.
 * @property {(place: Place, payload: Buffer) => DecodedPayload} decode  Throws a `PayloadError`
 *   where nothing of the payload can be understood.
 */

export {}
