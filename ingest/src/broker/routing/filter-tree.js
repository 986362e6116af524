/**
 * Which subscriptions are for a topic. Each level of a filter is looked at once at most, however
 * many wildcards there are.
 */

import { LevelTree } from './level-tree.js'

/** @template T */
export class FilterTree {
  /** @type {LevelTree<Set<T>>} */
  #tree = new LevelTree()
  #size = 0

  /** How many values it has. */
  get size() {
    return this.#size
  }

  /** @param {string} filter  A valid one.  @param {T} value */
  add(filter, value) {
    const values = this.#tree.get(filter) ?? new Set()
    if (values.size === 0) this.#tree.set(filter, values)
    if (!values.has(value)) this.#size++
    values.add(value)
  }

  /** @param {string} filter  @param {T} value */
  remove(filter, value) {
    const values = this.#tree.get(filter)
    if (!values?.delete(value)) return
    this.#size--
    if (values.size === 0) this.#tree.delete(filter)
  }

  /** @param {string} topic  @returns {T[]} */
  match(topic) {
    /** @type {T[]} */
    const found = []
    if (this.#size === 0) return found
    let nodes = [this.#tree.root]
    // Topics that begin with $ are the broker's own [MQTT-4.7.2-1].
    let isOurs = topic.charCodeAt(0) === 36
    for (const level of topic.split('/')) {
      /** @type {typeof nodes} */
      const next = []
      for (const { children } of nodes) {
        const exact = children?.get(level)
        if (exact) next.push(exact)
        if (isOurs || !children) continue
        const one = children.get('+')
        if (one) next.push(one)
        addAll(children.get('#')?.value, found)
      }
      isOurs = false
      nodes = next
      if (nodes.length === 0) return found
    }
    for (const { value, children } of nodes) {
      addAll(value, found)
      // `a/#` is for `a`, too.
      addAll(children?.get('#')?.value, found)
    }
    return found
  }
}

/**
 * One by one: there may be more than a call takes as arguments.
 *
 * @template T
 * @param {Set<T> | undefined} values
 * @param {T[]} into
 */
function addAll(values, into) {
  if (values) for (const value of values) into.push(value)
}
