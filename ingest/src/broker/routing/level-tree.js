/**
 * Values by topic or filter, as a tree of their levels: what is looked at follows from what is
 * found, not from how much there is.
 */

import { ownText } from '@sandglass/common/text'

/** Memory that a level takes, in bytes. */
export const LEVEL_BYTES = 240

/** @template T */
export class LevelNode {
  /** Those below it. @type {Map<string, LevelNode<T>> | undefined} */
  children = undefined
  /** @type {T | undefined} */
  value = undefined
}

/** @template T */
export class LevelTree {
  /** @type {LevelNode<T>} */
  root = new LevelNode()

  /** @param {string} path  @returns {T | undefined} */
  get(path) {
    /** @type {LevelNode<T> | undefined} */
    let node = this.root
    for (const level of path.split('/')) node = node?.children?.get(level)
    return node?.value
  }

  /** @param {string} path  @param {T} value */
  set(path, value) {
    let node = this.root
    for (const level of path.split('/')) {
      node.children ??= new Map()
      let child = node.children.get(level)
      if (!child) {
        child = new LevelNode()
        node.children.set(ownText(level), child)
      }
      node = child
    }
    node.value = value
  }

  /** @param {string} path */
  delete(path) {
    const levels = path.split('/')
    const nodes = [this.root]
    for (const level of levels) {
      const child = nodes[nodes.length - 1].children?.get(level)
      if (!child) return
      nodes.push(child)
    }
    nodes[levels.length].value = undefined
    for (let at = levels.length; at > 0; at--) {
      const { value, children } = nodes[at]
      if (value !== undefined || children) return
      const above = nodes[at - 1]
      above.children?.delete(levels[at - 1])
      if (above.children?.size === 0) above.children = undefined
    }
  }
}
