// Runs random statements on both databases, several tables at a time, and shows where they differ.
import { writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { sameRows, signature } from './compare.js'
import { Engine, Gate, Session, startCassandra, uncompacted } from './databases.js'
import { anyEpisode } from './episode.js'
import { shrunk } from './shrink.js'
import { difference } from './tolerated.js'

/**
 * @typedef {import('./connection.js').Statement} Statement
 * @typedef {import('./connection.js').Answer} Answer
 * @typedef {import('./episode.js').Step} Step
 *
 * @typedef {object} Options
 * @property {number} statements  How many.
 * @property {string} seed
 * @property {Set<import('./kinds.js').Kind>} kinds
 * @property {number} [episode]  The first. Default: 0.
 * @property {number} [tables]  Episodes at a time.
 * @property {number} [differences]  After so many it ends.
 * @property {string} [record]  File for the answers of Cassandra.
 *
 * @typedef {object} Found
 * @property {Step[]} steps  The shortest that show it.
 * @property {Answer} ours
 * @property {Answer} theirs
 */

const EPISODE_STATEMENTS = 400
const TABLES = 8
const DIFFERENCES_MAX = 20
/** Statements after which our engine is killed, or stopped, and started again. */
const RESTART_AFTER = 2000
/** How docs/protocol.md lists that Cassandra's rows are ours when it is asked once more. */
export const CONTRADICTION = 'rows of which Cassandra says something else when it is asked again'
const RESTARTS = /** @type {const} */ (['kill', 'stop'])

/**
 * Puts real names in place of T0 and T1, U0 and U1.
 *
 * @param {Statement} statement
 * @param {string} suffix
 * @returns {Statement}
 */
export function withNames(statement, suffix) {
  const text = statement.text.replaceAll(/\b([TU])([019])\b/g, `$1$2_${suffix}`)
  const children = statement.children?.map((child) => withNames(child, suffix))
  return children ? { ...statement, text, children } : { ...statement, text }
}

/** @param {string} seed */
export const keyspaceOf = (seed) => `random_${seed.replaceAll(/\W/g, '_')}`

export class Run {
  count = 0
  restarts = 0
  /** @type {Map<string, number>} How often each kind of difference was met. */
  met = new Map()
  /** @type {Map<string, number>} Statements by their first word, and answers. */
  counts = new Map()
  /** @type {Map<string, number>} Differences that are listed. */
  listed = new Map()
  #episode
  #table = 0
  #gate = new Gate()
  /** @type {Set<Step[]>} What was done in the episodes that run. */
  #histories = new Set()
  /** @type {string[]} */
  #recorded = []

  /**
   * @param {Options} options
   * @param {Engine} engine
   * @param {{ address: string }} cassandra
   * @param {(line: string) => void} print
   */
  constructor(options, engine, cassandra, print) {
    this.options = options
    this.#episode = options.episode ?? 0
    this.engine = engine
    this.cassandra = cassandra
    this.print = print
    this.keyspace = keyspaceOf(options.seed)
  }

  async run() {
    const replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    const system = [this.engine, this.cassandra].map((one) => new Session(one, 'system'))
    const both = (/** @type {string} */ text) =>
      Promise.all(system.map((session) => session.execute({ text })))
    await both(`DROP KEYSPACE IF EXISTS ${this.keyspace}`)
    await both(`CREATE KEYSPACE ${this.keyspace} WITH replication = ${replication}`)
    try {
      const tables = this.options.tables ?? TABLES
      await Promise.all(Array.from({ length: tables }, () => this.#worker()))
    } finally {
      await both(`DROP KEYSPACE ${this.keyspace}`)
      for (const session of system) session.close()
    }
    const { record } = this.options
    if (record) writeFileSync(record, gzipSync(this.#recorded.join('\n')))
  }

  #isOver() {
    return this.count >= this.options.statements || this.met.size >= this.#differencesMax()
  }

  #differencesMax() {
    return this.options.differences ?? DIFFERENCES_MAX
  }

  async #worker() {
    const sessions = this.#sessions()
    while (!this.#isOver()) {
      const { seed, kinds, statements } = this.options
      const number = this.#episode++
      const length = Math.min(EPISODE_STATEMENTS, statements)
      await this.#run(anyEpisode(seed, number, length, kinds), number, sessions)
    }
    for (const session of sessions) session.close()
  }

  #sessions() {
    return [this.engine, this.cassandra].map((one) => new Session(one, this.keyspace))
  }

  /** @param {Step[]} steps  @param {number} number  @param {Session[]} sessions */
  async #run(steps, number, sessions) {
    /** @type {Step[]} */
    const history = []
    this.#histories.add(history)
    const suffix = `${this.#table++}`
    for (const step of steps) {
      if (this.#isOver()) break
      history.push(step)
      const found = await this.#step(step, suffix, sessions)
      if (found?.listed) this.#tell(this.listed, found.listed)
      else if (found) await this.#show(history, number, found)
      if (found && staysDifferent(found)) break
      if (this.count % RESTART_AFTER === RESTART_AFTER - 1) await this.#restartAll()
    }
    this.#histories.delete(history)
    await this.#drop(steps, suffix, sessions)
  }

  /** @param {Step[]} steps  @param {string} suffix  @param {Session[]} sessions */
  async #drop(steps, suffix, sessions) {
    const made = steps.flatMap((step) =>
      'text' in step ? (/^CREATE ((?:TABLE|TYPE) \w+)/.exec(step.text)?.[1] ?? []) : [],
    )
    for (const name of made.reverse()) {
      await this.#both(withNames({ text: `DROP ${name}` }, suffix), sessions)
    }
  }

  async #restartAll() {
    const restart = RESTARTS[this.restarts++ % RESTARTS.length]
    this.count++
    await this.#gate.alone(() => this.engine.restart(restart))
    if (this.options.record) this.#recorded.push(JSON.stringify([{ restart }]))
    for (const history of this.#histories) history.push({ restart })
  }

  /** @param {Statement} statement  @param {Session[]} sessions */
  #both(statement, [ours, theirs]) {
    return this.#gate.pass(() =>
      Promise.all([ours.execute(statement).catch(lost), theirs.execute(uncompacted(statement))]),
    )
  }

  /**
   * Does a step on both sides; gives the answers if they differ.
   *
   * @param {Step} step
   * @param {string} suffix  Of the tables' names.
   * @param {Session[]} sessions
   */
  async #step(step, suffix, sessions) {
    if ('pause' in step) {
      if (this.options.record) this.#recorded.push(JSON.stringify([step]))
      await pause(step.pause)
      return undefined
    }
    if ('restart' in step) {
      await this.#gate.alone(() => this.engine.restart(step.restart))
      return undefined
    }
    const statement = withNames(step, suffix)
    const [ours, theirs] = await this.#both(statement, sessions)
    this.count++
    this.#tally(statement, theirs)
    if (this.options.record) this.#recorded.push(JSON.stringify([statement, theirs]))
    const { part, listed } = difference(statement, ours, theirs)
    if (part === 'rows' && !listed && /^SELECT/.test(statement.text)) {
      const again = await sessions[1].execute(statement)
      if (!difference(statement, ours, again).part) {
        return { statement, ours, theirs, listed: CONTRADICTION }
      }
    }
    return part ? { statement, ours, theirs, listed } : undefined
  }

  /** @param {Statement} statement  @param {Answer} answer */
  #tally({ text, children, prepare }, { error, rows }) {
    const verb = children ? 'BATCH' : text.split(' ')[0].toUpperCase()
    for (const name of [
      verb,
      prepare && 'prepared',
      error && 'refused',
      rows?.length && 'with rows',
    ]) {
      if (name) this.#tell(this.counts, name)
    }
  }

  /** Counts; gives the count. @param {Map<string, number>} counts  @param {string} name */
  #tell(counts, name) {
    const count = (counts.get(name) ?? 0) + 1
    counts.set(name, count)
    return count
  }

  /**
   * Shows a difference with the shortest statements that lead to it, if it is the first of a kind.
   *
   * @param {Step[]} history
   * @param {number} number
   * @param {{ statement: Statement, ours: Answer, theirs: Answer }} found
   */
  async #show(history, number, { statement, ours, theirs }) {
    const kind = signature(statement, ours, theirs)
    await this.#gate.alone(() => this.engine.revive())
    if (this.#tell(this.met, kind) > 1) {
      const answers = `${JSON.stringify(ours)} | ${JSON.stringify(theirs)}`
      this.print(`again: ${kind}\n${written(statement)}\n${answers}`)
      return
    }
    const sessions = this.#sessions()
    const steps = await shrunk([...history], (some) => this.#shows(some, kind, sessions))
    for (const session of sessions) session.close()
    const [suffix] = /(?<=\b[TU]\d_)\d+/.exec(JSON.stringify(statement)) ?? ['']
    const lines = steps.map((step) => `  ${written(step)}`)
    const known = steps.length < history.length ? '' : ' (not seen again on new tables)'
    this.print(
      [
        `difference: seed ${this.options.seed}, episode ${number}, statement ${history.length}${known}`,
        `  ${kind}`,
        ...lines,
        `  Sandglass: ${JSON.stringify(ours)}`,
        `  Cassandra: ${JSON.stringify(theirs)}`,
      ]
        .join('\n')
        .replaceAll(`_${suffix}`, ''),
    )
  }

  /** Whether these steps, on new tables, end with a difference of this kind. @param {Step[]} steps
   * @param {string} kind  @param {Session[]} sessions */
  async #shows(steps, kind, sessions) {
    const suffix = `${this.#table++}`
    let shows = false
    for (const step of steps) {
      const found = await this.#step(step, suffix, sessions)
      if (!found) continue
      const { statement, ours, theirs } = found
      shows = step === steps.at(-1) && signature(statement, ours, theirs) === kind
      if (staysDifferent(found)) break
    }
    await this.#drop(steps, suffix, sessions)
    return shows
  }
}

