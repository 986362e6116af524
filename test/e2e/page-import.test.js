// A file is imported on the page: looked through first, stored then, and broken off.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { Browser } from '../support/browser.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'

const DAY_MS = 86_400_000

/** Rows of a file that is not imported within a moment. */
const ROWS_LONG = 400_000

describeWith(missingPrograms(['chromium']), 'an import on the page', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {Browser} */
  let browser
  /** @type {import('../support/browser.js').Page} */
  let page
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-import-'))

  const button = (/** @type {string} */ name) => page.getByRole('button', { name, exact: true })
  const sensors = async () => (await getJson(`${stack.apiUrl}/v1/sensors`)).items
  const stored = async (/** @type {string} */ sensor) =>
    (await getJson(`${stack.apiUrl}/v1/sensors/${sensor}/measurements?order=asc`)).items

  /** @param {string} name  @param {string | Buffer} content */
  async function choose(name, content) {
    const path = join(directory, name)
    writeFileSync(path, content)
    await page.getByLabel('File', { exact: true }).setInputFiles(path)
  }

  beforeAll(async () => {
    stack = await startStack()
    browser = await Browser.open()
    page = browser.page
    await page.goto(`${stack.apiUrl}/#/fleet`)
    await page.keyboard.press('g')
    await page.keyboard.press('i')
    await page.getByRole('heading', { level: 2, name: 'Import' }).waitFor()
  })
  afterAll(async () => {
    await browser?.close()
    await stack?.end()
    rmSync(directory, { recursive: true, force: true })
  })

  test('asks for a file that it understands', async () => {
    await button('Look through it').click()
    await page.getByText('Choose a file first.').waitFor()
    await choose('notes.txt', 'a,b')
    await button('Look through it').click()
    await page.getByText('notes.txt is no file that is understood').waitFor()
  })

  test('is looked through first: what would be stored, and what is refused, and why', async () => {
    const t = Date.now() - DAY_MS
    await choose('roof.csv', `time,wind,rain\n${t},4.5,0.2\nyesterday,5,0\n${t + 1_000},6.25,0\n`)
    await page.getByLabel('Sensor for lines that name none').fill('roof')
    await page.getByLabel('Keep measurements of new sensors').selectOption('for 90 days')
    await button('Look through it').click()
    await page.getByText('2 of 3 rows can be stored, 1 refused.').waitFor()
    await page.getByText(/^4 measurements, from /).waitFor()
    await page.getByText('wind of roof: 2 numbers').waitFor()
    await page.getByText(/^4 measurements of 1 sensor \(1 new\), kept until /).waitFor()
    const refused = page.locator('[data-part="refused-rows"] tr')
    expect(await refused.locator('td').first().textContent()).toBe('3')
    await refused.getByText(/time|yesterday/).waitFor()
    expect(await sensors()).toEqual([])
  })

  test('is stored then, once', async () => {
    await button('Import it').click()
    await page.getByText('2 of 3 rows stored, 1 refused.').waitFor()
    const values = (await stored('roof')).map((/** @type {any} */ one) => `${one.metric} ${one.v}`)
    expect(values.sort()).toEqual(['rain 0', 'rain 0.2', 'wind 4.5', 'wind 6.25'])
    expect(await button('Import it').isVisible()).toBe(false)
    await page.getByRole('link', { name: 'See the sensors' }).waitFor()
  })

  test('takes a packed file, and another file begins anew', async () => {
    const line = JSON.stringify({ sensor: 'cellar', t: Date.now() - DAY_MS, damp: 71 })
    await choose('cellar.ndjson.gz', gzipSync(`${line}\n`))
    expect(await page.getByText('rows stored').isVisible()).toBe(false)
    await button('Look through it').click()
    await page.getByText('1 of 1 row can be stored.').waitFor()
    await button('Import it').click()
    await page.getByText('1 of 1 row stored.').waitFor()
    expect(await stored('cellar')).toMatchObject([{ metric: 'damp', v: 71 }])
  })

  test('is broken off by a button, and says so', async () => {
    const startMs = Date.now() - DAY_MS
    const rows = Array.from({ length: ROWS_LONG }, (_, index) => `${startMs + index},${index}`)
    await choose('long.csv', `t,count\n${rows.join('\n')}\n`)
    await button('Look through it').click()
    await button('Stop').click()
    await page
      .getByText('The file was not looked through to its end. Nothing was stored.')
      .waitFor()
    expect(await page.locator('#state').textContent()).toBe('Live')
    expect(browser.errors).toEqual([])
  })
})
