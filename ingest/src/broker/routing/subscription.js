/** What a client of MQTT 5 has subscribed to by one filter, and how [MQTT5 3.8.3.1]. */

/** @typedef {import('../v5/packets.js').Filter} Filter */

export class Subscription {
  /**
   * @param {import('./subscriber.js').Subscriber} subscriber
   * @param {Filter} filter
   * @param {number} id  Its identifier: 0 where it has none.
   * @param {import('./shared-group.js').SharedGroup | undefined} group
   */
  constructor(subscriber, filter, id, group) {
    this.subscriber = subscriber
    this.pattern = filter.pattern
    this.qos = filter.qos
    this.noLocal = filter.noLocal
    this.retainAsPublished = filter.retainAsPublished
    this.id = id
    this.group = group
  }
}
