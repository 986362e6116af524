// The commands of the README, as a reader types them: looked up there, so that a test of one fails
// when it is changed or gone, and run on the addresses of the platform under test.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'

const README = new URL('../../README.md', import.meta.url)
/** Where the README expects the api. */
const API = '127.0.0.1:8080'

/** All commands in the README's blocks of shell. */
function commands() {
  const blocks = [...readFileSync(README, 'utf8').matchAll(/^```sh\n(.*?)^```/gms)]
  const lines = blocks.flatMap(([, block]) => block.replace(/\\\n\s*/g, '').split('\n'))
  return lines.filter((line) => line !== '' && !line.startsWith('#'))
}

export class Readme {
  /**
   * @param {object} where
   * @param {string} where.api  `HOST:PORT`.
   * @param {string} where.mqtt
   * @param {string} where.directory  In which commands run.
   */
  constructor({ api, mqtt, directory }) {
    this.api = api
    this.mqtt = mqtt
    this.directory = directory
  }

  /**
   * The one command that contains a text, for the platform under test.
   *
   * @param {string} text
   */
  command(text) {
    const found = commands().filter((line) => line.includes(text))
    if (found.length !== 1) throw new Error(`${found.length} commands of the README have ${text}`)
    const [host, port] = this.mqtt.split(':')
    return found[0]
      .replaceAll(API, this.api)
      .replace(/^curl /, 'curl -sS --fail-with-body ')
      .replace(/^mosquitto_pub /, `mosquitto_pub -h ${host} -p ${port} `)
  }

  /** Starts it. @param {string} command */
  spawn(command) {
    return spawn('bash', ['-c', `exec ${command}`], {
      cwd: this.directory,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
  }

  /**
   * Runs it to its end.
   *
   * @param {string} command
   * @returns {Promise<string>}  What it prints; an error if it fails.
   */
  async run(command) {
    const child = this.spawn(command)
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    const code = await new Promise((resolve) => child.once('close', resolve))
    if (code !== 0) throw new Error(`${command} ended with ${code}: ${output}`)
    return output
  }

  /** What the one command that contains a text answers. @param {string} text */
  async ask(text) {
    return JSON.parse(await this.run(this.command(text)))
  }
}
