// What people do on the page, in a real browser: a rule is made, its alert is seen and taken care
// of, a sensor is deleted.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { Browser, CONTRAST_MIN, faintTexts, pageWidth, tabTo } from '../support/browser.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { publishAll } from '../support/rest.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

describeWith(missingPrograms(['chromium']), 'the page, for those who act', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {Browser} */
  let browser
  /** @type {import('../support/browser.js').Page} */
  let page

  const alerts = () => page.locator('[data-part="rows"] tr')
  const rules = () => page.locator('[data-part="rule-rows"] tr')
  const form = () => page.getByRole('dialog')
  const publish = (/** @type {number} */ temperature) =>
    publishAll(stack.apiUrl, [{ sensor: 'boiler', temperature }])
  const ruleNow = async () => (await getJson(`${stack.apiUrl}/v1/rules`)).items[0]

  beforeAll(async () => {
    stack = await startStack()
    browser = await Browser.open()
    page = browser.page
    await publish(50)
    await page.goto(`${stack.apiUrl}/#/fleet`)
  })
  afterAll(async () => {
    await browser?.close()
    await stack?.end()
  })

  test('says that nothing fires, and that there are no rules', async () => {
    await page.keyboard.press('g')
    await page.keyboard.press('a')
    await page.getByText('All is well: no alert is firing.').waitFor()
    await page.getByText('There are no rules yet.').waitFor()
  })

  test('tells by MQTT, and says what mail lacks', async () => {
    const receivers = page.locator('[data-part="receiver-rows"] tr')
    const button = (/** @type {string} */ name) => page.getByRole('button', { name, exact: true })
    await button('New receiver').click()
    await form().getByLabel('Name').fill('panel')
    await form().getByLabel('Notified by').selectOption('an MQTT message')
    expect(await form().getByLabel('Address of the webhook').isVisible()).toBe(false)
    await form().getByLabel('Topic').fill('alerts/panel')
    await button('Save').click()
    await receivers.getByText('MQTT topic alerts/panel').waitFor()
    await button('Test panel').click()
    await page.getByText('The test has arrived.').waitFor()
    await button('New receiver').click()
    await form().getByLabel('Name').fill('office')
    await form().getByLabel('Notified by').selectOption('mail')
    await form().getByLabel('Addresses, one a line').fill('ada@example.com\nbob@example.com')
    await button('Save').click()
    await receivers.getByText('mail to ada@example.com, bob@example.com').waitFor()
    await button('Test office').click()
    await page.getByText(/^The test did not arrive.*SMTP_URL/).waitFor()
    await button('Delete office').click()
    await button('Really delete?').click()
    await receivers.getByText('office').waitFor({ state: 'detached' })
  })

  test('makes a rule, by keyboard', async () => {
    await tabTo(page, '[data-part="new-rule"]')
    await page.keyboard.press('Enter')
    await form().getByLabel('Name').waitFor()
    await page.keyboard.type('too hot')
    for (const [label, text] of Object.entries({
      Metric: 'temperature',
      Limit: '80',
      'Back to normal at': '85',
      'Sensors, separated by commas; empty: all': 'boiler',
    })) {
      await form().getByLabel(label, { exact: true }).fill(text)
    }
    await form().getByLabel('panel (mqtt)').check()
    await form().getByRole('button', { name: 'Save' }).click()
    await form().getByText('“Back to normal at” must not be higher than “Limit”, 80').waitFor()
    await form().getByLabel('Back to normal at').fill('75')
    await form().getByRole('button', { name: 'Save' }).click()
    await rules().getByText('temperature above 80, back to normal at 75, boiler').waitFor()
    await rules().getByText('panel', { exact: true }).waitFor()
    expect(await ruleNow()).toMatchObject({ above: 80, clear: 75, sensors: ['boiler'] })
  })

  test('says of a rule which of its sensors there are not', async () => {
    const sensors = form().getByLabel('Sensors, separated by commas; empty: all')
    const remark = page.getByText('Saved. No sensor has this name yet: biler-2.')
    await page.getByRole('button', { name: 'Edit too hot' }).click()
    await sensors.fill('boiler, biler-2')
    await form().getByRole('button', { name: 'Save' }).click()
    await remark.waitFor()
    await page.getByRole('button', { name: 'Edit too hot' }).click()
    await sensors.fill('boiler')
    await form().getByRole('button', { name: 'Save' }).click()
    await remark.waitFor({ state: 'detached' })
    expect(await ruleNow()).toMatchObject({ sensors: ['boiler'] })
  })

  test('shows an alert that is taken care of and silenced, and ends', async () => {
    await page.waitForTimeout(2_000)
    await publish(91.5)
    await alerts().getByText('temperature of boiler is 91.5, above 80').waitFor()
    // Its state is in one line, and within its column.
    const broken = await alerts()
      .locator('.pill')
      .evaluateAll((all) =>
        all.filter(
          (one) =>
            one.getClientRects().length > 1 ||
            one.getBoundingClientRect().right >
              /** @type {Element} */ (one.parentElement).getBoundingClientRect().right,
        ),
      )
    expect(broken).toHaveLength(0)
    await page.getByLabel(/^Tell nobody of this/).selectOption({ index: 1 })
    await page.getByText(/^Nobody is told of it until/).waitFor()
    // It is known also where nobody saw the click.
    await page.reload()
    await alerts()
      .getByText(/^Silenced until/)
      .waitFor()
    await page.getByRole('button', { name: /^Tell again of this/ }).click()
    await page.getByText('Receivers are told of it again.').waitFor()
    await page.getByLabel(/^Tell nobody of this/).selectOption({ index: 2 })
    await alerts()
      .getByText(/^Silenced until/)
      .waitFor()
    await page.getByRole('button', { name: /^Acknowledge: temperature/ }).click()
    await alerts()
      .getByText(/^Acknowledged, /)
      .waitFor()
    await alerts()
      .getByText(/^Silenced until/)
      .waitFor()
    await page.getByLabel('Only those not acknowledged').check()
    await page.getByText('None.', { exact: true }).waitFor()
    await page.getByLabel('Only those not acknowledged').uncheck()
    await alerts().getByText('too hot').waitFor()
    await publish(70)
    await page.getByText('All is well: no alert is firing.').waitFor()
    await page.getByLabel('Show').selectOption('what has ended')
    await alerts()
      .getByText(/^Ended after/)
      .waitFor()
    expect(new URL(page.url()).hash).toBe('#/alerts?state=resolved')
  })

  test.each([
    { width: 1280, height: 900, colorScheme: 'light' },
    { width: 375, height: 812, colorScheme: 'dark' },
  ])('is not too wide with alerts, and can be read: %j', async ({ width, height, colorScheme }) => {
    await page.setViewportSize({ width, height })
    await page.emulateMedia({ colorScheme: /** @type {'light' | 'dark'} */ (colorScheme) })
    await rules().getByRole('button', { name: 'Edit too hot' }).click()
    expect(await form().getByLabel('Limit', { exact: true }).inputValue()).toBe('80')
    expect(await form().getByLabel('panel (mqtt)').isChecked()).toBe(true)
    expect(await faintTexts(page, CONTRAST_MIN)).toEqual([])
    await form().getByRole('button', { name: 'Cancel' }).click()
    expect(await pageWidth(page)).toBe(width)
    expect(await faintTexts(page, CONTRAST_MIN)).toEqual([])
  })

  test('changes a rule, switches it off and deletes it', async () => {
    await page.setViewportSize({ width: 1280, height: 900 })
    await rules().getByRole('button', { name: 'Edit too hot' }).click()
    await form().getByLabel('What is wrong').selectOption('nothing is received any more')
    expect(await form().getByLabel('Limit', { exact: true }).isVisible()).toBe(false)
    await form().getByLabel('For how many minutes').fill('10')
    await form().getByRole('button', { name: 'Save' }).click()
    await rules().getByText('nothing of temperature for 10 min, boiler').waitFor()
    const { id } = await ruleNow()
    const data = { until: Date.now() + 3_600_000 }
    await page.request.post(`${stack.apiUrl}/v1/rules/${id}/silence`, { data })
    await page.reload()
    await rules()
      .getByText(/^Silenced until/)
      .waitFor()
    await rules().getByRole('button', { name: 'Tell again of too hot' }).click()
    await rules()
      .getByText(/^Silenced until/)
      .waitFor({ state: 'detached' })
    expect(await ruleNow()).toMatchObject({ silenced: null })
    await rules().getByRole('button', { name: 'Switch off too hot' }).click()
    await rules().getByText('switched off').waitFor()
    expect(await ruleNow()).toMatchObject({ kind: 'silence', for_s: 600, enabled: false })
    await rules().getByRole('button', { name: 'Delete too hot' }).click()
    await rules().getByRole('button', { name: 'Really delete?' }).click()
    await page.getByText('There are no rules yet.').waitFor()
    expect(await ruleNow()).toBeUndefined()
    expect(browser.errors).toEqual([])
    // That there is no such sensor was asked, and said.
    const others = browser.refusals.filter((one) => !one.startsWith('400 '))
    expect(others).toEqual([`404 ${stack.apiUrl}/v1/sensors/biler-2`])
  })

  test('hides a sensor, whose measurements stay until it is brought back', async () => {
    await publishAll(stack.apiUrl, [{ sensor: 'kettle', temperature: 99 }])
    await page.goto(`${stack.apiUrl}/#/sensors/kettle`)
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await form().getByText('1 measurement of 1 metric').waitFor()
    expect(
      await form()
        .getByRole('radio', { name: /^Hide it/ })
        .isChecked(),
    ).toBe(true)
    await form().getByLabel('Its name, to confirm').fill('kettle')
    await form().getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('heading', { level: 2, name: 'Fleet' }).waitFor()
    await page.getByRole('link', { name: 'boiler', exact: true }).waitFor()
    expect(await page.getByRole('link', { name: 'kettle', exact: true }).count()).toBe(0)
    await page.getByRole('button', { name: 'Register a sensor' }).click()
    await form().getByLabel('Name', { exact: true }).fill('kettle')
    await form().getByRole('button', { name: 'Register' }).click()
    await page.getByRole('heading', { level: 2, name: 'kettle' }).waitFor()
    await page.getByRole('cell', { name: '99', exact: true }).waitFor()
  })

  test('deletes a sensor for good when its name is typed', async () => {
    await page.goto(`${stack.apiUrl}/#/sensors/boiler`)
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await form().getByText('3 measurements of 1 metric').waitFor()
    await form()
      .getByRole('radio', { name: /Delete it for good/ })
      .check()
    await form().getByRole('button', { name: 'Delete' }).click()
    await form().getByText('Type boiler to confirm.').waitFor()
    await form().getByLabel('Its name, to confirm').fill('boiler')
    await form().getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('heading', { level: 2, name: 'Fleet' }).waitFor()
    await page.getByRole('link', { name: 'kettle', exact: true }).waitFor()
    expect(await page.getByRole('link', { name: 'boiler', exact: true }).count()).toBe(0)
    const url = `${stack.apiUrl}/v1/sensors/boiler/deletions`
    await until('it is deleted', async () => {
      const answer = await page.request.get(url)
      return answer.ok() && (await answer.json()).items[0]?.state !== 'asked'
    })
  })
})
