// A shell on a machine of its own, as far as a reader of the documentation notices: a network and
// processes that nobody else sees, so that every documented port is free, a home directory, and a
// clone of the repository to stand in. When it is closed all that it started is gone.
import { spawn, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { files } from '../tidy/files.js'
import { missingPrograms } from './requirement.js'
import { until } from './until.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const IS_ROOT = process.getuid?.() === 0
const UNSHARE = [
  ...['--net', '--pid', '--fork', '--kill-child', '--mount-proc'],
  ...(IS_ROOT ? [] : ['--map-root-user']),
]
/** How long a command that ends may take, in milliseconds. */
const COMMAND_MS_MAX = 60_000
/** How long one that does not end may take until it has printed what it should. */
const PRINTED_MS_MAX = 60_000
/** On a terminal curl has no progress meter in its output either. */
const CURLRC = 'silent\nshow-error\n'

/** What is not there of what a terminal needs. */
export function missingForTerminal() {
  const missing = missingPrograms(['unshare', 'setpriv', 'ip', 'bash'])
  if (missing.length > 0) return missing
  const { status } = spawnSync('unshare', [...UNSHARE, 'ip', 'link', 'set', 'lo', 'up'])
  return status === 0 ? [] : ['the right to a network of its own']
}

export class Terminal {
  #directory = mkdtempSync(join(tmpdir(), 'sandglass-docs-'))
  #clone = join(this.#directory, 'sandglass')
  #count = 0
  #shell
  /** Its answers, which are waited for one at a time. @type {(line: string) => void} */
  #onAnswer = () => {}
  /** What runs until it is stopped: process groups, newest last. @type {Running[]} */
  #running = []

  /**
   * @typedef {object} Running
   * @property {number} group
   * @property {string} name
   * @property {string} output  The file.
   */

  /** @param {Record<string, string>} env  Added to the environment. */
  constructor(env) {
    copyRepository(this.#clone)
    const home = join(this.#directory, 'home')
    mkdirSync(home)
    writeFileSync(join(home, '.curlrc'), CURLRC)
    const start = 'ip link set lo up && exec bash -ae'
    const shell = spawn(
      'setpriv',
      ['--pdeathsig', 'KILL', 'unshare', ...UNSHARE, 'sh', '-c', start],
      {
        cwd: this.#clone,
        env: { ...plainEnvironment(), HOME: home, ...env },
        stdio: ['pipe', 'pipe', 'inherit'],
      },
    )
    this.#shell = shell
    createInterface(shell.stdout).on('line', (line) => this.#onAnswer(line))
    shell.once('exit', () => this.#onAnswer(''))
    shell.stdin.on('error', () => {})
  }

  /** @param {string} name  @param {string} text */
  save(name, text) {
    writeFileSync(join(this.#clone, name), text)
  }

  /**
   * Runs commands to their end, in this shell, and gives what they printed.
   *
   * @param {string} script
   * @throws  If one of them fails; the shell has then ended, too.
   */
  async run(script) {
    const { file, output } = this.#write(script)
    const answer = await this.#ask(`. ${file} >${output} 2>&1 </dev/null; echo done`)
    const printed = readFileSync(output, 'utf8')
    if (answer !== 'done') throw new Error(`failed:\n${script}\nprinted:\n${printed}`)
    return printed
  }

  /**
   * Starts a command that runs until it is stopped.
   *
   * @param {string} name
   * @param {string} script
   * @param {(printed: string) => boolean} isUp  Whether it has printed what it should.
   */
  async start(name, script, isUp) {
    const { file, output } = this.#write(script)
    // On Ctrl-C a shell waits for what it has started, and so does this one.
    const command = `setsid bash -ec 'trap : TERM; . ${file}' >${output} 2>&1 </dev/null & echo $!`
    const group = Number(await this.#ask(command))
    this.#running.push({ group, name, output })
    await until(`${name} prints what it should`, () => isUp(readFileSync(output, 'utf8')), {
      deadlineMs: PRINTED_MS_MAX,
    }).catch((error) => {
      throw new Error(`${error.message}\nprinted:\n${readFileSync(output, 'utf8')}`)
    })
  }

  /**
   * Presses Ctrl-C where something runs, and gives its exit code.
   *
   * @param {string} name
   * @returns {Promise<number | undefined>}  Undefined if nothing of that name runs.
   */
  async stop(name) {
    const running = this.#running.find((one) => one.name === name)
    if (!running) return undefined
    this.#running.splice(this.#running.indexOf(running), 1)
    const { group } = running
    return Number(
      await this.#ask(`code=0; kill -TERM -- -${group}; wait ${group} || code=$?; echo $code`),
    )
  }

  /** Ends all of it, without waiting, and removes its files. */
  async close() {
    if (this.#shell.exitCode === null && this.#shell.signalCode === null) {
      const ended = new Promise((resolve) => this.#shell.once('exit', resolve))
      this.#shell.stdin.end()
      await ended
    }
    rmSync(this.#directory, { recursive: true, force: true })
  }

  /** @param {string} script */
  #write(script) {
    this.#count += 1
    const file = join(this.#directory, `${this.#count}.sh`)
    writeFileSync(file, script)
    return { file, output: `${file}.out` }
  }

  /**
   * @param {string} line
   * @returns {Promise<string>}  The line that it printed; empty if the shell has ended instead.
   */
  #ask(line) {
    return new Promise((resolve, reject) => {
      if (this.#shell.exitCode !== null) {
        resolve('')
        return
      }
      const timer = setTimeout(() => {
        reject(new Error(`not done after ${COMMAND_MS_MAX} ms: ${line}`))
      }, COMMAND_MS_MAX)
      this.#onAnswer = (answer) => {
        clearTimeout(timer)
        resolve(answer)
      }
      this.#shell.stdin.write(`${line}\n`)
    })
  }
}

/** @param {string} directory  Where the repository is copied to, with what is installed. */
function copyRepository(directory) {
  for (const path of files('.').filter((path) => existsSync(join(ROOT, path)))) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    cpSync(join(ROOT, path), join(directory, path))
  }
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
}

/** Our environment without anything that would configure what is documented. */
function plainEnvironment() {
  const keep = /^(PATH|LANG|LC_\w+|TERM|TZ|USER|LOGNAME|PYENV_ROOT|NVM_\w+)$/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => keep.test(name)))
}
