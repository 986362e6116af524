/**
 * Which MQTT topics carry measurements, of which sensor and metric, and in which format: those
 * below `sensors`, and those that templates describe. Pure; the same in ingest and api.
 *
 * ```text
 * template := level { "/" level } [ " as " name ] [ " in " format ]     the first level is a text
 * level    := text | {word} | {metric...}             the latter is the last one
 * name     := text with {word}s: the sensor; without it, {sensor}
 * format   := one of formats/registry.js; without it, json
 *
 * plant/{area}/{sensor}/{metric}                      any area
 * plant/{line}/{machine}/{metric} as {line}.{machine}
 * zigbee2mqtt/{sensor}                                an object of metrics
 * shellies/{sensor}/{metric...}                       emeter/0/power is emeter.0.power
 * gateway/up in json-object                           the payload names the sensor
 * spBv1.0/{group}/{type}/{node}[/{device}] in sparkplug-b
 * ```
 *
 * Only where the format says so may the last level be missing: what is in brackets, in the name
 * too.
 */

import { expression } from './formats/expression.js'
import { formatAt, formatNamed, TOPIC_FORMATS } from './formats/registry.js'
import { SettingError } from './options.js'
import {
  checkMetric,
  checkSensor,
  isMeasurementTopic,
  PayloadError,
  parseTopic,
} from './payload.js'
import { isSensorName, SENSOR_NAME_RULE } from './sensor.js'

/** Most templates: each is tried for a topic that was not seen before. */
const TEMPLATES_MAX = 32

const WORD = /^\{([A-Za-z_][A-Za-z0-9_]*)\}$/
const REST = '{metric...}'

/** Of the topics below `sensors`, and of templates that name no other. */
const JSON_FORMAT = 0

/** @typedef {{ sensor: string | undefined, metric: string | undefined }} Meaning */

/**
 * @typedef {object} Template
 * @property {string[]} levels  Without that of the rest.
 * @property {boolean} hasRest  Whether any number of levels follows, and is the metric.
 * @property {string[]} name  Pieces of the sensor's name: texts and `{word}`s. None where only the
 *   payload names it.
 * @property {number} format
 * @property {TopicShape} [shape]  Of the topics of its format.
 * @property {string} [joint]  What no word of its name may have.
 * @property {string[]} [owner]  The name without the level that may be missing.
 * @property {string} text  As somebody wrote it.
 * @property {Decoder} [decoder]  Of somebody's own format.
 */

/** @typedef {import('./expressions/decoder.js').Decoder} Decoder */

/** @typedef {import('./formats/types.js').TopicShape} TopicShape */

/**
 * @typedef {object} Sender
 * @property {ReadonlyMap<string, string>} words
 * @property {string} owner  Its own sensor.
 * @property {string} commands  The topic on which it is told something.
 */

/** What is left out where the last level is missing. */
const OPTIONAL = /\[([^[\]]*)\]/g

/** @param {string} level */
const isText = (level) => !level.startsWith('{')

/** @param {string} text  @param {string} remedy */
function bad(text, remedy) {
  return new SettingError(`Template ${text}: ${remedy}`)
}

/**
 * @param {string} text
 * @returns {Template[]}  One, or two where the last level may be missing.
 * @throws {SettingError}
 */
function parseTemplate(text) {
  const [, named, formatName = 'json'] = /^(.*?)(?: in (\S+))?$/s.exec(text) ?? ['', text]
  const format = formatOf(text, formatName)
  const { shape } = format
  if (!shape) return [templateOf(text, named, format)]
  const [path, naming] = named.split(' as ')
  requireShape(text, path, shape)
  const whole = naming === undefined ? `${path} as ${shape.name}` : named
  const joint = naming === undefined ? shape.joint : undefined
  const short = templateOf(text, whole.replace(OPTIONAL, ''), format)
  const long = templateOf(text, whole.replace(OPTIONAL, '$1'), format)
  return [short, long].map((one) => ({ ...one, shape, joint, owner: short.name }))
}

/**
 * @param {string} text
 * @param {string} path  Of the template.
 * @param {TopicShape} shape
 * @throws {SettingError}
 */