/** Of a connection that broke while it was waited for. @param {Error} error @returns {Answer} */
const lost = ({ message }) => ({ error: [-1, message] })

/** A read of Cassandra's fails after some changes of a table, and then each of it does. A write
 * that fails, or takes too long, may have done a part. */
const FAILURES = [0x1001, 0x1100, 0x1200, 0x1300, 0x1500]

/**
 * Whether only one of them has done it, or they have other rows, or nothing can be compared.
 *
 * @param {{ statement: Statement, ours: Answer, theirs: Answer }} found
 */
function staysDifferent({ statement, ours, theirs }) {
  if (theirs.error && FAILURES.includes(theirs.error[0])) return true
  if (statement.text.startsWith('SELECT'))
    return !ours.error && !theirs.error && !sameRows(ours, theirs)
  const applied = (/** @type {Answer} */ { columns, rows }) =>
    columns?.[0][0] === '[applied]' ? rows?.[0][0] : undefined
  return (
    (ours.error === undefined) !== (theirs.error === undefined) || applied(ours) !== applied(theirs)
  )
}

/** A step as a line. @param {Step} step */
function written(step) {
  if (!('text' in step)) return `-- ${JSON.stringify(step)}`
  const { text, ...rest } = step
  return `${text}${text ? '; ' : ''}${Object.keys(rest).length > 0 ? `-- ${JSON.stringify(rest)}` : ''}`
}

/** @param {Map<string, number>} counts */
const counted = (counts) => [...counts].map(([name, count]) => `  ${count} × ${name}`)

/** @param {Options} options */
export async function compareRandomly(options) {
  const engine = await Engine.start()
  try {
    const cassandra = await startCassandra()
    try {
      const run = new Run(options, engine, cassandra, (line) => process.stdout.write(`${line}\n`))
      const began = Date.now()
      await run.run()
      const seconds = Math.round((Date.now() - began) / 1000)
      const counts = [...run.counts].map(([name, count]) => `${name} ${count}`).join(', ')
      run.print(
        [
          `${run.count} statements in ${seconds} s, seed ${options.seed}: ${counts}`,
          `kinds: ${[...options.kinds].join(', ')}; the engine was started again ${run.restarts} times`,
          'differences that docs/protocol.md lists:',
          ...counted(run.listed),
          'others:',
          ...counted(run.met),
        ].join('\n'),
      )
      return run.met.size
    } finally {
      await cassandra.end()
    }
  } finally {
    await engine.end()
  }
}
