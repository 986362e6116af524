// Whether everybody can use the page: axe-core looks at each view and each dialog, in three sizes
// and both colour schemes, and Tab goes to each control.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import mqtt from 'mqtt'
import { unreached, violations } from '../support/axe.js'
import { Browser } from '../support/browser.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { publishAll } from '../support/rest.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

const MINUTE_MS = 60_000
const DAY_MS = 1_440 * MINUTE_MS

const SIZES = [
  { width: 375, height: 812 },
  { width: 820, height: 1_100 },
  { width: 1_440, height: 900 },
]
const SCHEMES = /** @type {const} */ (['light', 'dark'])

/** Each view: its address, what is there once it is shown, and the buttons that open dialogs. */
const VIEWS = [
  { address: '#/fleet', there: 'tbody tr:nth-child(5)', dialogs: ['Register a sensor'] },
  {
    address: '#/sensors/kitchen?metric=temperature&range=1d',
    there: '.chart canvas',
    dialogs: ['Edit', 'Delete', 'Edit metric'],
  },
  { address: '#/sensors/pump?metric=state&range=1d', there: '[data-part="rows"] tr' },
  { address: '#/sensors/van?metric=position&range=1d', there: '[data-part="rows"] tr' },
  { address: '#/sensors/nobody', there: '[data-part="note"]:has-text("no sensor")' },
  { address: '#/charts', there: '[data-part="hint"]' },
  {
    address: '#/charts?series=kitchen/temperature&series=hall/humidity',
    there: '[data-part="series"] li',
    dialogs: ['Save to a dashboard'],
  },
  { address: '#/charts?series=pump/state', there: '[data-part="legend"] li' },
  {
    address: '#/dashboards/ID',
    there: '[data-part="series"] li',
    dialogs: ['Rename'],
  },
  { address: '#/live', there: '.card canvas' },
  {
    address: '#/alerts?state=all',
    there: '[data-part="rows"] tr',
    dialogs: ['New rule', 'New receiver'],
  },
  { address: '#/dead-letters', there: 'tbody tr' },
  {
    address: '#/keys',
    there: '[data-part="key-rows"] tr',
    dialogs: ['New key', 'New claim key'],
  },
  { address: '#/decoders', there: '[data-part="rows"] tr' },
  { address: '#/import', there: 'input[type="file"]' },
  { address: '#/health', there: '.terms li' },
]

describeWith(missingPrograms(['chromium']), 'the page, for everybody', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {Browser} */
  let browser
  /** @type {import('../support/browser.js').Page} */
  let page
  let dashboardId = ''
  /** @type {mqtt.MqttClient} */
  let client
  /** @type {NodeJS.Timeout} */
  let publishing

  async function fill() {
    const nowMs = Date.now()
    const hours = Array.from({ length: 240 }, (_, minute) => {
      const t = nowMs - (minute + 1) * MINUTE_MS
      return [
        { sensor: 'kitchen', t, temperature: 20 + (minute % 7) },
        { sensor: 'pump', t, state: minute % 30 < 20 ? 'idle' : 'running', on: minute % 9 < 4 },
        { sensor: 'van', t, position: { lat: 52 + minute / 900, lon: 13 + (minute % 50) / 900 } },
      ]
    }).flat()
    const units = Array.from({ length: 12 }, (_, index) => ({ sensor: `unit-${index}`, level: 1 }))
    await publishAll(stack.apiUrl, [...hours, ...units])
    await stack.emptied()
    const rule = { name: 'too hot', kind: 'threshold', metric: 'temperature', above: 80, for_s: 0 }
    await page.request.post(`${stack.apiUrl}/v1/rules`, { data: { ...rule, receivers: [] } })
    await until('an alert fires', async () => {
      await publishAll(stack.apiUrl, [{ sensor: 'kitchen', temperature: 91 }])
      return (await getJson(`${stack.apiUrl}/v1/alerts`)).items.length > 0
    })
    const key = { name: 'reader', scopes: ['read'], expires: Date.now() + DAY_MS }
    await page.request.post(`${stack.apiUrl}/v1/keys`, { data: key })
    const decoder = { template: 'plant/{sensor}', expression: '{"t": at, "heat": temp / 10}' }
    await page.request.put(`${stack.apiUrl}/v1/decoders/plant`, { data: decoder })
    await page.request.post(`${stack.apiUrl}/v1/claims`, { data: { sensor: 'pump' } })
    const charts = ['temperature', 'pressure'].map((metric) => ({
      series: [{ sensor: 'kitchen', metric }],
    }))
    const made = await page.request.post(`${stack.apiUrl}/v1/dashboards`, {
      data: { name: 'house', charts },
    })
    dashboardId = (await made.json()).id
    await client.publishAsync('sensors/kitchen/temperature', '{broken', { qos: 1 })
  }

  beforeAll(async () => {
    stack = await startStack()
    browser = await Browser.open()
    page = browser.page
    client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'access' })
    await fill()
    publishing = setInterval(() => client.publish('sensors/hall/humidity', '41', { qos: 1 }), 300)
  })

  afterAll(async () => {
    clearInterval(publishing)
    await browser?.close()
    client?.end(true)
    await stack?.end()
  })

  /** @param {typeof VIEWS[number]} view */
  const open = async ({ address, there }) => {
    await page.goto('about:blank')
    await page.goto(`${stack.apiUrl}/${address.replace('ID', dashboardId)}`)
    await page.locator('#state').getByText('Live').waitFor()
    await page.locator(there).first().waitFor()
  }

  describe.each(VIEWS)('$address', ({ dialogs = [], ...view }) => {
    test.each(SIZES)('breaks no rule of axe-core at $width', async (size) => {
      await page.setViewportSize(size)
      await open(view)
      for (const colorScheme of SCHEMES) {
        await page.emulateMedia({ colorScheme })
        expect([colorScheme, ...(await violations(page))]).toEqual([colorScheme])
        for (const name of dialogs) {
          await page.getByRole('button', { name, exact: true }).click()
          await page.getByRole('dialog').waitFor()
          expect([name, ...(await violations(page))]).toEqual([name])
          await page.keyboard.press('Escape')
          await page.getByRole('dialog').waitFor({ state: 'hidden' })
        }
      }
    })

    test('has no control that Tab does not reach', async () => {
      await open(view)
      expect(await unreached(page)).toEqual([])
    })
  })
})
