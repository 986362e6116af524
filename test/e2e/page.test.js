// The page in a real browser: sensors, live charts, ingest's counts, and what it says when a part
// is away.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import mqtt from 'mqtt'
import { chromium } from 'playwright-core'
import { describeWith, missingPrograms, programPath } from '../support/requirement.js'
import { startStack } from '../support/stack.js'

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

describeWith(missingPrograms(['chromium']), 'the page', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-page-'))
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {mqtt.MqttClient} */
  let client
  /** @type {import('playwright-core').BrowserContext} */
  let browser
  /** @type {import('playwright-core').Page} */
  let page
  /** @type {string[]} */
  const errors = []
  let publishing = true
  /** @type {Promise<void>} */
  let published

  async function publish() {
    for (let count = 0; publishing; count++) {
      const payload = JSON.stringify({ temperature: 20 + (count % 5), open: count % 2 === 0 })
      client.publish('sensors/kitchen', payload, { qos: 1 })
      client.publish('sensors/hall/humidity', String(40 + (count % 7)), { qos: 1 })
      await delay(100)
    }
  }

  beforeAll(async () => {
    stack = await startStack()
    client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'page' })
    published = publish()
    browser = await chromium.launchPersistentContext(directory, {
      executablePath: programPath('chromium'),
      args: FLAGS,
      viewport: { width: 1280, height: 900 },
    })
    page = await browser.newPage()
    page.on('pageerror', (error) => errors.push(error.message))
    page.on('console', (message) => {
      if (message.text().includes('Content Security Policy')) errors.push(message.text())
    })
    await page.goto(stack.apiUrl)
  }, 120_000)

  afterAll(async () => {
    publishing = false
    await published
    await browser?.close()
    client?.end(true)
    await stack?.end()
    rmSync(directory, { recursive: true, force: true })
  }, 60_000)

  const state = () => page.locator('#state')

  test('lists sensors and draws the first one live', async () => {
    await state().getByText('Live').waitFor()
    await page.getByRole('button', { name: 'hall' }).waitFor()
    await page.getByRole('heading', { name: 'humidity' }).waitFor()
    await page.locator('.metric canvas').first().waitFor()
    const now = page.locator('.metric .now span')
    const before = await now.textContent()
    await expect(changes(() => now.textContent(), before)).resolves.toBe(true)
  }, 30_000)

  test('finds and chooses a sensor with the keyboard alone', async () => {
    await page.getByRole('searchbox').focus()
    await page.keyboard.type('kit')
    await page.getByRole('button', { name: 'hall' }).waitFor({ state: 'detached' })
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'kitchen' }).waitFor()
    await page.getByRole('heading', { name: 'temperature' }).waitFor()
    await page.getByRole('heading', { name: 'open' }).waitFor()
    expect(new URL(page.url()).hash).toBe('#kitchen')
  }, 30_000)

  test('shows that what was received adds up, and what was refused', async () => {
    await page.locator('#conservation').getByText('adds up').waitFor()
    client.publish('sensors/kitchen/temperature', '{broken', { qos: 1 })
    await page.getByRole('cell', { name: 'sensors/kitchen/temperature' }).waitFor()
  }, 30_000)

  test('fits a phone', async () => {
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360)
    await page.setViewportSize({ width: 1280, height: 900 })
  })

  test('says that the database is away, and goes on when it is back', async () => {
    await stack.databaseAway()
    await state().getByText('Database away').waitFor()
    await stack.databaseBack()
    await state().getByText('Live').waitFor()
  }, 60_000)

  test('says that ingest is away, and goes on when it is back', async () => {
    await stack.part('ingest').kill9()
    await state().getByText('Ingest away').waitFor()
    await stack.part('ingest').start()
    await state().getByText('Live').waitFor()
  }, 60_000)

  test('says that the api is away, and goes on when it is back', async () => {
    await stack.part('api').kill9()
    await state().getByText('Api away').waitFor()
    await stack.part('api').start()
    await state().getByText('Live').waitFor()
    const now = page.locator('.metric .now span').first()
    const before = await now.textContent()
    await expect(changes(() => now.textContent(), before)).resolves.toBe(true)
  }, 60_000)

  test('had no errors, and nothing that its policy forbids', () => {
    expect(errors).toEqual([])
  })
})

/**
 * Whether something becomes another within ten seconds.
 *
 * @param {() => Promise<string | null>} read
 * @param {string | null} before
 */
async function changes(read, before) {
  for (let attempt = 0; attempt < 100; attempt++) {
    if ((await read()) !== before) return true
    await delay(100)
  }
  return false
}
