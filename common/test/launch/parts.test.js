import { describe, expect, test } from '@jest/globals'
import { demoDirectory } from '../../launch/options.js'
import { describeParts, reach } from '../../launch/parts.js'
import { statusLine } from '../../launch/status.js'
import { countCargo, countJest } from '../../launch/test.js'

const local = (/** @type {number} */ port) => ({ host: '127.0.0.1', port })
const OPTIONS = /** @type {import('../../launch/options.js').Options} */ ({
  dataDir: '/data',
  dbDataDir: '/data/db',
  dbListen: local(9042),
  dbHttp: local(9180),
  mqttListen: { host: '0.0.0.0', port: 1883 },
  ingestHttp: local(9181),
  apiListen: { host: '::1', port: 8080 },
  sensors: 25,
  malformedPercent: 0,
  allowRemote: true,
  requireKeys: false,
  verbose: false,
})
const PROGRAMS = { root: '/repo', engine: '/repo/engine', node: '/node' }

describe('the parts', () => {
  test('of a demo start engine first and simulator last', () => {
    const names = describeParts('demo', OPTIONS, PROGRAMS).map(({ name }) => name)
    expect(names).toEqual(['engine', 'ingest', 'api', 'simulator'])
  })

  test('are told where the others are', () => {
    const [engine, ingest, api, simulator] = describeParts('demo', OPTIONS, PROGRAMS)
    expect(engine.env).toMatchObject({ DB_DATA_DIR: '/data/db', DB_LISTEN: '127.0.0.1:9042' })
    expect(engine.env).not.toHaveProperty('DB_SHARDS')
    expect(ingest.env).toMatchObject({ CQL_HOSTS: '127.0.0.1:9042', MQTT_LISTEN: '0.0.0.0:1883' })
    expect(api.env).toMatchObject({ INGEST_URL: 'http://127.0.0.1:9181', API_LISTEN: '[::1]:8080' })
    expect(api.healthUrl).toBe('http://[::1]:8080/health')
    expect(simulator.env).toMatchObject({
      MQTT_URL: 'mqtt://127.0.0.1:1883',
      API_URL: 'http://[::1]:8080',
      SENSORS: '25',
    })
  })

  test('leave the engine out where a database is given', () => {
    const options = { ...OPTIONS, cqlHosts: '10.0.0.1:9042' }
    const parts = describeParts('start', options, { ...PROGRAMS, engine: undefined })
    expect(parts.map(({ name }) => name)).toEqual(['ingest', 'api'])
    expect(parts[0].env.CQL_HOSTS).toBe('10.0.0.1:9042')
  })

  test('meet at a broker that is given', () => {
    const options = { ...OPTIONS, mqttUrl: 'mqtts://b:8883' }
    const urls = describeParts('demo', options, PROGRAMS).map(({ env }) => env.MQTT_URL)
    expect(urls).toEqual([undefined, 'mqtts://b:8883', undefined, 'mqtts://b:8883'])
    expect(describeParts('demo', OPTIONS, PROGRAMS)[1].env).not.toHaveProperty('MQTT_URL')
  })

  test('are asked over HTTPS where the api has a certificate', () => {
    const programs = { ...PROGRAMS, isApiEncrypted: true }
    const urls = describeParts('start', OPTIONS, programs).map(({ healthUrl }) => healthUrl)
    expect(urls[2]).toBe('https://[::1]:8080/health')
    expect(urls[1]).toMatch('http://')
  })

  test('are reached on loopback when they listen everywhere', () => {
    expect(reach({ host: '::', port: 5 })).toBe('[::1]:5')
  })
})

test('a demo never keeps its data in the repository', () => {
  expect(demoDirectory({ XDG_STATE_HOME: '/s', HOME: '/h' })).toBe('/s/sandglass/demo')
  expect(demoDirectory({ HOME: '/h' })).toBe('/h/.local/state/sandglass/demo')
  expect(demoDirectory({})).toMatch(/sandglass\/demo$/)
})

describe('the status line', () => {
  const stats = {
    received: 1000,
    stored: 990,
    deadLettered: 10,
    held: 0,
    spooled: 0,
    droppedQos0: 0,
    publishToStoredMs: { p50: 2.345, p99: 12.6 },
    database: /** @type {const} */ ('up'),
  }
  const before = { stats, atMs: 1000 }

  test('has the rates of the last second', () => {
    const now = { stats: { ...stats, received: 1100, stored: 1088, deadLettered: 12 }, atMs: 3000 }
    expect(statusLine(before, now)).toBe(
      'received 50/s · stored 49/s · dead-lettered 1/s · stored after 2.3 ms ' +
        '(p99 13 ms) · in all 1,088 stored, 12 dead-lettered',
    )
  })

  test('says what is wrong', () => {
    const wrong = { ...stats, held: 5, droppedQos0: 7, database: /** @type {const} */ ('down') }
    const line = statusLine(before, { stats: wrong, atMs: 2000 })
    expect(line).toContain('5 held, 7 dropped (QoS 0) · THE DATABASE DOES NOT ANSWER')
    expect(statusLine(before, undefined)).toBe('ingest does not answer')
  })

  test('has no rates right after ingest was started again', () => {
    const line = statusLine(before, { stats: { ...stats, received: 3 }, atMs: 2000 })
    expect(line).toContain('received -/s')
  })
})

describe('counting tests', () => {
  test('adds up what cargo says of each binary', () => {
    const output = [
      'running 2 tests',
      'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s',
      'test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out',
    ].join('\n')
    expect(countCargo(output)).toEqual({ passed: 5, failed: 1, skipped: 2 })
  })

  test('tells what did not run from what passed, and counts files that did not load', () => {
    const result = (/** @type {string} */ status, /** @type {string} */ title) => ({
      status,
      title,
      fullName: title,
    })
    const report = {
      testResults: [
        {
          message: '',
          status: 'passed',
          assertionResults: [result('passed', 'works'), result('passed', 'not run: needs java')],
        },
        { message: 'syntax error', status: 'failed', assertionResults: [] },
      ],
    }
    expect(countJest(report)).toEqual({
      passed: 1,
      failed: 1,
      skipped: 1,
      notRun: ['not run: needs java'],
    })
  })
})
