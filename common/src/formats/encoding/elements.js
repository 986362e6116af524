/** How much of an array is cut into elements: meanwhile nobody else is served. */

import { PayloadError } from '../../payload.js'

export class Budget {
  #values
  #elements
  #valuesMax
  #elementsMax

  /** @param {number} elementsMax  @param {number} valuesMax  In all elements together. */
  constructor(elementsMax, valuesMax) {
    this.#elementsMax = elementsMax
    this.#elements = elementsMax
    this.#valuesMax = valuesMax
    this.#values = valuesMax
  }

  /** @throws {PayloadError} */
  takeElement() {
    if (this.#elements-- > 0) return
    const fault = `the body has more than ${this.#elementsMax} items: send several bodies`
    throw new PayloadError('value', fault)
  }

  /** @throws {PayloadError} */
  takeValue() {
    if (this.#values-- > 0) return
    const fault = `the body has more than ${this.#valuesMax} values: send several`
    throw new PayloadError('value', fault)
  }
}
