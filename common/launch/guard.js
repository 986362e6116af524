/**
 * Sees to it that nothing outlives the launcher, even when it is killed with a signal that it
 * cannot catch. A shell of a megabyte reads from a pipe which processes run; when the pipe closes,
 * because its only writer is gone, it stops them, newest first. It has a session of its own, so
 * that what kills the launcher's group spares it.
 */

import { spawn } from 'node:child_process'

/** How long a process has to stop by itself, in tenths of a second. */
const STOP_TENTHS = 100

/** @param {number} stopTenths */
const script = (stopTenths) => `
trap '' INT TERM HUP
groups=
while read -r change group; do
  case $change in
    +) groups="$group $groups" ;;
    -) left=
       for one in $groups; do [ "$one" = "$group" ] || left="$left $one"; done
       groups=$left ;;
  esac
done
for group in $groups; do
  kill -s TERM -- "-$group" 2>/dev/null || continue
  waited=0
  while [ $waited -lt ${stopTenths} ] && kill -s 0 -- "-$group" 2>/dev/null; do
    sleep 0.1
    waited=$((waited + 1))
  done
  kill -s KILL -- "-$group" 2>/dev/null
done
`

export class Guard {
  /** Leaders of the process groups that run, oldest first. @type {Set<number>} */
  #groups = new Set()
  #closed = false
  #stopTenths
  #shell

  /** @param {number} [stopTenths] */
  constructor(stopTenths = STOP_TENTHS) {
    this.#stopTenths = stopTenths
    this.#shell = this.#start()
  }

  /** @param {number} group  A process that leads a group of its own. */
  add(group) {
    this.#groups.add(group)
    this.#write(`+ ${group}\n`)
  }

  /** @param {number} group */
  remove(group) {
    this.#groups.delete(group)
    this.#write(`- ${group}\n`)
  }

  /** Lets the guard end; call when nothing runs any more. */
  close() {
    this.#closed = true
    this.#shell.stdin.end()
  }

  /** @param {string} text */
  #write(text) {
    if (!this.#closed) this.#shell.stdin.write(text)
  }

  #start() {
    const shell = spawn('sh', ['-c', script(this.#stopTenths)], {
      detached: true,
      cwd: '/',
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    // A broken pipe means that it was killed; its end says so, too.
    shell.stdin.on('error', () => {})
    shell.on('exit', () => {
      if (this.#closed) return
      this.#shell = this.#start()
      for (const group of this.#groups) this.#write(`+ ${group}\n`)
    })
    shell.unref()
    return shell
  }
}
