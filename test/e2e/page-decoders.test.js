// A format of one's own on the page: an expression is written for a message, tried and saved, and
// mended for another one that it refused.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import mqtt from 'mqtt'
import { Browser, CONTRAST_MIN, faintTexts, pageWidth } from '../support/browser.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

const SHOTS = process.env.SCREENSHOTS

describeWith(missingPrograms(['chromium']), 'the page, for a format of one’s own', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {Browser} */
  let browser
  /** @type {import('../support/browser.js').Page} */
  let page
  /** @type {mqtt.MqttClient} */
  let device

  const decoders = async () => (await getJson(`${stack.apiUrl}/v1/decoders`)).items
  const letters = async () => (await getJson(`${stack.apiUrl}/v1/dead-letters`)).items
  const shoot = async (/** @type {string} */ name) => {
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png`, fullPage: true })
  }

  beforeAll(async () => {
    stack = await startStack()
    browser = await Browser.open()
    page = browser.page
    device = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'device' })
    await page.goto(`${stack.apiUrl}/#/fleet`)
    await page.getByRole('heading', { level: 2, name: 'Fleet' }).waitFor()
  })
  afterAll(async () => {
    await device?.endAsync(true)
    await browser?.close()
    await stack?.end()
  })

  test('says that there are none, and takes what is typed', async () => {
    await page.keyboard.press('g')
    await page.keyboard.press('o')
    await page.getByText('There are no decoders yet.').waitFor()
    await page.getByLabel('Name', { exact: true }).fill('plant')
    await page.getByLabel('Topics').fill('plant/{area}/{sensor}')
    await page.getByLabel('Expression', { exact: true }).fill('{"t": at, "heat": heat / ')
    await page.getByLabel('Topic', { exact: true }).fill('plant/hall/boiler')
    await page.getByLabel('Payload', { exact: true }).fill('{"at": 1767225600, "heat": 215}')
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.getByText(/^It would be refused: .*at character/).waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText(/^Expression is none: .*at character/).waitFor()
    await page.getByLabel('Expression', { exact: true }).fill('{"t": at, "heat": heat / 10}')
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.getByText('It would be stored: one measurement.').waitFor()
    expect(await page.locator('[data-part="result"] tbody tr').innerText()).toMatch(
      /boiler\s+heat\s+21.5/,
    )
    await shoot('tried')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('plant is saved, and used within two seconds.').waitFor()
    await page.getByRole('heading', { name: 'Edit plant' }).waitFor()
    await page.locator('[data-part="rows"]').getByText('plant/{area}/{sensor}').waitFor()
    expect(await decoders()).toMatchObject([{ name: 'plant', template: 'plant/{area}/{sensor}' }])
  })

  test('is opened from a dead letter, with the message', async () => {
    await until('it is refused by the decoder', async () => {
      await device.publishAsync('plant/hall/boiler', '{"heat": "215"}', { qos: 1 })
      return (await letters()).length > 0
    })
    // One that came later is not the one that is meant.
    await device.publishAsync('plant/hall/boiler', '{"heat": "217"}', { qos: 1 })
    await page.goto(`${stack.apiUrl}/#/dead-letters`)
    const letter = page.locator('main tbody tr').filter({ hasText: '"215"' }).first()
    await letter.getByRole('link', { name: 'Try it in plant' }).click()
    await page.getByRole('heading', { name: 'Edit plant' }).waitFor()
    const [expression, topic, payload] = ['Expression', 'Topic', 'Payload'].map((label) =>
      page.getByLabel(label, { exact: true }),
    )
    await until('its message is there', async () => (await payload.inputValue()) !== '')
    expect(await payload.inputValue()).toBe('{"heat": "215"}')
    expect(await topic.inputValue()).toBe('plant/hall/boiler')
    expect(await expression.inputValue()).toBe('{"t": at, "heat": heat / 10}')
  })

  test('tries a message that was refused, and shows what is wrong with it', async () => {
    await page.goto('about:blank')
    await page.goto(`${stack.apiUrl}/#/decoders`)
    await page.getByRole('button', { name: 'Edit plant' }).click()
    const select = page.getByLabel('A message that was refused')
    await select.selectOption({ index: 1 })
    expect(await page.getByLabel('Payload', { exact: true }).inputValue()).toBe('{"heat": "217"}')
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.getByText(/^It would be refused: the expression fails/).waitFor()
    await page
      .getByLabel('Expression', { exact: true })
      .fill('{"t": at, "heat": $number(heat) / 10, "odd": [heat]}')
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.getByText(/^Without odd: /).waitFor()
    await shoot('fields')
    await page
      .getByLabel('Expression', { exact: true })
      .fill('{"t": at, "heat": $number(heat) / 10}')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('plant is saved').waitFor()
    const [{ id }] = await letters()
    await until('it is stored', async () => {
      const data = { ids: [id] }
      const answer = await page.request.post(`${stack.apiUrl}/v1/dead-letters/replay`, { data })
      return (await answer.json()).replayed === 1
    })
  })

  test('can be read on a phone, and deletes', async () => {
    await page.setViewportSize({ width: 375, height: 812 })
    expect(await pageWidth(page)).toBeLessThanOrEqual(375)
    for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
      await page.emulateMedia({ colorScheme })
      expect(await faintTexts(page, CONTRAST_MIN)).toEqual([])
      await shoot(`phone-${colorScheme}`)
    }
    await page.getByRole('button', { name: 'Delete plant' }).click()
    await page.getByRole('button', { name: 'Really delete?' }).click()
    await page.getByText('There are no decoders yet.').waitFor()
    expect(await decoders()).toEqual([])
    expect(browser.errors).toEqual([])
  })
})