function requireShape(text, path, { levels }) {
  const end = `/${levels.slice(0, -1).join('/')}[/${levels.at(-1)}]`
  const begin = path.slice(0, -end.length)
  if (path.endsWith(end) && begin !== '' && !/[{}[\]]/.test(begin)) return
  throw bad(text, `its topics are texts, and then ${end.slice(1)}.`)
}

/**
 * @param {string} text
 * @param {string} named  Of it, what is before the format.
 * @param {import('./formats/types.js').Format} format
 * @returns {Template}
 * @throws {SettingError}
 */
function templateOf(text, named, format) {
  const [path, naming, ...more] = named.split(' as ')
  const all = path.split('/')
  const hasRest = all.at(-1) === REST
  const levels = hasRest ? all.slice(0, -1) : all
  if (more.length > 0) throw bad(text, 'give one name, as in a/{b}/{c} as {b}.{c}.')
  for (const level of levels) {
    if (level === '' || (isText(level) ? /[+#{}\s]/.test(level) : !WORD.test(level))) {
      throw bad(text, `each level is a text or one {word}, which ${level || 'nothing'} is not.`)
    }
  }
  if (!isText(levels[0]) || levels[0].startsWith('$')) {
    throw bad(text, 'the first level is a text, so that other topics do not fit by chance.')
  }
  const words = levels.filter((level) => !isText(level))
  if (new Set(words).size < words.length) throw bad(text, 'use each {word} once.')
  if (hasRest && words.includes('{metric}')) throw bad(text, `give {metric} or ${REST}.`)
  const name = nameIn(text, { naming, words, namesSensor: format.namesSensor ?? false })
  return { levels, hasRest, name, format: format.number, text }
}

/**
 * The template of somebody's own format.
 *
 * @param {string} text  Without a format.
 * @returns {Template}
 * @throws {SettingError}
 */
export function parseOwnTemplate(text) {
  if (/ in \S+$/.test(text)) throw bad(text, 'it has no format: the expression reads its messages.')
  return templateOf(text, text, expression)
}

/** @param {string} text  @param {string} name */
function formatOf(text, name) {
  const format = formatNamed(name)
  if (format && TOPIC_FORMATS.includes(format)) return format
  const known = TOPIC_FORMATS.map((one) => one.name).join(', ')
  throw bad(text, `there is no format ${name}: give one of ${known}.`)
}

/**
 * The pieces of the name that a template gives its sensor.
 *
 * @param {string} text
 * @param {{ naming: string | undefined, words: string[], namesSensor: boolean }} parts
 */
function nameIn(text, { naming = '{sensor}', words, namesSensor }) {
  // The payload names it; the topic has no name to offer.
  if (naming === '{sensor}' && namesSensor && !words.includes('{sensor}')) return []
  const name = naming.split(/(\{[^}]*\})/).filter((piece) => piece !== '')
  const used = name.filter((piece) => !isText(piece))
  for (const word of used) {
    if (!words.includes(word) || word === '{metric}') {
      throw bad(text, `the name of the sensor needs ${word}, which is no level of its own.`)
    }
  }
  // Every {word} stands for at least one character.
  if (
    used.length === 0 ||
    !isSensorName(name.map((piece) => (isText(piece) ? piece : 'x')).join(''))
  ) {
    throw bad(text, `the name of the sensor is made of {word}s and texts, and ${SENSOR_NAME_RULE}.`)
  }
  return name
}

/** @typedef {Pick<Template, 'levels' | 'hasRest'>} Levels */

/** Whether a topic could fit both. @param {Levels} one  @param {Levels} other */
export function overlap(one, other) {
  const [short, long] = one.levels.length <= other.levels.length ? [one, other] : [other, one]
  if (short.levels.length < long.levels.length && !short.hasRest) return false
  return short.levels.every((level, at) => {
    return !isText(level) || !isText(long.levels[at]) || level === long.levels[at]
  })
}

/**
 * Templates as they are configured, one after the other with commas between them.
 *
 * @param {string} text
 * @returns {Topics}
 * @throws {SettingError}  Says which one is at fault, and what would be right.
 */
export function parseTopics(text) {
  const texts = text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
  if (texts.length > TEMPLATES_MAX) {
    throw new SettingError(`Give at most ${TEMPLATES_MAX} templates.`)
  }
  const parsed = texts.flatMap((one) =>
    parseTemplate(one).map((template) => ({ own: one, template })),
  )
  for (const [at, { own, template }] of parsed.entries()) {
    if (isMeasurementTopic(template.levels[0])) {
      throw bad(own, 'topics below sensors mean something already.')
    }
    const before = parsed.slice(0, at).find((other) => overlap(template, other.template))
    if (before) {
      throw bad(own, `a topic could fit it and ${before.own}: make a level a text.`)
    }
  }
  return new Topics(parsed.map(({ template }) => template))
}

export class Topics {
  #configured
  /** Those that are configured first. @type {readonly Template[]} */
  #templates

  /** @param {readonly Template[]} [templates] */
  constructor(templates = []) {
    this.#configured = templates
    this.#templates = templates
  }

  /**
   * Has these be the templates of people's own formats from now on.
   *
   * @param {readonly Template[]} own  None overlaps with another one.
   */
  set own(own) {
    this.#templates = [...this.#configured, ...own]
  }

  /**
   * What a template of somebody's own format cannot stand beside.
   *
   * @param {Template} template
   * @returns {string | undefined}
   */
  clashOf(template) {
    if (isMeasurementTopic(template.levels[0])) return 'sensors/…, which means something already'
    return this.#configured.find((one) => overlap(one, template))?.text
  }

  /** The decoder of a topic that has a format of somebody's own. @param {string} topic */
  decoderOf(topic) {
    if (this.#templates.length === this.#configured.length) return undefined
    return this.#find(topic)?.template.decoder
  }

  /** Topic filters of all of these topics; no topic fits two of them. */
  get filters() {
    return ['sensors/#', ...this.#templates.map(filterOf)]
  }

  /** Those of messages that one process has to hear all of. */
  get followedFilters() {
    return this.#templates.filter(({ format }) => formatAt(format)?.isFollowed).map(filterOf)
  }

  /** Whether a topic could be one of these and begin with some levels. @param {string} prefix */
  touches(prefix) {
    const other = { levels: prefix.split('/'), hasRest: true }
    return this.#templates.some((template) => overlap(template, other))
  }

  /**
   * Whether messages of a topic are measurements (or should have been), rather than ordinary MQTT
   * traffic.
   *
   * @param {string} topic
   */
  carry(topic) {
    return this.formatOf(topic) !== undefined
  }

  /**
   * The format of the messages of a topic.
   *
   * @param {string} topic
   * @returns {number | undefined}  Undefined where they are no measurements.
   */
  formatOf(topic) {
    if (isMeasurementTopic(topic)) return JSON_FORMAT
    const found = this.#templates.length > 0 ? this.#find(topic) : undefined
    if (!found) return undefined
    const { template, words } = found
    return template.shape?.carries(words) === false ? undefined : template.format
  }

  /**
   * @param {string} topic
   * @returns {Meaning}  Sensor or metric are undefined where the payload names them.
   * @throws {PayloadError}
   */
  parse(topic) {
    const found = isMeasurementTopic(topic) ? undefined : this.#find(topic)
    if (!found) return parseTopic(topic)
    const { template, levels, words } = found
    const sensor = template.name.length > 0 ? nameOf(found) : undefined
    if (sensor === '' && template.joint !== undefined) {
      const fault = `a level of the topic is empty, or has ${template.joint} in it`
      throw new PayloadError('topic', fault)
    }
    const rest = levels.slice(template.levels.length)
    const metric = rest.length > 0 ? rest.join('.') : words.get('{metric}')
    if (sensor !== undefined) checkSensor(sensor)
    if (metric !== undefined) checkMetric(metric)
    return { sensor, metric }
  }

  /**
   * What a topic says to the decoder of a message.
   *
   * @param {string} topic
   * @param {number} format  Of the message: it may be older than these templates, or have come
   *   without a topic.
   * @returns {import('./formats/types.js').Place}
   * @throws {PayloadError}
   */
  place(topic, format) {
    if (format !== JSON_FORMAT && !this.carry(topic)) {
      return { topic, sensor: undefined, metric: undefined }
    }
    const { sensor, metric } = this.parse(topic)
    const found = this.#templates.length > 0 ? this.#find(topic) : undefined
    if (!found?.template.shape) return { topic, sensor, metric }
    return { topic, sensor, metric, words: found.words, owner: nameOf(found, 'owner') }
  }

  /**
   * Who publishes on a topic, where the format has that in its shape.
   *
   * @param {string} topic
   * @returns {Sender | undefined}  Undefined also where its sensor can have no such name.
   */
  senderOf(topic) {
    const found = this.#find(topic)
    const shape = found?.template.shape
    if (!found || !shape) return undefined
    const owner = nameOf(found, 'owner')
    if (!isSensorName(owner)) return undefined
    const commands = found.template.levels.map((level, at) =>
      level in shape.commands ? shape.commands[level] : found.levels[at],
    )
    const isLevel = (/** @type {string | undefined} */ level) => level !== undefined
    return { words: found.words, owner, commands: commands.filter(isLevel).join('/') }
  }

  /**
   * The sensor of a topic, or that of all topics that a filter fits, whatever its metric is.
   *
   * @param {string} topic
   * @returns {string | undefined}  Its name or id; undefined where there is none, or several.
   */
  sensorOf(topic) {
    const found = this.#find(topic)
    const below = isMeasurementTopic(topic) ? topic.split('/')[1] : undefined
    const name = found ? nameOf(found) : below
    return name !== undefined && isSensorName(name) ? name : undefined
  }

  /**
   * The sensor whose device speaks for that of a topic, or of all topics that a filter fits: an
   * edge node for its devices.
   *
   * @param {string} topic
   * @returns {string | undefined}
   */
  ownerOf(topic) {
    const found = this.#find(topic)
    const name = found?.template.owner && nameOf(found, 'owner')
    return name !== undefined && isSensorName(name) ? name : undefined
  }

  /** @param {string} topic */
  #find(topic) {
    const levels = topic.split('/')
    const template = this.#templates.find(
      ({ levels: own, hasRest }) =>
        (hasRest ? levels.length >= own.length : levels.length === own.length) &&
        own.every((level, at) => !isText(level) || level === levels[at]),
    )
    if (!template) return undefined
    const words = new Map(template.levels.map((level, at) => [level, levels[at]]))
    return { template, levels, words }
  }
}

/** @param {Levels} template */
function filterOf({ levels, hasRest }) {
  const all = levels.map((level) => (isText(level) ? level : '+'))
  return (hasRest ? [...all, '#'] : all).join('/')
}

/**
 * The name that a template gives a sensor.
 *
 * @param {{ template: Template, words: Map<string, string> }} found
 * @param {'name' | 'owner'} [which]
 * @returns {string}  Empty where it could be that of another topic, too.
 */
function nameOf({ template, words }, which = 'name') {
  const { joint, [which]: pieces = [] } = template
  const values = pieces.map((piece) => words.get(piece) ?? piece)
  const isAmbiguous = (/** @type {string} */ value, /** @type {number} */ at) =>
    value === '' || (value !== pieces[at] && value.includes(joint ?? ''))
  return joint !== undefined && values.some(isAmbiguous) ? '' : values.join('')
}

/** @type {import('./options.js').OptionSpec<Topics>} */
export const topicTemplates = {
  flag: '--topic-templates <list>',
  help:
    'more topics with measurements, such as plant/{area}/{sensor}/{metric}, or home/{sensor} in ' +
    'json-object, with commas between',
  default: '',
  parse: parseTopics,
}

/** Below which Telegraf publishes unless it is told otherwise. */
export const LINE_TOPIC_DEFAULT = 'telegraf'

/** @param {string} text */
function parseLineTopic(text) {
  if (text === '' || isMeasurementTopic(text) || /[+#$]|^\/|\/$/.test(text)) {
    throw new SettingError('Give a topic without wildcards that is not below sensors.')
  }
  return text
}

/**
 * Whether messages of a topic are line protocol, if they are not measurements otherwise.
 *
 * @param {string} first  Its first levels, as they are configured.
 * @param {string} topic
 */
export function isLineTopic(first, topic) {
  return topic === first || topic.startsWith(`${first}/`)
}

/** @type {import('./options.js').OptionSpec<string>} */
export const lineTopic = {
  flag: '--line-topic <topic>',
  help: 'first levels of the topics whose messages are InfluxDB line protocol',
  default: LINE_TOPIC_DEFAULT,
  parse: parseLineTopic,
}
