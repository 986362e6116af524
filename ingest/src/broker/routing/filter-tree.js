/**
 * Which subscriptions are for a topic: a tree of the levels of their filters. Each node is looked
 * at once at most, however many wildcards there are.
 */

/** @template T */
class Node {
  /** @type {Map<string, Node<T>>} */
  children = new Map()
  /** @type {Set<T>} */
  values = new Set()
}

/** @template T */
export class FilterTree {
  /** @type {Node<T>} */
  #root = new Node()
  #size = 0

  /** How many values it has. */
  get size() {
    return this.#size
  }

  /** @param {string} filter  A valid one.  @param {T} value */
  add(filter, value) {
    let node = this.#root
    for (const level of filter.split('/')) {
      let child = node.children.get(level)
      if (!child) {
        child = new Node()
        node.children.set(level, child)
      }
      node = child
    }
    if (!node.values.has(value)) this.#size++
    node.values.add(value)
  }

  /** @param {string} filter  @param {T} value */
  remove(filter, value) {
    const levels = filter.split('/')
    const path = [this.#root]
    for (const level of levels) {
      const child = path[path.length - 1].children.get(level)
      if (!child) return
      path.push(child)
    }
    if (path[levels.length].values.delete(value)) this.#size--
    for (let at = levels.length; at > 0; at--) {
      if (path[at].values.size > 0 || path[at].children.size > 0) return
      path[at - 1].children.delete(levels[at - 1])
    }
  }

  /** @param {string} topic  @returns {T[]} */
  match(topic) {
    /** @type {T[]} */
    const found = []
    if (this.#size === 0) return found
    let nodes = [this.#root]
    // Topics that begin with $ are the broker's own [MQTT-4.7.2-1].
    let isOurs = topic.charCodeAt(0) === 36
    for (const level of topic.split('/')) {
      /** @type {Node<T>[]} */
      const next = []
      for (const { children } of nodes) {
        const exact = children.get(level)
        if (exact) next.push(exact)
        if (isOurs) continue
        const one = children.get('+')
        if (one) next.push(one)
        const all = children.get('#')
        if (all) found.push(...all.values)
      }
      isOurs = false
      nodes = next
      if (nodes.length === 0) return found
    }
    for (const { values, children } of nodes) {
      found.push(...values)
      // `a/#` is for `a`, too.
      const all = children.get('#')
      if (all) found.push(...all.values)
    }
    return found
  }
}
