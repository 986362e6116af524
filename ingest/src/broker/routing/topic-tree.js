/** Values by topic, for the filters of subscriptions. */

import { LevelTree } from './level-tree.js'

/** Levels that are looked at in one step. */
const LOOKED_PER_STEP = 64

/**
 * @template T
 * @typedef {import('./level-tree.js').LevelNode<T>} LevelNode
 */

/**
 * @template T
 * @extends {LevelTree<T>}
 */
export class TopicTree extends LevelTree {
  /**
   * Values whose topic matches, and nothing now and then: there may be many that do not. It may be
   * changed meanwhile.
   *
   * @param {string} filter  A valid one.
   * @returns {Generator<T | undefined>}
   */
  *match(filter) {
    const levels = filter.split('/')
    // `a/#` is for `a`, too [MQTT-4.7.1-2].
    const depthMin = levels.at(-1) === '#' ? levels.length - 1 : levels.length
    const isWhole = depthMin === levels.length
    /** What is left to be looked at, for each level. */
    const path = [below(this.root, levels[0])]
    for (let looked = 1; path.length > 0; looked++) {
      if (looked % LOOKED_PER_STEP === 0) yield undefined
      const { value: entry, done } = path[path.length - 1].next()
      if (done) {
        path.pop()
        continue
      }
      const [level, node] = entry
      const depth = path.length
      // Topics that begin with $ are the broker's own [MQTT-4.7.2-1].
      if (depth === 1 && level[0] === '$' && isWildcard(levels[0])) continue
      if (node.value !== undefined && depth >= depthMin) yield node.value
      if (depth < depthMin) path.push(below(node, levels[depth]))
      else if (!isWhole) path.push(below(node, '#'))
    }
  }
}

/** @param {string} level */
const isWildcard = (level) => level === '+' || level === '#'

/**
 * @template T
 * @param {LevelNode<T>} node
 * @param {string} level  Of a filter.
 * @returns {Iterator<[string, LevelNode<T>], undefined>}
 */
function below({ children }, level) {
  if (children && isWildcard(level)) return children.entries()
  const child = children?.get(level)
  return /** @type {[string, LevelNode<T>][]} */ (child ? [[level, child]] : []).values()
}
