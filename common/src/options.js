/**
 * Options of a service: each is a flag and an environment variable of the same meaning, with a
 * default, a help text and a check. `--cql-hosts` is `CQL_HOSTS`; the flag wins.
 */

import { readFileSync } from 'node:fs'
import { Command, InvalidArgumentError, Option } from 'commander'

/** A setting that cannot be used; a service that throws it ends with its message as one line. */
export { InvalidArgumentError as SettingError }

/**
 * @template T
 * @typedef {object} OptionSpec
 * @property {string} flag  With its argument, e.g. `--mqtt-listen <host:port>`; without one it is
 *   a switch.
 * @property {string} help  What it does, with its unit.
 * @property {string} [default]  As it would be typed.
 * @property {(text: string) => T} [parse]  Throws {@link InvalidArgumentError} on nonsense.
 */

/** @typedef {{ host: string, port: number }} Address */

/** @param {string} flag  e.g. `--mqtt-listen <host:port>` */
function environmentVariable(flag) {
  return flag.split(' ')[0].slice(2).replaceAll('-', '_').toUpperCase()
}

/**
 * Reads the command line and the environment. Prints the help and ends the process when asked to,
 * or one line that names the option and ends it with code 2 when a value is refused.
 *
 * @param {{ name: string, description: string, options: OptionSpec<any>[], after?: string }} about
 * @param {string[]} argv  As in `process.argv`.
 * @returns {Record<string, any>}  By the flag's name in camel case.
 */
export function readOptions({ name, description, options, after }, argv) {
  const command = new Command(name).description(description).showHelpAfterError(false)
  for (const { flag, help, default: initial, parse } of options) {
    const option = new Option(flag, help).env(environmentVariable(flag))
    const check = flag.includes(' ') ? (parse ?? String) : undefined
    if (check) option.argParser(check)
    if (initial !== undefined) option.default(check ? check(initial) : initial, initial)
    command.addOption(option)
  }
  command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  if (after) command.addHelpText('after', `\n${after}`)
  command.parse(argv)
  const values = command.opts()
  for (const { flag } of options.filter((option) => !option.flag.includes(' '))) {
    const key = flag.slice(2).replace(/-(.)/g, (_, letter) => letter.toUpperCase())
    // Commander takes any text in the environment for yes, even `false`.
    if (command.getOptionValueSource(key) === 'env') {
      values[key] = ['true', '1'].includes(process.env[environmentVariable(flag)] ?? '')
    }
    values[key] ??= false
  }
  return values
}

/**
 * `HOST:PORT`, or `[::1]:PORT`.
 *
 * @param {string} text
 * @returns {Address}
 */
export function address(text) {
  const match = /^(\[[0-9a-fA-F:]+\]|[^:\s]+):(\d{1,5})$/.exec(text)
  const port = Number(match?.[2])
  if (!match || port > 65_535) {
    throw new InvalidArgumentError('Give HOST:PORT, e.g. 127.0.0.1:1883.')
  }
  return { host: match[1].replace(/^\[|\]$/g, ''), port }
}

/**
 * A comma-separated list of `HOST:PORT`.
 *
 * @param {string} text
 */
export function addresses(text) {
  return text.split(',').map((one) => address(one.trim()))
}

/**
 * An integer in `[min, max]`.
 *
 * @param {number} min
 * @param {number} max
 */
export function integer(min, max) {
  return (/** @type {string} */ text) => {
    const value = Number(text.replaceAll('_', ''))
    if (!/^-?[\d_]+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`Give a whole number from ${min} to ${max}.`)
    }
    return value
  }
}

/**
 * A number in `[min, max]`.
 *
 * @param {number} min
 * @param {number} max
 */
export function number(min, max) {
  return (/** @type {string} */ text) => {
    const value = Number(text)
    if (text.trim() === '' || !(value >= min && value <= max)) {
      throw new InvalidArgumentError(`Give a number from ${min} to ${max}.`)
    }
    return value
  }
}

const BYTES = new Map([
  ['', 1],
  ['B', 1],
  ['KIB', 2 ** 10],
  ['MIB', 2 ** 20],
  ['GIB', 2 ** 30],
])

/**
 * A size such as `256KiB`, `64MiB` or `1000` (bytes), in `[min, max]` bytes.
 *
 * @param {number} min
 * @param {number} max
 */
export function bytes(min, max) {
  return (/** @type {string} */ text) => {
    const match = /^(\d+)\s*([a-zA-Z]*)$/.exec(text)
    const unit = BYTES.get((match?.[2] ?? '?').toUpperCase())
    const value = Number(match?.[1]) * (unit ?? Number.NaN)
    if (!(value >= min && value <= max)) {
      throw new InvalidArgumentError(
        `Give a size from ${min} to ${max} bytes, e.g. 256KiB, 64MiB or 1GiB.`,
      )
    }
    return value
  }
}

/**
 * One of the names given.
 *
 * @param {readonly string[]} names
 */
export function oneOf(names) {
  return (/** @type {string} */ text) => {
    if (!names.includes(text)) throw new InvalidArgumentError(`Give one of ${names.join(', ')}.`)
    return text
  }
}

/**
 * An http, mqtt or similar URL.
 *
 * @param {...string} protocols  Those allowed, e.g. `http:`.
 */
export function url(...protocols) {
  return (/** @type {string} */ text) => {
    if (!URL.canParse(text) || !protocols.includes(new URL(text).protocol)) {
      throw new InvalidArgumentError(`Give a URL that begins with ${protocols.join('// or ')}//.`)
    }
    return text
  }
}

/** What is in a file. @param {string} path */
export function contents(path) {
  try {
    return readFileSync(path)
  } catch (error) {
    throw new InvalidArgumentError(/** @type {Error} */ (error).message)
  }
}

/** @param {string} text */
export function json(text) {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new InvalidArgumentError(`Give JSON: ${/** @type {Error} */ (error).message}.`)
  }
}

/** @type {OptionSpec<any>} */
export const allowRemote = {
  flag: '--allow-remote',
  help: 'listen where other machines can connect although nothing asks who they are',
}

/** @type {OptionSpec<any>} */
export const requireKeys = {
  flag: '--require-keys',
  help: 'serve only who has a key (npm run keys); then it may listen for other machines, too',
}

const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|localhost)$/
const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i

/** Whether only this machine can reach an address. @param {Address} listen */
export function isLoopback({ host }) {
  return LOOPBACK.test(host)
}

/**
 * Whether a request was made to this machine by one of its own names: a foreign page that reaches
 * it by a name of its own cannot.
 *
 * @param {string | undefined} host  The header `Host`.
 */
export function isLoopbackHost(host) {
  return LOOPBACK_HOST.test(host ?? '')
}

/**
 * Refuses an address that other machines can reach unless that was asked for.
 *
 * @param {string} flag  The option the address came from.
 * @param {Address} listen
 * @param {boolean} allowed  The value of {@link allowRemote}, or that keys are required.
 */
export function requireLoopback(flag, listen, allowed) {
  if (allowed || isLoopback(listen)) return
  throw new InvalidArgumentError(
    `${flag} ${listen.host}:${listen.port} can be reached from other machines and nothing asks ` +
      'who they are. Use 127.0.0.1, require keys where it can, or add --allow-remote.',
  )
}
