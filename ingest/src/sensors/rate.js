/** How much a sensor sends: a mean that forgets, and for how long it has been little. */

import { fittingWidth, widerWidth } from './bucket-width.js'

/** Of what a sample counts, the mean of those before being the rest. */
const SAMPLE_WEIGHT = 0.25

/** Samples that must have been taken before buckets become narrower. */
const SAMPLES_MIN = 4

/** Samples in a row that must have been low before they become wider. */
const CALM_SAMPLES_MIN = 96

/** @typedef {import('./bucket-width.js').Load} Load */
/** @typedef {import('@sandglass/common/schema').Layout} Layout */

export class Rate {
  #samples = 0
  #calmSamples = 0

  constructor() {
    /** Before it was worth remembering there was next to nothing. @type {Load} */
    this.mean = { rowsPerS: 0, bytesPerS: 0 }
  }

  /**
   * Notes what was sent for a while, and says what width that asks for.
   *
   * @param {Load} sample
   * @param {Pick<Layout, 'className' | 'bucketS'>} layout  As it is, or will be soon.
   * @returns {number}  In seconds.
   */
  note(sample, layout) {
    this.#samples++
    const { rowsPerS, bytesPerS } = this.mean
    this.mean = {
      rowsPerS: rowsPerS + SAMPLE_WEIGHT * (sample.rowsPerS - rowsPerS),
      bytesPerS: bytesPerS + SAMPLE_WEIGHT * (sample.bytesPerS - bytesPerS),
    }
    this.#calmSamples = widerWidth(layout, sample) > layout.bucketS ? this.#calmSamples + 1 : 0
    return this.widthFor(layout)
  }

  /**
   * The width that what was sent so far asks for.
   *
   * @param {Pick<Layout, 'className' | 'bucketS'>} layout
   */
  widthFor(layout) {
    if (this.#calmSamples >= CALM_SAMPLES_MIN) return widerWidth(layout, this.mean)
    return this.#samples >= SAMPLES_MIN ? fittingWidth(layout, this.mean) : layout.bucketS
  }
}
