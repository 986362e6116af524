// What axe-core, a checker of accessibility, has to say of the page that a browser shows.
import axe from 'axe-core'

/** The rules that are checked: WCAG up to 2.2, A and AA, and what axe-core itself advises. */
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** Rules that axe-core leaves out unless it is asked. */
const MORE = { 'target-size': { enabled: true } }

/**
 * What breaks a rule on the page as it is now.
 *
 * @param {import('playwright-core').Page} page
 * @returns {Promise<string[]>}  Each with its rule and the elements that break it.
 */
export async function violations(page) {
  // The page's policy forbids scripts from elsewhere; the debugger's are not the page's.
  const isThere = await page.evaluate(() => 'axe' in window)
  if (!isThere) await page.evaluate(axe.source)
  return page.evaluate(
    async ({ tags, rules }) => {
      const { violations: broken, passes } = await /** @type {any} */ (window).axe.run(document, {
        runOnly: { type: 'tag', values: tags },
        rules,
        resultTypes: ['violations'],
      })
      if (passes.length === 0) return ['nothing was checked']
      return broken.map((/** @type {axe.Result} */ { id, help, nodes }) => {
        const where = nodes.slice(0, 3).map(({ html, any, all, none }) => {
          const [first] = [...any, ...all, ...none]
          return `${html.slice(0, 160)}: ${first?.message ?? ''}`
        })
        return `${id} (${help}), ${nodes.length} times:\n  ${where.join('\n  ')}`
      })
    },
    { tags: TAGS, rules: MORE },
  )
}

/**
 * Goes through the page by Tab alone.
 *
 * @param {import('playwright-core').Page} page
 * @returns {Promise<string[]>}  Controls that are seen and were not reached.
 */
export async function unreached(page) {
  const count = await page.evaluate(() => {
    const selector = 'a[href], button, input, select, textarea, summary, [tabindex="0"]'
    const seen = [...document.querySelectorAll(selector)].filter((one) => {
      const control = /** @type {HTMLInputElement} */ (one)
      return !control.disabled && control.checkVisibility({ visibilityProperty: true })
    })
    const holder = /** @type {any} */ (window)
    holder.left = new Set(seen)
    holder.onFocus = (/** @type {FocusEvent} */ { target }) => {
      holder.left.delete(target)
      // Of radio buttons of one name Tab reaches one, and arrow keys the others.
      if (target instanceof HTMLInputElement && target.type === 'radio') {
        for (const one of [...holder.left]) if (one.name === target.name) holder.left.delete(one)
      }
    }
    document.addEventListener('focusin', holder.onFocus)
    const focused = /** @type {HTMLElement} */ (document.activeElement)
    focused.blur()
    return seen.length
  })
  // A field of dates is six stops of Tab.
  for (let presses = 0; presses < count * 2 + 40; presses++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(() => /** @type {any} */ (window).left.size === 0)) break
  }
  return page.evaluate(() => {
    const holder = /** @type {any} */ (window)
    document.removeEventListener('focusin', holder.onFocus)
    return [...holder.left]
      .filter((one) => one.isConnected)
      .map((one) => one.outerHTML.slice(0, 120))
  })
}
