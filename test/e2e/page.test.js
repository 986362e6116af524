// The page in a real browser: each view by keyboard alone, and how it looks on a computer and on a
// phone, in the light and in the dark.
import mqtt from 'mqtt'
import {
  Browser,
  CONTRAST_MIN,
  edgePixels,
  faintTexts,
  inkPixels,
  pageWidth,
  tabTo,
} from '../support/browser.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { publishAll } from '../support/rest.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

const SENSORS = 1_000
const MINUTE_MS = 60_000
const DAY_MS = 1_440 * MINUTE_MS

/** Pixels of a line across a chart: a few hundred, whatever its shape. */
const INK_PIXELS_MIN = 200

describeWith(missingPrograms(['chromium']), 'the page', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {mqtt.MqttClient} */
  let client
  /** @type {Browser} */
  let browser
  /** @type {import('../support/browser.js').Page} */
  let page
  /** @type {NodeJS.Timeout} */
  let publishing

  /** @param {string} hash */
  const open = async (hash) => {
    await page.goto('about:blank')
    await page.goto(`${stack.apiUrl}/${hash}`)
  }
  const hash = () => new URL(page.url()).hash
  const rows = () => page.locator('main tbody tr')
  /** @param {string} name */
  const heading = (name) => page.getByRole('heading', { level: 2, name, exact: true })
  const isOnHeading = () => page.evaluate(() => document.activeElement?.tagName === 'H2')
  const chartNote = () => page.locator('[data-part="chart-note"]')
  const press = (/** @type {string[]} */ ...keys) =>
    keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve())

  /** A day of one sensor, a value a minute; and a fleet that was heard of an hour ago. */
  async function fill() {
    const nowMs = Date.now()
    const day = Array.from({ length: 1_440 }, (_, minute) => ({
      sensor: 'kitchen',
      t: nowMs - (minute + 1) * MINUTE_MS,
      open: minute % 2 === 0,
      temperature: 20 + 4 * Math.sin(minute / 200) + (minute % 7) / 10,
    }))
    const fleet = Array.from({ length: SENSORS }, (_, index) => ({
      sensor: `unit-${String(index).padStart(4, '0')}`,
      metric: 'level',
      t: nowMs - 60 * MINUTE_MS,
      v: index,
    }))
    await publishAll(stack.apiUrl, [...day, ...fleet])
    await stack.emptied()
    await page.request.patch(`${stack.apiUrl}/v1/sensors/unit-0007`, {
      data: { type: 'tank', tags: { site: 'port' } },
    })
  }

  beforeAll(async () => {
    stack = await startStack()
    browser = await Browser.open()
    page = browser.page
    client = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'page' })
    await fill()
    await client.publishAsync('sensors/kitchen/temperature', '{broken', { qos: 1 })
    let count = 0
    publishing = setInterval(() => {
      count += 1
      client.publish('sensors/hall', JSON.stringify({ humidity: 40 + (count % 7) }), { qos: 1 })
    }, 100)
  })

  afterAll(async () => {
    clearInterval(publishing)
    await browser?.close()
    client?.end(true)
    await stack?.end()
  })

  describe('fleet', () => {
    test('is drawn with two requests for its sensors, however many there are', async () => {
      /** @type {string[]} */
      const asked = []
      const note = (/** @type {import('playwright-core').Request} */ request) => {
        const { pathname } = new URL(request.url())
        if (pathname.startsWith('/v1/')) asked.push(pathname)
      }
      page.on('request', note)
      await open('')
      await rows().nth(99).waitFor()
      page.off('request', note)
      expect(await rows().count()).toBe(100)
      const wanted = asked.filter((path) => path !== '/v1/ingest')
      expect(wanted.sort()).toEqual(['/v1/latest', '/v1/sensors'])
    })

    test('shows newest values, and which sensors are stale', async () => {
      const hall = rows().filter({ hasText: 'hall' })
      await hall.getByText('humidity 4').waitFor()
      expect(await hall.getByText('stale').isVisible()).toBe(false)
      const unit = rows().filter({ hasText: 'unit-0001' })
      await unit.getByText('level 1').waitFor()
      expect(await unit.getByText('stale').isVisible()).toBe(true)
      await page.getByLabel('Stale after').selectOption('1 day')
      await unit.getByText('stale').waitFor({ state: 'hidden' })
      expect(hash()).toBe('#/fleet?stale=86400')
    })

    test('says so if its list is an old one', async () => {
      await page.route('**/v1/sensors?*', async (route) => {
        const response = await route.fetch()
        const list = await response.json()
        await route.fulfill({ response, json: { ...list, as_of: Date.now() - 65_000 } })
      })
      await page.getByText('The list is as it was 65 s ago.').waitFor()
      await page.unroute('**/v1/sensors?*')
      await page.getByText('The list is as it was').waitFor({ state: 'hidden' })
    })

    test('is searched, and a sensor is opened, by keys alone; back brings the search again', async () => {
      await open('#/fleet')
      await rows().first().waitFor()
      await press('Tab', 'Enter')
      expect(await isOnHeading()).toBe(true)
      await press('/')
      await page.keyboard.type('kit')
      await until('only what fits is left', async () => (await rows().count()) === 1)
      await tabTo(page, 'a[href^="#/sensors/kitchen"]')
      await press('Enter')
      await heading('kitchen').waitFor()
      expect(await isOnHeading()).toBe(true)
      await page.goBack()
      await until('the search is there', async () => (await rows().count()) === 1)
      expect(hash()).toBe('#/fleet?q=kit')
      expect(await page.getByLabel('Name contains').inputValue()).toBe('kit')
    })

    test('is filtered by type and tag', async () => {
      await open('#/fleet')
      await page.getByLabel('Type', { exact: true }).fill('tank')
      await page.getByLabel('Tag').fill('site:port')
      await page.getByText('1 sensor found').waitFor()
      await rows().getByText('tank · site:port').waitFor()
      await page.getByLabel('Tag').fill('site:hill')
      await page.getByText('No sensor is like that.').waitFor()
    })

    test('shows those that are stale alone, and those that are silent for longest first', async () => {
      await open('#/fleet')
      await page.getByText(/^1,002 sensors; these are hall to/).waitFor()
      await page.getByLabel('Only stale ones').check()
      await page.getByText(/^1,000 sensors found; these are unit-0000 to/).waitFor()
      expect(await rows().filter({ hasText: 'hall' }).count()).toBe(0)
      await page.getByLabel('Order').selectOption('last heard')
      await page.getByLabel('Only stale ones').uncheck()
      await rows().first().filter({ hasText: 'hall' }).waitFor()
      expect(hash()).toBe('#/fleet?sort=newest')
    })

    test('goes page by page, and back', async () => {
      await open('#/fleet?q=unit-')
      await rows().filter({ hasText: 'unit-0000' }).waitFor()
      await tabTo(page, '[data-part="next"]')
      await press('Enter')
      await rows().filter({ hasText: 'unit-0100' }).waitFor()
      expect(await rows().filter({ hasText: 'unit-0000' }).count()).toBe(0)
      await page.goBack()
      await rows().filter({ hasText: 'unit-0000' }).waitFor()
    })
  })

  describe('sensor', () => {
    test('draws the metric and range that are chosen by keys, and says what it read', async () => {
      await open('#/sensors/kitchen')
      await tabTo(page, 'a[href*="metric=temperature"]')
      await press('Enter')
      await page.getByRole('heading', { level: 3, name: 'temperature' }).waitFor()
      await tabTo(page, '[data-part="ranges"] a[href*="range=1d"]')
      await press('Enter')
      await chartNote()
        .getByText(/windows of 2 min, from (raw|rollups)/)
        .waitFor()
      expect(hash()).toBe('#/sensors/kitchen?metric=temperature&range=1d')
      await until('it is drawn', async () => {
        return (await inkPixels(page, '.chart canvas', '--accent')) > INK_PIXELS_MIN
      })
      await tabTo(page, '[data-part="chart"]')
      const readout = page.locator('[data-part="readout"]')
      await press('ArrowRight')
      await readout.getByText(/: \d/).waitFor()
      const first = await readout.textContent()
      await press('ArrowRight')
      await until('the next point is read', async () => (await readout.textContent()) !== first)
      await press('ArrowLeft')
      await until('the first again', async () => (await readout.textContent()) === first)
    })

    test('zooms by keys and by dragging; back zooms out again', async () => {
      const spanMs = () => {
        const query = new URLSearchParams(hash().split('?')[1])
        return Number(query.get('to')) - Number(query.get('from'))
      }
      await tabTo(page, '[data-part="moves"] a:nth-child(2)')
      await press('Enter')
      await until('half a day is shown', () => spanMs() === DAY_MS / 2)
      await chartNote().getByText('windows of 60 s').waitFor()
      await page.locator('[data-part="chart"]').scrollIntoViewIfNeeded()
      const box = await page.locator('.chart .u-over').boundingBox()
      if (!box) throw new Error('there is no chart')
      await page.mouse.move(box.x + box.width * 0.25, box.y + 80)
      await page.mouse.down()
      await page.mouse.move(box.x + box.width * 0.75, box.y + 90, { steps: 5 })
      await page.mouse.up()
      await until('a quarter of a day is shown', () => Math.abs(spanMs() / DAY_MS - 0.25) < 0.01)
      await page.goBack()
      await until('half a day is shown again', () => spanMs() === DAY_MS / 2)
    })

    test('shows the measurements page by page, and gives them away as files', async () => {
      await open('#/sensors/kitchen?metric=temperature&range=1d')
      await rows().nth(49).waitFor()
      const first = await rows().first().textContent()
      await page.getByRole('link', { name: 'Older' }).click()
      await until('it is another page', async () => (await rows().first().textContent()) !== first)
      await page.getByRole('link', { name: 'Newest' }).click()
      await until('the first is back', async () => (await rows().first().textContent()) === first)
      const downloading = page.waitForEvent('download')
      await page.getByRole('link', { name: 'Export CSV' }).click()
      const download = await downloading
      expect(download.suggestedFilename()).toMatch(/^kitchen_temperature_from-.*\.csv$/)
      const stream = await download.createReadStream()
      const lines = Buffer.concat(await stream.toArray())
        .toString()
        .trim()
        .split('\n')
      expect(lines.length).toBeGreaterThan(1_400)
      expect(lines[1]).toContain('kitchen')
    })

    test('has its type, unit and tags changed by keys', async () => {
      await open('#/sensors/kitchen')
      await page.getByText('No type, unit or tags are known.').waitFor()
      await tabTo(page, '[data-part="edit"]')
      await press('Enter')
      await page.keyboard.type('room')
      await press('Tab')
      await page.keyboard.type('°C')
      await press('Tab')
      await page.keyboard.type('floor')
      await press('Tab', 'Tab', 'Tab', 'Enter')
      await page.getByRole('alert').getByText('“floor” is not a tag').waitFor()
      await press('Shift+Tab', 'Shift+Tab', 'Shift+Tab')
      await press('Control+End')
      await page.keyboard.type(':2')
      await press('Tab', 'Tab', 'Tab', 'Enter')
      await page.getByText('room · in °C · floor:2').waitFor()
      await page.locator('.tiles').getByText(/\d °C/).waitFor()
      const sensor = await getJson(`${stack.apiUrl}/v1/sensors/kitchen`)
      expect(sensor).toMatchObject({ type: 'room', unit: '°C', tags: { floor: '2' } })
    })

    test('has it said by keys what a metric means, of the sensor and of its type', async () => {
      const url = `${stack.apiUrl}/v1/sensors/kitchen/metrics/temperature`
      const tile = page.locator('.tiles li[data-metric="temperature"]')
      await page.request.patch(`${stack.apiUrl}/v1/sensors/kitchen`, { data: { type: 'room' } })
      await open('#/sensors/kitchen?metric=temperature&range=1d')
      await chartNote().getByText('windows of').waitFor()
      await tabTo(page, '[data-part="edit-metric"]')
      await press('Enter')
      await heading('What temperature means').waitFor()
      await press('Tab')
      for (const word of ['Air', 'Cel', '2', '0', '-1']) {
        await page.keyboard.type(word)
        await press('Tab')
      }
      await press('Enter')
      await page
        .getByRole('alert')
        .getByText('“Expected to” must not be below “Expected from”')
        .waitFor()
      await press('Shift+Tab')
      await page.keyboard.type('19')
      await press('Enter')
      await page.getByRole('heading', { level: 3, name: 'Air (temperature)' }).waitFor()
      await tile.getByText(/^\d\d\.\d\d °C$/).waitFor()
      await tile.getByText('Air').waitFor()
      await tile.getByText('outside the expected range').waitFor()
      await rows()
        .first()
        .getByText(/\.\d\d °C$/)
        .waitFor()
      expect((await getJson(url)).said).toEqual({
        sensor: { unit: 'Cel', label: 'Air', decimals: 2, expected_min: 0, expected_max: 19 },
      })

      // Of the type: what the sensor says stays, until that is cleared.
      await tabTo(page, '[data-part="edit-metric"]')
      await press('Enter')
      await heading('What temperature means').waitFor()
      await page.locator('select[name="owner"]').selectOption('all of type room')
      await page.getByLabel('Label').fill('Room')
      await press('Enter')
      await until('it is said', async () => (await getJson(url)).said.type?.label === 'Room')
      expect((await getJson(url)).label).toBe('Air')
      await tabTo(page, '[data-part="edit-metric"]')
      await press('Enter')
      await heading('What temperature means').waitFor()
      const field = (/** @type {string} */ label) => page.locator('dialog[open]').getByLabel(label)
      expect(await field('Label').getAttribute('placeholder')).toBe('Room')
      for (const label of ['Label', 'Unit', 'Decimals', 'Expected from', 'Expected to']) {
        await field(label).fill('')
      }
      await press('Enter')
      await page.getByRole('heading', { level: 3, name: 'Room (temperature)' }).waitFor()
      expect((await getJson(url)).said).toEqual({ type: { label: 'Room' } })
    })

    test('says whether its device is connected', async () => {
      await open('#/sensors/hall')
      const device = await mqtt.connectAsync(stack.mqttUrl, { clientId: 'hall' })
      await device.publishAsync('sensors/hall/humidity', '41', { qos: 1 })
      await page.getByText(/^Connected since .*\d$/).waitFor()
      await device.endAsync()
      await page.getByText(/^Disconnected since .*\d$/).waitFor()
    })

    test('says that there is none of that name', async () => {
      await open('#/sensors/nobody')
      await page.getByText('no sensor has this name or id').waitFor()
    })
  })

  describe('live', () => {
    test('shows values as they come, at what rate, and stands still while paused', async () => {
      await open('#/fleet')
      await press('g', 'l')
      await heading('Live').waitFor()
      await press('/')
      await page.keyboard.type('hall')
      await page.getByText('Listening to 1 sensor.').waitFor()
      await rows().nth(5).waitFor()
      await until('ten a second are counted', async () => {
        const rate = Number(await page.locator('[data-part="rate"]').textContent())
        return rate > 5 && rate < 15
      })
      const above = () =>
        rows()
          .locator('a')
          .evaluateAll((all) => all.indexOf(/** @type {any} */ (document.activeElement)))
      await rows().locator('a').first().focus()
      await until('lines come above the one with the focus', async () => (await above()) > 2)
      await until('a chart is drawn', async () => {
        return (await inkPixels(page, '.card canvas', '--accent')) > INK_PIXELS_MIN
      })
      await press('/', 'Shift+Tab')
      await press('Space')
      const before = await rows().first().textContent()
      await page.getByText(/Paused; [1-9]\d* values came meanwhile/).waitFor()
      expect(await rows().first().textContent()).toBe(before)
      await press('Space')
      await until('it goes on', async () => (await rows().first().textContent()) !== before)
    })

    test('is of the chosen sensors alone', async () => {
      await open('#/sensors/hall')
      await tabTo(page, '[data-part="live"]')
      await press('Enter')
      await page.getByText('Listening to 1 sensor.').waitFor()
      expect(hash()).toBe('#/live?sensor=hall')
      await tabTo(page, '[aria-label="Leave out hall"]')
      await press('Enter')
      await page.getByText('More than 96 sensors fit: choose those to hear').waitFor()
    })

    test('draws states as strips and numbers whole, and gives each its unit', async () => {
      // More metrics than there are charts.
      const levels = Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`level-${n}`, n]))
      const publish = () => publishAll(stack.apiUrl, [{ sensor: 'depot', ...levels }])
      await publish()
      for (const metric of Object.keys(levels)) {
        const url = `${stack.apiUrl}/v1/sensors/depot/metrics/${metric}`
        expect((await page.request.put(url, { data: { unit: 'Cel' } })).status()).toBe(200)
      }
      await open('#/live?sensor=depot')
      await page.getByText('Listening to 1 sensor.').waitFor()
      await until('all have been heard', async () => {
        await publish()
        return (await rows().count()) >= 16
      })
      const values = await rows().locator('td:nth-child(3)').allTextContents()
      expect(values.filter((text) => !text.endsWith('°C'))).toEqual([])
      expect(await page.locator('.card').count()).toBe(12)

      let energy = 1_251_009.463
      const measure = () => {
        energy += 0.001
        return publishAll(stack.apiUrl, [{ sensor: 'meter', energy, state: 'running', on: true }])
      }
      await measure()
      await open('#/live?sensor=meter')
      await page.getByText('Listening to 1 sensor.').waitFor()
      const card = (/** @type {string} */ metric) =>
        page.locator('.card').filter({ has: page.getByText(metric, { exact: true }) })
      await until('the states are drawn', async () => {
        await measure()
        return (
          (await card('state').locator('svg text.state').allTextContents()).join() === 'running' &&
          (await card('on').locator('svg text.state').allTextContents()).join() === 'true'
        )
      })
      await card('energy').locator('canvas').waitFor()
      // A digit that is cut begins at the very edge.
      expect(await edgePixels(page, '.card canvas')).toBe(0)
    })
  })

  test('health shows that what was received adds up', async () => {
    await open('#/fleet')
    await press('g', 'h')
    await heading('Health').waitFor()
    await page.getByText('It adds up.').waitFor()
    const stored = page.getByRole('list', { name: 'What became of them' })
    await stored.getByText(/^[1-9][\d,]* stored$/).waitFor()
    await until('a rate is shown', async () => {
      const rate = await page.locator('.figures div:has-text("Messages a second") dd').textContent()
      return Number(rate) > 1
    })
    const lag = page.locator('.figures div:has-text("Rollups behind") dd')
    expect(await lag.textContent()).toMatch(/ (ms|s|min)$/)
  })

  test('tells its keys', async () => {
    await press('?')
    await page.getByRole('dialog', { name: 'Keys' }).waitFor()
    await press('Escape')
    await page.getByRole('dialog', { name: 'Keys' }).waitFor({ state: 'hidden' })
  })

  describe.each([
    { where: 'on a computer', size: { width: 1280, height: 900 } },
    { where: 'on a phone', size: { width: 375, height: 812 } },
  ])('$where', ({ size }) => {
    describe.each(/** @type {const} */ (['light', 'dark']))('in the %s', (colorScheme) => {
      test.each([
        ['fleet', '#/fleet', 'tbody tr:nth-child(50)'],
        ['sensor', '#/sensors/kitchen?metric=temperature&range=1d', 'tbody tr:nth-child(20)'],
        ['live', '#/live?q=hall', 'tbody tr:nth-child(5)'],
        ['dead letters', '#/dead-letters', 'tbody tr'],
        ['health', '#/health', '.terms li'],
      ])(
        '%s is not too wide, and can be read',
        async (_, address, there) => {
          await page.setViewportSize(size)
          await page.emulateMedia({ colorScheme })
          await open(address)
          await page.locator('#state').getByText('Live').waitFor()
          await page.locator(there).first().waitFor()
          expect(await pageWidth(page)).toBe(size.width)
          expect(await faintTexts(page, CONTRAST_MIN)).toEqual([])
          if (await page.locator('.chart').first().isVisible()) {
            await until('a chart is drawn', async () => {
              return (await inkPixels(page, '.chart canvas', '--accent')) > INK_PIXELS_MIN
            })
          }
        },
        30_000,
      )
    })
  })

  test('had no errors, nothing that its policy forbids, and no request refused', () => {
    expect(browser.errors).toEqual([])
    // What was asked at the same time of the sensor that is not was answered one by one.
    const isOfNobody = (/** @type {string} */ one) => one.includes('/v1/sensors/nobody')
    const [meaning, ...others] = browser.refusals.filter((one) => !isOfNobody(one))
    expect([meaning, others]).toEqual([expect.stringMatching(/^400 .*metrics.temperature$/), []])
  })
})
