// The shortest list of steps that still shows a difference.

/** @typedef {import('./episode.js').Step} Step */

/** Attempts, and milliseconds, after which what was found so far must do. */
const ATTEMPTS_MAX = 250
const SHRINK_MS_MAX = 60_000

/**
 * Leaves steps out, many and then few at a time, for as long as the rest shows the difference.
 * Those that make tables and the last one, which shows it, stay.
 *
 * @param {Step[]} steps
 * @param {(steps: Step[]) => Promise<boolean>} shows
 */
export async function shrunk(steps, shows) {
  const stays = (/** @type {Step} */ step) =>
    'text' in step && /^CREATE (TABLE|TYPE)/.test(step.text)
  const end = Date.now() + SHRINK_MS_MAX
  const last = steps.slice(-1)
  const first = steps.slice(0, -1).filter(stays)
  let between = steps.slice(0, -1).filter((step) => !stays(step))
  // Most refusals need no rows.
  if (await shows([...first, ...last])) return [...first, ...last]
  // Reads change nothing, but for what they prepare.
  const writes = between.filter((step) => !('text' in step) || !step.text.startsWith('SELECT'))
  if (await shows([...first, ...writes, ...last])) between = writes
  // A pause takes as long as hundreds of other steps.
  const swift = between.filter((step) => !('pause' in step))
  if (await shows([...first, ...swift, ...last])) between = swift
  let size = Math.ceil(between.length / 2)
  for (let attempt = 0; attempt < ATTEMPTS_MAX && size > 0 && between.length > 0; ) {
    let left = false
    for (let at = 0; at < between.length && attempt < ATTEMPTS_MAX; attempt++) {
      if (Date.now() > end) return [...first, ...between, ...last]
      const rest = [...between.slice(0, at), ...between.slice(at + size)]
      if (await shows([...first, ...rest, ...last])) {
        between = rest
        left = true
      } else at += size
    }
    if (!left || size > between.length) size = size === 1 ? 0 : Math.ceil(size / 2)
  }
  return [...first, ...between, ...last]
}
