#!/usr/bin/env node
/** `npm run keys`: creates, lists and revokes keys, in the database itself. */

import { Command, Option } from 'commander'
import pino from 'pino'
import { CLAIM_SCOPES, ClaimStore } from '../src/claim-store.js'
import { Database, databaseOptions } from '../src/database.js'
import { KeyStore } from '../src/key-store.js'
import { SCOPES } from '../src/keys.js'
import { SettingError } from '../src/options.js'
import { isSensorName, SENSOR_NAME_RULE, sensorId } from '../src/sensor.js'
import { parseTime } from '../src/time.js'

const DAY_MS = 86_400_000

/** Longest wait for the database, in milliseconds. */
const CONNECT_MS_MAX = 10_000

/** @param {string} text */
function scopesOf(text) {
  const scopes = text.split(',').map((scope) => scope.trim())
  const stranger = scopes.find((scope) => !SCOPES.some((known) => known === scope))
  if (stranger !== undefined) throw new SettingError(`Give some of ${SCOPES.join(',')}.`)
  return scopes
}

/** @param {string} text */
function claimScopesOf(text) {
  const scopes = scopesOf(text)
  const stranger = scopes.find((scope) => !CLAIM_SCOPES.some((known) => known === scope))
  if (stranger !== undefined) throw new SettingError(`Give some of ${CLAIM_SCOPES.join(',')}.`)
  return scopes
}

/** @param {string} text  `90d`, or a time. @returns {number}  Milliseconds since the Unix epoch. */
function expiryOf(text) {
  const days = /^(\d{1,5})d$/.exec(text)
  const timeMs = days ? Date.now() + Number(days[1]) * DAY_MS : parseTime(text)
  if (timeMs === undefined || timeMs <= Date.now()) {
    throw new SettingError('Give a number of days such as 90d, or a time to come in ISO 8601.')
  }
  return timeMs
}

/** @param {string} text */
function sensorOf(text) {
  if (!isSensorName(text)) throw new SettingError(`The name of a sensor ${SENSOR_NAME_RULE}.`)
  return text
}

/**
 * @param {Record<string, any>} options
 * @param {(keys: KeyStore, claims: ClaimStore) => Promise<void>} work
 */
async function withKeys(options, work) {
  const database = new Database(/** @type {any} */ (options), pino({ level: 'silent' }))
  const timer = setTimeout(() => {
    console.error(`no database at ${process.env.CQL_HOSTS ?? '127.0.0.1:9042'}: is it running?`)
    process.exit(1)
  }, CONNECT_MS_MAX)
  await database.connect({ createSchema: true })
  clearTimeout(timer)
  try {
    const keys = new KeyStore({ database })
    await work(keys, new ClaimStore({ database, keys }))
  } finally {
    await database.close()
  }
}

/** @param {import('../src/keys.js').Grant} grant */
function line({ keyId, name, scopes, sensorId: id, expiresMs }) {
  const until = expiresMs === undefined ? 'for ever' : `until ${new Date(expiresMs).toISOString()}`
  return [keyId, [...scopes].join(','), until, id ? `only ${id}` : '', name].join('  ')
}

/** @param {import('../src/claim-store.js').Claim} claim */
function claimLine({ claimId, name, sensor, expiresMs, keyId, claimedMs }) {
  const until = expiresMs === undefined ? 'for ever' : `until ${new Date(expiresMs).toISOString()}`
  const state =
    keyId === undefined || claimedMs === undefined
      ? 'not claimed'
      : `claimed ${new Date(claimedMs).toISOString()} as ${keyId}`
  return [claimId, `for ${sensor}`, until, state, name].join('  ')
}

/** @param {{ name: string }} a  @param {{ name: string }} b */
const byName = (a, b) => (a.name < b.name ? -1 : 1)

/** @param {string} id */
function reportUnknownClaim(id) {
  console.error(`there is no claim key ${id}: npm run keys -- claims shows those there are`)
  process.exitCode = 1
}

const program = new Command('npm run keys --')
  .description('Keys for the api (Authorization: Bearer KEY) and MQTT (as the password).')
  .showHelpAfterError(false)
for (const { flag, help, default: initial, parse } of databaseOptions) {
  const option = new Option(flag, help).env(
    flag.split(' ')[0].slice(2).replaceAll('-', '_').toUpperCase(),
  )
  if (parse) option.argParser(parse)
  if (initial !== undefined) option.default(parse ? parse(initial) : initial, initial)
  program.addOption(option)
}
program
  .command('create')
  .description('prints a new key, once')
  .requiredOption('--name <text>', 'what it is for')
  .requiredOption('--scopes <list>', `some of ${SCOPES.join(',')}`, scopesOf)
  .option(
    '--sensor <name>',
    'the one sensor whose device has it: over MQTT only that one',
    sensorOf,
  )
  .option('--expires <when>', 'a number of days such as 90d, or a time', expiryOf)
  .action(({ name, scopes, sensor, expires }) =>
    withKeys(program.opts(), async (keys) => {
      const { text } = await keys.create({
        name,
        scopes: new Set(scopes),
        expiresMs: expires,
        sensorId: sensor === undefined ? undefined : sensorId(sensor),
      })
      console.log(text)
    }),
  )
program
  .command('list')
  .description('lists all keys, without their secrets')
  .action(() =>
    withKeys(program.opts(), async (keys) => {
      for (const { grant } of (await keys.list()).sort(byName)) console.log(line(grant()))
    }),
  )
program
  .command('revoke <id>')
  .description('takes a key back; within 10 s nobody is served by it any more')
  .action((/** @type {string} */ id) =>
    withKeys(program.opts(), async (keys) => {
      if (await keys.revoke(id)) return
      console.error(`there is no key ${id}: npm run keys -- list shows those there are`)
      process.exitCode = 1
    }),
  )
program
  .command('claim <sensors...>')
  .description('prints a claim key for each sensor: its device gets its own key by it, once')
  .option('--name <text>', 'what they are for', 'claim')
  .option('--scopes <list>', "of the device's key: read, write or both", claimScopesOf, [
    ...CLAIM_SCOPES,
  ])
  .option('--expires <when>', 'a number of days such as 90d, or a time', expiryOf, expiryOf('30d'))
  .action((/** @type {string[]} */ sensors, { name, scopes, expires }) =>
    withKeys(program.opts(), async (_keys, claims) => {
      for (const sensor of sensors.map(sensorOf)) {
        const about = { name, sensor, sensorId: sensorId(sensor), expiresMs: expires }
        const { text } = await claims.create({ ...about, scopes: new Set(scopes) })
        console.log(sensors.length === 1 ? text : `${text}  ${sensor}`)
      }
    }),
  )
program
  .command('claims')
  .description('lists all claim keys, without their secrets')
  .action(() =>
    withKeys(program.opts(), async (_keys, claims) => {
      for (const claim of (await claims.list()).sort(byName)) console.log(claimLine(claim))
    }),
  )
program
  .command('reset <claim>')
  .description('makes a claim key good again, and takes back the key that was got by it')
  .action((/** @type {string} */ id) =>
    withKeys(program.opts(), async (_keys, claims) => {
      if (!(await claims.reset(id))) reportUnknownClaim(id)
    }),
  )
program
  .command('revoke-claim <claim>')
  .description('takes a claim key back; a key that was got by it stays')
  .action((/** @type {string} */ id) =>
    withKeys(program.opts(), async (_keys, claims) => {
      if (!(await claims.revoke(id))) reportUnknownClaim(id)
    }),
  )
await program.parseAsync()
