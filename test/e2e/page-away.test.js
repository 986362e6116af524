// The page in a real browser while a part of the platform is away, and where a key is needed.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import mqtt from 'mqtt'
import { Browser, CONTRAST_MIN, faintTexts } from '../support/browser.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack } from '../support/stack.js'
import { until } from '../support/until.js'

const KEYS = fileURLToPath(new URL('../../common/keys/main.js', import.meta.url))

describeWith(missingPrograms(['chromium']), 'the page', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {Browser} */
  let browser
  /** @type {import('../support/browser.js').Page} */
  let page

  const state = () => page.locator('#state')

  async function canBeRead() {
    for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
      await page.emulateMedia({ colorScheme })
      expect(await faintTexts(page, CONTRAST_MIN)).toEqual([])
    }
  }

  describe('with a part away', () => {
    /** @type {mqtt.MqttClient} */
    let client
    /** @type {NodeJS.Timeout} */
    let publishing

    beforeAll(async () => {
      stack = await startStack()
      browser = await Browser.open()
      page = browser.page
      client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'page' })
      publishing = setInterval(() => {
        client.publish('sensors/hall/humidity', String(Date.now() % 100), { qos: 1 })
      }, 100)
      await until('a sensor is there', async () => {
        return (await fetch(`${stack.apiUrl}/v1/sensors/hall`)).ok
      })
      await page.goto(`${stack.apiUrl}/#/live`)
      await page.locator('tbody tr').first().waitFor()
    })

    afterAll(async () => {
      clearInterval(publishing)
      await browser?.close()
      client?.end(true)
      await stack?.end()
    })

    const newest = () => page.locator('main tbody tr').first().textContent()
    const goesOn = async () => {
      const before = await newest()
      await until('values come', async () => (await newest()) !== before, { deadlineMs: 30_000 })
    }

    test('says that the database is away, and goes on when it is back', async () => {
      await stack.databaseAway()
      await state().getByText('Database away').waitFor()
      await page.getByRole('alert').getByText('ingest keeps their messages').waitFor()
      await canBeRead()
      await stack.databaseBack()
      await state().getByText('Live').waitFor()
      await goesOn()
    })

    test('says that ingest is away, and goes on when it is back', async () => {
      await stack.part('ingest').kill9()
      await state().getByText('Ingest away').waitFor()
      await stack.part('ingest').start()
      await state().getByText('Live').waitFor()
      await goesOn()
    })

    test('says that the api is away, and its live values go on when it is back', async () => {
      await stack.part('api').kill9()
      await state().getByText('API away').waitFor()
      await stack.part('api').start()
      await state().getByText('Live').waitFor()
      await goesOn()
    })

    test('had no errors', () => {
      expect(browser.errors).toEqual([])
    })
  })

  describe('where a key is needed', () => {
    /** @type {string} */
    let key

    beforeAll(async () => {
      const env = { REQUIRE_KEYS: 'true' }
      stack = await startStack({ ingestEnv: env, apiEnv: env })
      const where = ['--cql-hosts', stack.cqlHosts, '--cql-keyspace', stack.keyspace]
      const what = ['create', '--name', 'page', '--scopes', 'read,write']
      const { stdout } = await promisify(execFile)(process.execPath, [KEYS, ...where, ...what])
      key = stdout.trim()
      const stored = await fetch(`${stack.apiUrl}/v1/measurements`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: '{"sensor":"hall","humidity":40}',
      })
      expect(stored.status).toBe(200)
      browser = await Browser.open()
      page = browser.page
      await page.goto(stack.apiUrl)
    })

    afterAll(async () => {
      await browser?.close()
      await stack?.end()
    })

    const dialog = () => page.getByRole('dialog', { name: 'An API key is needed' })

    test('asks for it once, and goes on with it, the live stream and files too', async () => {
      await dialog().waitFor()
      await canBeRead()
      await page.keyboard.type('sg_0123456789abcdef_nonsense')
      await page.keyboard.press('Enter')
      await dialog().getByText('there is no such key').waitFor()
      await page.keyboard.type(key)
      await page.keyboard.press('Enter')
      await page.getByRole('link', { name: 'hall' }).waitFor()
      await page.goto(`${stack.apiUrl}/#/live`)
      await page.getByText('Listening to 1 sensor.').waitFor()
      await page.goto(`${stack.apiUrl}/#/sensors/hall`)
      const downloading = page.waitForEvent('download')
      await page.getByRole('link', { name: 'Export NDJSON' }).click()
      const stream = await (await downloading).createReadStream()
      expect(Buffer.concat(await stream.toArray()).toString()).toContain('"humidity"')
      expect(await dialog().isVisible()).toBe(false)
    })

    test('says what a key may not do', async () => {
      await page.getByRole('button', { name: 'Edit', exact: true }).click()
      await page.getByLabel('Unit', { exact: true }).fill('%')
      await page.keyboard.press('Enter')
      await page.getByRole('alert').getByText('may not do this').waitFor()
      await page.keyboard.press('Escape')
    })

    test('forgets it when it is told to, and asks no more when nobody answers', async () => {
      await page.getByRole('button', { name: 'Forget the key' }).click()
      await dialog().waitFor()
      await page.keyboard.press('Escape')
      const button = page.getByRole('button', { name: 'Enter a key' })
      await button.waitFor()
      const { refusals } = browser
      const before = refusals.length
      await until('it was refused again', () => refusals.length > before + 2)
      expect(await dialog().isVisible()).toBe(false)
      await button.click()
      await dialog().waitFor()
    })

    test('never puts it into an address', () => {
      expect(browser.errors).toEqual([])
      expect(browser.refusals.filter((one) => one.includes('sg_'))).toEqual([])
      expect(page.url()).not.toContain('sg_')
    })
  })
})
