// A user's path without one command but the first: a sensor is registered, its device gets a key
// and measures, somebody is told when it is too hot, the measurements are taken away, and the
// sensor is deleted.
// Only the device is no browser: it has what the page showed, and nothing else.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import mqtt from 'mqtt'
import { Browser, inkPixels } from '../support/browser.js'
import { startReceiver } from '../support/receiver.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { SPOOLED_LATE, startStack } from '../support/stack.js'
import { until } from '../support/until.js'

const run = promisify(execFile)
const KEYS = fileURLToPath(new URL('../../common/keys/main.js', import.meta.url))

/** Pixels of a line across a chart. */
const INK_PIXELS_MIN = 100

const MINUTE_MS = 60_000

/** Characters at the end of each secret, in which nothing else is told. */
const SECRET_LENGTH_MIN = 30

/** What the device measured: minutes before now, and how hot it was. */
const HEAT = Array.from({ length: 40 }, (_, index) => ({ minute: 40 - index, v: 20 + (index % 9) }))

describeWith(missingPrograms(['chromium']), "a user's path through the page", () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {Browser} */
  let browser
  /** @type {import('../support/browser.js').Page} */
  let page
  /** @type {Awaited<ReturnType<typeof startReceiver>>} */
  let receiver
  /** @type {mqtt.MqttClient | undefined} */
  let device
  /** Of the one who runs the platform. */
  let ownKey = ''
  /** The one that the page showed. */
  let deviceKey = ''
  let claimKey = ''
  /** Addresses that the browser asked for. @type {string[]} */
  const asked = []

  const form = () => page.getByRole('dialog')
  const button = (/** @type {string} */ name) => page.getByRole('button', { name, exact: true })
  const heading = (/** @type {string} */ name) => page.getByRole('heading', { level: 2, name })
  const go = (/** @type {string} */ name) =>
    page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name }).click()

  /** A client of MQTT that has a key. @param {string} password */
  const connect = (password) =>
    mqtt.connectAsync(stack.mqttUrl, { username: 'any', password, reconnectPeriod: 0 }, false)

  /** @param {Record<string, string>} fields  By label. */
  async function fill(fields) {
    for (const [label, text] of Object.entries(fields)) {
      await form().getByLabel(label, { exact: true }).fill(text)
    }
  }

  /** The secret that a dialog shows, which is closed. */
  async function secretShown() {
    const field = form().getByLabel('Copy it now: it is shown only once.')
    const secret = await field.inputValue()
    await button('Done').click()
    const left = await page
      .locator('input.secret')
      .evaluateAll((all) => all.map((one) => /** @type {HTMLInputElement} */ (one).value))
    expect(left.filter((value) => value !== '')).toEqual([])
    return secret
  }

  beforeAll(async () => {
    const env = { REQUIRE_KEYS: 'true' }
    stack = await startStack({ ingestEnv: { ...SPOOLED_LATE, ...env }, apiEnv: env })
    receiver = await startReceiver()
    browser = await Browser.open()
    page = browser.page
    page.on('request', (request) => asked.push(request.url()))
    // The one command: who starts the platform with keys makes the first of them.
    const where = ['--cql-hosts', stack.cqlHosts, '--cql-keyspace', stack.keyspace]
    const key = ['--name', 'mine', '--scopes', 'read,write,manage,admin']
    const made = await run(process.execPath, [KEYS, ...where, 'create', ...key], {
      timeout: 30_000,
    })
    ownKey = made.stdout.trim()
  })
  afterAll(async () => {
    device?.end(true)
    await browser?.close()
    await receiver?.away()
    await stack?.end()
  })

  test('registers a sensor; what is wrong is said at its field', async () => {
    await page.goto(`${stack.apiUrl}/`)
    await form().getByLabel('Key').fill(ownKey)
    await form().getByRole('button', { name: 'Use this key' }).click()
    await page.getByText('There is no sensor yet.').waitFor()
    await button('Register a sensor').click()
    await fill({ Name: 'plant/boiler', Type: 'boiler' })
    await button('Register').click()
    const name = form().getByLabel('Name', { exact: true })
    await page.locator('#refusal-of-name').getByText('Name must have 1 to 128').waitFor()
    expect(await name.getAttribute('aria-invalid')).toBe('true')
    expect(await name.getAttribute('aria-describedby')).toBe('refusal-of-name')
    await name.fill('boiler')
    await form().getByLabel('Tags, one a line').fill('north')
    await button('Register').click()
    await page.locator('#refusal-of-tags').getByText('“north” is not a tag').waitFor()
    expect(await page.locator('#refusal-of-name').count()).toBe(0)
    await form().getByLabel('Tags, one a line').fill('site:north')
    await form().getByLabel('Measurements are kept').selectOption('for 90 days')
    await button('Register').click()
    await heading('boiler').waitFor()
    await page.getByText('boiler · site:north').waitFor()
    await page.getByText('Measurements are kept for 90 days').waitFor()
  })

  test('makes a key for its device, which is shown once', async () => {
    await go('Keys')
    await page.getByText('You use the key mine, which may read').waitFor()
    await button('New key').click()
    await fill({
      'What it is for': 'boiler room',
      'Only for the device of this sensor; empty: for all sensors': 'boiler',
    })
    expect(await form().getByLabel('send measurements').isChecked()).toBe(true)
    expect(await form().getByLabel('manage keys').isDisabled()).toBe(true)
    await button('Make the key').click()
    await heading('The key boiler room').waitFor()
    await button('Copy').click()
    await form()
      .getByText(/^Copied|press Ctrl\+C/)
      .waitFor()
    deviceKey = await secretShown()
    expect(deviceKey).toMatch(/^sg_[0-9a-f]{16}_/)
    const row = page.locator('[data-part="key-rows"] tr').filter({ hasText: 'boiler room' })
    await row.getByRole('link', { name: 'boiler', exact: true }).waitFor()
    expect(await page.content()).not.toContain(deviceKey)
  })

  test('makes a claim key, by which a device gets its own', async () => {
    await button('New claim key').click()
    await fill({ 'Sensor whose device may use it': 'boiler' })
    await button('Make the claim key').click()
    await heading('The claim key of boiler').waitFor()
    claimKey = await secretShown()
    expect(claimKey).toMatch(/^sgc_/)
    const row = page.locator('[data-part="claim-rows"] tr')
    await row.getByText(/^Not used yet; good until/).waitFor()
    const headers = { authorization: `Bearer ${claimKey}` }
    const claimed = await fetch(`${stack.apiUrl}/v1/claim`, { method: 'POST', headers })
    expect(claimed.status).toBe(201)
    await page.reload()
    await row.getByText(/^A device got its key/).waitFor()
    await button('Revoke the claim key of boiler').click()
    await button('Really revoke?').click()
    await row.waitFor({ state: 'detached' })
  })

  test('the device sends its first values with it, and they are on a chart', async () => {
    device = await connect(deviceKey)
    const nowMs = Date.now()
    const values = HEAT.map(({ minute, v }) => ({ t: nowMs - minute * MINUTE_MS, v }))
    for (const value of values) {
      await device.publishAsync('sensors/boiler/heat', JSON.stringify(value), { qos: 1 })
    }
    const keys = page.locator('[data-part="key-rows"] tr').filter({ hasText: 'boiler room' })
    await keys.getByRole('link', { name: 'boiler', exact: true }).click()
    await page.getByRole('link', { name: /heat/ }).waitFor()
    await page.getByText(/windows? of .*, from raw measurements/).waitFor()
    await until('a line is drawn', async () => {
      return (await inkPixels(page, '[data-part="chart"] canvas', '--accent')) > INK_PIXELS_MIN
    })
  })

  test('has somebody told by a signed webhook, which a test reaches', async () => {
    await go('Alerts')
    await page.getByText('Nobody is told yet: alerts are only listed here.').waitFor()
    await button('New receiver').click()
    await fill({ Name: 'duty', 'Address of the webhook': 'ftp://127.0.0.1/hook' })
    await button('Save').click()
    await page.locator('#refusal-of-url').getByText('Url must be an address').waitFor()
    await fill({ 'Address of the webhook': receiver.url })
    await button('Save').click()
    await heading('The signing secret of duty').waitFor()
    receiver.answers.secret = await secretShown()
    await button('Test duty').click()
    await page.getByText('The test has arrived.').waitFor()
    expect(receiver.taken).toMatchObject([{ type: 'alert.test' }])
  })

  test('makes a rule, and sees the alert when it is too hot', async () => {
    await button('New rule').click()
    await fill({ Name: 'too hot', Metric: 'heat', Limit: '80' })
    await form().getByLabel('Only with all of these tags').fill('site:north')
    await form().getByLabel('duty (webhook)').check()
    await button('Save').click()
    await page.getByText('heat above 80, any sensor (tag site:north)').waitFor()
    // Every process of ingest knows a rule within two seconds.
    await page.waitForTimeout(2_100)
    await device?.publishAsync('sensors/boiler/heat', '91.5', { qos: 1 })
    await page.getByText('heat of boiler is 91.5, above 80').waitFor()
    await until('duty is told', () => receiver.taken.some(({ type }) => type === 'alert.fired'))
    expect(receiver.refused).toEqual([])
  })

  test('takes all that was measured away as CSV', async () => {
    await page.locator('[data-part="rows"]').getByRole('link', { name: 'boiler' }).click()
    // Nothing moves on the page once both are there: a click is where the link is.
    await page.getByText(/windows? of .*, from raw measurements/).waitFor()
    await page.getByRole('cell', { name: '91.5', exact: true }).waitFor()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Export CSV' }).click(),
    ])
    const text = readFileSync(await download.path(), 'utf8')
    const rows = text.trim().split('\n').slice(1)
    const values = rows
      .map((row) => row.split(','))
      .filter(([, metric, t]) => metric === 'heat' && t !== '')
    expect(values.map(([sensor, , , v]) => [sensor, Number(v)])).toEqual(
      [...HEAT.map(({ v }) => v), 91.5].map((v) => ['boiler', v]),
    )
  })

  test('takes the key back, and deletes the sensor with all that it measured', async () => {
    await go('Keys')
    await button('Revoke boiler room').click()
    await button('Really revoke?').click()
    await page.getByText('boiler room is revoked').waitFor()
    await until('the device is let go', () => device?.connected === false, { deadlineMs: 30_000 })
    await expect(connect(deviceKey)).rejects.toThrow()
    await page.goto(`${stack.apiUrl}/#/sensors/boiler`)
    await page.getByText('Measurements are kept for 90 days').waitFor()
    await button('Delete').click()
    await form().getByText('41 measurements of 1 metric').waitFor()
    await form()
      .getByLabel(/Delete it for good/)
      .check()
    await form().getByLabel('Its name, to confirm').fill('boiler')
    await form().getByRole('button', { name: 'Delete' }).click()
    await heading('Fleet').waitFor()
    await page.getByText('There is no sensor yet.').waitFor()
  })

  test('no address and no log has a secret', () => {
    const secrets = [ownKey, deviceKey, claimKey, String(receiver.answers.secret)]
    const logs = readdirSync(stack.directory).filter((name) => name.endsWith('.log'))
    expect(logs.length).toBeGreaterThanOrEqual(3)
    const texts = [
      ...asked,
      ...logs.map((name) => readFileSync(join(stack.directory, name), 'utf8')),
    ]
    for (const secret of secrets) {
      const bare = secret.slice(-SECRET_LENGTH_MIN)
      expect(bare).toHaveLength(SECRET_LENGTH_MIN)
      expect(texts.filter((text) => text.includes(bare))).toEqual([])
    }
    expect(browser.errors).toEqual([])
  })
})
