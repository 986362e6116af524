// A real browser that looks at the page, and what a machine can see of how it looks.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { programPath } from './requirement.js'

/** @typedef {import('playwright-core').Page} Page */

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** The contrast that text must have to be read by many, as WCAG 2 has it (1.4.3, AA). */
export const CONTRAST_MIN = 4.5

/** Presses of Tab after which what is looked for cannot be reached. */
const TABS_MAX = 150

/** A browser with one page, which remembers what went wrong in it. */
export class Browser {
  /** Exceptions, errors in the console, what the policy forbade. @type {string[]} */
  errors = []
  /** Answers that were refusals, and requests without an answer. @type {string[]} */
  refusals = []
  #directory
  #context

  /** Opens it on a computer with a wide screen, unless `page` is told otherwise later. */
  static async open() {
    const directory = mkdtempSync(join(tmpdir(), 'sandglass-page-'))
    const context = await chromium.launchPersistentContext(directory, {
      executablePath: programPath('chromium'),
      args: FLAGS,
      viewport: { width: 1280, height: 900 },
    })
    return new Browser(directory, context, await context.newPage())
  }

  /**
   * @param {string} directory
   * @param {import('playwright-core').BrowserContext} context
   * @param {Page} page
   */
  constructor(directory, context, page) {
    this.#directory = directory
    this.#context = context
    this.page = page
    page.setDefaultTimeout(30_000)
    page.on('pageerror', (error) => this.errors.push(String(error.stack)))
    page.on('console', (message) => {
      // What was refused is told apart: a test may want it.
      const isRefusal = message.text().startsWith('Failed to load resource')
      if (message.type() === 'error' && !isRefusal) this.errors.push(message.text())
    })
    page.on('response', (response) => {
      if (response.status() >= 400) this.refusals.push(`${response.status()} ${response.url()}`)
    })
  }

  async close() {
    await this.#context.close()
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

/**
 * Presses Tab until something has the focus, and says whether the focus could be seen all the way.
 *
 * @param {Page} page
 * @param {string} selector
 */
export async function tabTo(page, selector) {
  for (let presses = 0; presses < TABS_MAX; presses++) {
    await page.keyboard.press('Tab')
    const { isThere, isSeen, where } = await page.evaluate((wanted) => {
      const focused = /** @type {HTMLElement} */ (document.activeElement)
      const { outlineStyle, outlineWidth } = getComputedStyle(focused)
      const isBody = focused === document.body
      return {
        isThere: focused.matches(wanted),
        isSeen: isBody || (outlineStyle !== 'none' && Number.parseFloat(outlineWidth) >= 2),
        where: focused.outerHTML.slice(0, 80),
      }
    }, selector)
    if (!isSeen) throw new Error(`the focus is not seen on ${where}`)
    if (isThere) return
  }
  throw new Error(`${selector} is not reached by ${TABS_MAX} presses of Tab`)
}

/** How wide the page is, in pixels; wider than the window it scrolls. @param {Page} page */
export function pageWidth(page) {
  return page.evaluate(() => document.documentElement.scrollWidth)
}

/**
 * Texts that are hard to read: those whose contrast with what is behind them is too small.
 *
 * @param {Page} page
 * @param {number} contrastMin  As WCAG 2 defines it.
 * @returns {Promise<string[]>}  Each with its contrast.
 */
export function faintTexts(page, contrastMin) {
  return page.evaluate((least) => {
    /** @param {string} text  @returns {[number, number, number, number]} */
    const parse = (text) => {
      const [red, green, blue, alpha = 1] = (text.match(/[\d.]+/g) ?? []).map(Number)
      return [red, green, blue, alpha]
    }
    /** @param {number[]} over  @param {number[]} under */
    const blend = ([red, green, blue, alpha], under) =>
      [red, green, blue].map((part, index) => part * alpha + under[index] * (1 - alpha))
    /** @param {Element} element  @returns {number[]} */
    const behind = (element) => {
      const above = parse(getComputedStyle(element).backgroundColor)
      if (above[3] === 1 || !element.parentElement) return above
      return blend(above, behind(element.parentElement))
    }
    /** @param {number[]} color */
    const luminance = (color) => {
      const [red, green, blue] = color.map((part) => {
        const share = part / 255
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
      })
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
    const faint = []
    let seen = 0
    for (const element of document.body.querySelectorAll('*')) {
      const text = [...element.childNodes]
        .filter(({ nodeType }) => nodeType === Node.TEXT_NODE)
        .map(({ textContent }) => textContent?.trim())
        .join('')
      if (!text || !element.checkVisibility({ visibilityProperty: true })) continue
      seen += 1
      const under = behind(element)
      const over = blend(parse(getComputedStyle(element).color), under)
      const [dark, light] = [luminance(over), luminance(under)].sort((a, b) => a - b)
      const contrast = (light + 0.05) / (dark + 0.05)
      if (contrast < least) faint.push(`${contrast.toFixed(2)} ${text.slice(0, 40)}`)
    }
    return seen > 0 ? faint : ['there is no text at all']
  }, contrastMin)
}

/**
 * Pixels at the left edge of a canvas that are drawn on.
 *
 * @param {Page} page
 * @param {string} selector
 */
export function edgePixels(page, selector) {
  return page.evaluate((canvasSelector) => {
    const canvas = /** @type {HTMLCanvasElement} */ (document.querySelector(canvasSelector))
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'))
    const { data } = context.getImageData(0, 0, 2, canvas.height)
    return data.filter((part, at) => at % 4 === 3 && part > 0).length
  }, selector)
}

/**
 * Pixels of a canvas in, or near to, a colour of the style sheet.
 *
 * @param {Page} page
 * @param {string} selector
 * @param {string} property  Such as `--accent`.
 */
export function inkPixels(page, selector, property) {
  return page.evaluate(
    ({ canvasSelector, name }) => {
      const canvas = /** @type {HTMLCanvasElement | null} */ (
        document.querySelector(canvasSelector)
      )
      const context = canvas?.getContext('2d')
      if (!canvas || !context) return 0
      const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim()
      const wanted = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16))
      const { data } = context.getImageData(0, 0, canvas.width, canvas.height)
      let count = 0
      for (let at = 0; at < data.length; at += 4) {
        const isNear = wanted.every((part, index) => Math.abs(data[at + index] - part) < 24)
        if (isNear && data[at + 3] > 200) count += 1
      }
      return count
    },
    { canvasSelector: selector, name: property },
  )
}
