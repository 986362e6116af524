/**
 * Whether a topic matches the filter of a subscription, without cutting either into parts: a topic
 * may have 64 KiB, and each new filter is compared with the topics of all retained messages.
 */

/**
 * @param {string} filter  A valid one: `+` and `#` are whole levels, `#` is the last.
 * @param {string} topic
 */
export function matchesTopic(filter, topic) {
  // Topics that begin with $ are the broker's own [MQTT-4.7.2-1].
  if (topic[0] === '$' && (filter[0] === '+' || filter[0] === '#')) return false
  let filterAt = 0
  let topicAt = 0
  for (;;) {
    if (filter[filterAt] === '#') return true
    const filterEnd = levelEnd(filter, filterAt)
    const isAny = filter[filterAt] === '+'
    if (!isAny && !topic.startsWith(filter.slice(filterAt, filterEnd), topicAt)) return false
    const topicEnd = isAny ? levelEnd(topic, topicAt) : topicAt + filterEnd - filterAt
    // The level of the topic is longer than that of the filter.
    if (topicEnd < topic.length && topic[topicEnd] !== '/') return false
    if (topicEnd === topic.length) {
      // `a/#` is for `a`, too [MQTT-4.7.1-2].
      return filterEnd === filter.length || filter.slice(filterEnd) === '/#'
    }
    if (filterEnd === filter.length) return false
    filterAt = filterEnd + 1
    topicAt = topicEnd + 1
  }
}

/** @param {string} text  @param {number} from */
function levelEnd(text, from) {
  const end = text.indexOf('/', from)
  return end < 0 ? text.length : end
}
