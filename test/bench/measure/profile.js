// What a CPU profile of V8 says of some of the code.

/**
 * @typedef {object} Profile  As `node --cpu-prof` writes it: `Profiler.Profile` of the Chrome
 *   DevTools Protocol. Times are in microseconds of the clock of `process.hrtime`.
 * @property {{ id: number, children?: number[],
 *   callFrame: { functionName: string, url: string } }[]} nodes
 * @property {number} startTime
 * @property {number[]} samples  Ids of nodes: where the thread was.
 * @property {number[]} timeDeltas  From the sample before.
 */

/** What the thread does while it runs no code of ours: names that V8 gives. */
const IDLE = '(idle)'
const BESIDE = new Set([IDLE, '(program)', '(garbage collector)', '(root)'])

/**
 * Which share of what a thread computes is done by the code in a folder, and by all that it calls.
 * What V8 does beside the code, such as collecting garbage, is charged to all code in proportion.
 *
 * @param {Profile} profile
 * @param {string} folder  A part of the address of the code, such as `/ingest/src/rules/`.
 * @param {{ fromUs: number, toUs: number }} time  By the clock of `process.hrtime`.
 * @returns {number}  0 to 1; an error if nothing was computed then.
 */
export function shareOf({ nodes, startTime, samples, timeDeltas }, folder, { fromUs, toUs }) {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, callFrame.functionName]))
  const inside = under(nodes, folder)
  let atUs = startTime
  let insideUs = 0
  let codeUs = 0
  for (let at = 0; at < samples.length; at++) {
    atUs += timeDeltas[at]
    if (atUs <= fromUs || atUs > toUs || BESIDE.has(names.get(samples[at]) ?? IDLE)) continue
    codeUs += timeDeltas[at]
    if (inside.has(samples[at])) insideUs += timeDeltas[at]
  }
  if (codeUs === 0) throw new Error('the profile has no code in that time')
  return insideUs / codeUs
}

/**
 * @param {Profile['nodes']} nodes  Parents come before their children.
 * @param {string} folder
 * @returns {Set<number>}  Those in the folder, and all below them.
 */
function under(nodes, folder) {
  /** @type {Set<number>} */
  const inside = new Set()
  for (const { id, children = [], callFrame } of nodes) {
    if (callFrame.url.includes(folder)) inside.add(id)
    if (inside.has(id)) for (const child of children) inside.add(child)
  }
  return inside
}
