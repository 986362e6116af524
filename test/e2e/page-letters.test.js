// Dead letters in a real browser: filtered by the api, with what would make each right, replayed.
import cassandra from 'cassandra-driver'
import mqtt from 'mqtt'
import { Browser, tabTo } from '../support/browser.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'

const MINUTE_MS = 60_000
const DAY_MS = 1_440 * MINUTE_MS

describeWith(missingPrograms(['chromium']), 'dead letters on the page', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {mqtt.MqttClient} */
  let client
  /** @type {Browser} */
  let browser
  /** @type {import('../support/browser.js').Page} */
  let page

  /** @param {string} hash */
  const open = async (hash) => {
    await page.goto('about:blank')
    await page.goto(`${stack.apiUrl}/${hash}`)
  }
  const hash = () => new URL(page.url()).hash
  const rows = () => page.locator('main tbody tr')
  const press = (/** @type {string[]} */ ...keys) =>
    keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve())

  /** A dead letter that can be stored by now: what was wrong is mended. */
  async function addMendedLetter() {
    const database = await stack.client()
    const receivedMs = Date.now() - MINUTE_MS
    const id = cassandra.types.TimeUuid.fromDate(new Date(receivedMs))
    await database.execute(
      `INSERT INTO ${stack.keyspace}.dead_letter
       (day, shard, id, topic, client, payload, reason, received) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      [
        ...[Math.floor(receivedMs / DAY_MS), /** @type {any} */ (id).buffer[3] % 8, id],
        ...['sensors/mended/m', 'c', Buffer.from('5'), 'the mended reason', receivedMs],
      ],
      { prepare: true },
    )
  }

  beforeAll(async () => {
    stack = await startStack()
    browser = await Browser.open()
    page = browser.page
    client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'page' })
    await client.publishAsync('sensors/kitchen/temperature', '{broken', { qos: 1 })
    await addMendedLetter()
  })

  afterAll(async () => {
    await browser?.close()
    client?.end(true)
    await stack?.end()
  })

  test('are found by reason, with their payload', async () => {
    await open('#/fleet')
    await press('g', 'd')
    await page.getByRole('heading', { level: 2, name: 'Dead letters' }).waitFor()
    await rows().nth(1).waitFor()
    await press('/')
    await page.keyboard.type('not JSON')
    await page.getByText('1 dead letter.').waitFor()
    expect(hash()).toBe('#/dead-letters?reason=not+JSON')
    await rows().getByText('{broken').waitFor()
    await rows().getByText('has an opening bracket without its closing one').waitFor()
  })

  test('are filtered by the api, and the address keeps how', async () => {
    /** @type {string[]} */
    const asked = []
    const note = (/** @type {import('playwright-core').Request} */ request) => {
      const { pathname, searchParams } = new URL(request.url())
      searchParams.delete('limit')
      if (pathname === '/v1/dead-letters') asked.push(searchParams.toString())
    }
    page.on('request', note)
    await open('#/dead-letters?topic=MENDED&open=1')
    await page.getByText('1 dead letter.').waitFor()
    await page.getByLabel('Client contains').fill('nobody')
    await page.getByText('None of this kind.').waitFor()
    await page.getByLabel('Client contains').fill('c')
    await page.getByLabel('Read as').selectOption('cbor')
    await page.getByText('None of this kind.').waitFor()
    await page.getByLabel('Read as').selectOption('')
    await page.getByText('1 dead letter.').waitFor()
    page.off('request', note)
    expect(asked[0]).toBe('topic=MENDED&replayed=false')
    expect(asked.at(-1)).toBe('topic=MENDED&client=c&replayed=false')
    expect(asked).toContain('topic=MENDED&client=nobody&replayed=false')
    // From a moment after all of them, as a field of the form has it.
    await page.getByLabel('From').fill('2060-01-31T10:00:00')
    await page.getByText('None of this kind.').waitFor()
    const from = Number(new URLSearchParams(hash().split('?')[1]).get('from'))
    expect(new Date(from).getFullYear()).toBe(2060)
    await page.reload()
    await page.getByText('None of this kind.').waitFor()
    expect(await page.getByLabel('From').inputValue()).toMatch(/^2060-01-31T10:00/)
    expect(await page.getByLabel('Topic contains').inputValue()).toBe('MENDED')
  })

  test('of bytes that are no text are shown in hex', async () => {
    await client.publishAsync('sensors/bytes/m', Buffer.from([0x01, 0xff, 0x41]), { qos: 1 })
    await open('#/dead-letters?topic=bytes')
    await rows().getByText('0000  01 ff 41').waitFor()
    await rows().getByText('These bytes are no text').waitFor()
  })

  test('are replayed, one or several, and say what became of each', async () => {
    await open('#/dead-letters')
    await rows().nth(2).waitFor()
    await rows().filter({ hasText: 'sensors/bytes' }).waitFor()
    await page.getByLabel('Reason contains').fill('e')
    await page.getByLabel('Topic contains').fill('n')
    await page.getByText('2 dead letters.').waitFor()
    await tabTo(page, '[data-part="all"]')
    await press('Space')
    await page.getByRole('button', { name: 'Replay 2 selected' }).waitFor()
    await tabTo(page, '[data-part="replay"]')
    await press('Enter')
    await page.getByText('Replayed: 1 stored, 1 refused again.').waitFor()
    await rows().filter({ hasText: 'mended' }).getByText('Stored now.').waitFor()
    await rows()
      .filter({ hasText: 'broken' })
      .getByText('Refused again: this is not JSON')
      .waitFor()
    await tabTo(page, 'tbody button')
    await press('Enter')
    await page.getByText('Replayed: 0 stored, 1 refused again.').waitFor()
    await page.getByLabel('Only those not yet replayed').check()
    await page.getByText('1 dead letter.').waitFor()
    const { items } = await getJson(`${stack.apiUrl}/v1/sensors/mended/latest`)
    expect(items).toMatchObject([{ metric: 'm', v: 5 }])
  })

  test('had no errors, and no request refused', () => {
    expect([browser.errors, browser.refusals]).toEqual([[], []])
  })
})
