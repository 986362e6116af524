// Charts in a real browser: alerts on them, states and places, several series in one; read by
// mouse, keys and fingers. And which sensors are heard live.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Browser, inkPixels, tabTo } from '../support/browser.js'
import { describeWith, missingPrograms } from '../support/requirement.js'
import { publishAll } from '../support/rest.js'
import { startStack } from '../support/stack.js'
import { getJson } from '../support/stored.js'
import { until } from '../support/until.js'

const MINUTE_MS = 60_000
const DAY_MS = 1_440 * MINUTE_MS

describeWith(missingPrograms(['chromium']), 'charts on the page', () => {
  /** @type {import('../support/stack.js').Stack} */
  let stack
  /** @type {Browser} */
  let browser
  /** @type {import('../support/browser.js').Page} */
  let page

  const part = (/** @type {string} */ name) => page.locator(`[data-part="${name}"]`)
  const read = async () => (await part('readout').textContent()) ?? ''
  const query = () => new URLSearchParams(new URL(page.url()).hash.split('?')[1])
  const spanMs = () => Number(query().get('to')) - Number(query().get('from'))
  /** @param {string} hash */
  const open = async (hash) => {
    await page.goto('about:blank')
    await page.goto(`${stack.apiUrl}/${hash}`)
  }
  const box = async () => {
    await part('chart').scrollIntoViewIfNeeded()
    const found = await part('chart').boundingBox()
    if (!found) throw new Error('there is no chart')
    return found
  }
  /** Fingers on the chart, each a share of its width; they go from place to place. */
  const touch = async (/** @type {number[][]} */ ...places) => {
    const { x, y, width } = await box()
    const session = await page.context().newCDPSession(page)
    const points = (/** @type {number[]} */ shares) =>
      shares.map((share, id) => ({ x: x + share * width, y: y + 45, id }))
    for (const [index, shares] of places.entries()) {
      const type = index === 0 ? 'touchStart' : 'touchMove'
      await session.send('Input.dispatchTouchEvent', { type, touchPoints: points(shares) })
    }
    await session.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] })
  }
  const drag = async () => {
    const { x, y, width } = await box()
    await page.mouse.move(x + width * 0.3, y + 45)
    await page.mouse.down()
    await page.mouse.move(x + width * 0.6, y + 48, { steps: 4 })
    await page.mouse.up()
  }

  async function fill() {
    const nowMs = Date.now()
    const minutes = (/** @type {number} */ count, /** @type {(minute: number) => object} */ of) =>
      Array.from({ length: count }, (_, minute) => ({
        t: nowMs - (minute + 1) * MINUTE_MS,
        ...of(minute),
      }))
    await publishAll(stack.apiUrl, [
      ...minutes(600, (minute) => ({ sensor: 'kitchen', temperature: 20 + (minute % 7) / 10 })),
      ...minutes(600, (minute) => ({ sensor: 'kitchen', humidity: 40 + (minute % 5) })),
      ...minutes(600, (minute) => ({ sensor: 'hall', temperature: 15 + (minute % 3) })),
      ...minutes(600, () => ({ sensor: 'hall', pressure: 1_013 })),
      ...minutes(240, (minute) => ({ sensor: 'pump', on: minute >= 120 })),
      ...minutes(240, (minute) => ({
        sensor: 'pump',
        state: minute < 60 ? 'running' : minute < 180 ? 'idle' : 'fault',
      })),
      // Due north, a hundredth of a degree a minute, from the oldest to the newest.
      ...minutes(30, (minute) => ({
        sensor: 'van',
        position: { lat: 52 - minute / 100, lon: 13 },
      })),
      ...minutes(30, () => ({ sensor: 'quiet', level: 7 })).map(({ t, ...one }) => ({
        ...one,
        t: t - 9 * DAY_MS,
      })),
      { sensor: 'boiler', temperature: 50 },
      ...Array.from({ length: 100 }, (_, index) => ({ sensor: `unit-${index}`, level: index })),
    ])
    await stack.emptied()
    const units = { 'kitchen/temperature': 'Cel', 'hall/temperature': 'Cel' }
    for (const [series, unit] of Object.entries({ ...units, 'kitchen/humidity': '%RH' })) {
      const [sensor, metric] = series.split('/')
      const url = `${stack.apiUrl}/v1/sensors/${sensor}/metrics/${metric}`
      const response = await page.request.put(url, { data: { unit } })
      expect([series, response.status()]).toEqual([series, 200])
    }
  }

  const alertNow = async () => (await getJson(`${stack.apiUrl}/v1/alerts`)).items[0]

  beforeAll(async () => {
    stack = await startStack()
    browser = await Browser.open()
    page = browser.page
    await fill()
  })
  afterAll(async () => {
    await browser?.close()
    await stack?.end()
  })

  test('an alert is drawn where it fired, told in words, and has an end once it has one', async () => {
    const rule = { name: 'too hot', kind: 'threshold', metric: 'temperature', above: 80, clear: 75 }
    const data = { ...rule, for_s: 0, sensors: ['boiler'], receivers: [] }
    expect((await page.request.post(`${stack.apiUrl}/v1/rules`, { data })).ok()).toBe(true)
    await open('#/sensors/boiler?metric=temperature&range=5m')
    await part('chart-note').getByText('windows of').waitFor()
    expect(await part('marks').isVisible()).toBe(false)
    const before = await inkPixels(page, '.chart canvas', '--bad')
    await until('it fires', async () => {
      await publishAll(stack.apiUrl, [{ sensor: 'boiler', temperature: 91.5 }])
      return (await alertNow())?.state === 'firing'
    })
    await part('marks')
      .getByText(
        /temperature of boiler is 91.5, above 80 \(too hot, warning\): since .*still firing/,
      )
      .waitFor()
    await until('it is drawn', async () => {
      return (await inkPixels(page, '.chart canvas', '--bad')) > before + 100
    })
    expect(await part('chart').getAttribute('aria-label')).toContain('1 alert, told below')
    await publishAll(stack.apiUrl, [{ sensor: 'boiler', temperature: 20 }])
    await until('it ends', async () => (await alertNow()).state === 'resolved')
    await part('marks')
      .getByText(/\(too hot, warning\): .* to .*, \d+ s$/)
      .waitFor()
    await open('#/sensors/kitchen?metric=temperature&range=5m')
    await part('chart-note').getByText('windows of').waitFor()
    expect(await part('marks').isVisible()).toBe(false)
  })

  test('texts are a strip of states, with how long each lasted', async () => {
    await open('#/sensors/pump?metric=state&range=1d')
    const legend = page.getByRole('list', { name: /^States/ })
    await legend.getByText(/^fault 60 min, 25 %$/).waitFor()
    await legend.getByText(/^idle 2 h, 50 %$/).waitFor()
    await legend.getByText(/^running (60|61) min, 25 %$/).waitFor()
    expect(await page.locator('.chart text.state').allTextContents()).toEqual(['fault', 'idle'])
    await tabTo(page, '[data-part="chart"]')
    await page.keyboard.press('ArrowRight')
    expect(await read()).toMatch(/^fault: .* to .*, 60 min$/)
    await page.keyboard.press('ArrowRight')
    expect(await read()).toMatch(/^idle: /)
    await page.keyboard.press('End')
    expect(await read()).toMatch(/^running: /)
    const { x, y, width } = await box()
    await page.mouse.move(x + width * 0.95, y + 45)
    await until('the pointer reads', async () => (await read()).startsWith('idle: '))
    await drag()
    await until('a part is shown', () => Math.abs(spanMs() / DAY_MS - 0.3) < 0.01)
    await page.getByText('Nothing in this time.').waitFor()
  })

  test('what was before the time that is shown lasts into it', async () => {
    await open('#/sensors/pump?metric=on&range=1h')
    await page
      .getByRole('list', { name: /^States/ })
      .getByText('false 60 min, 100 %')
      .waitFor()
    expect(await page.locator('.chart text.state').allTextContents()).toEqual(['false'])
  })

  test('places are a way with its length, its ends and a scale', async () => {
    await open('#/sensors/van?metric=position')
    // 29 hundredths of a degree of latitude.
    await part('chart-note')
      .getByText('30 places, 32.2 km in 29 min, from 51.71, 13 to 52, 13')
      .waitFor()
    expect(await page.locator('.chart text').allTextContents()).toEqual([
      'Start',
      'End',
      '10 km',
      'N',
    ])
    const ends = await page.evaluate(() =>
      ['.start', '.end'].map((end) => Number(document.querySelector(end)?.getAttribute('cy'))),
    )
    expect(ends[0]).toBeGreaterThan(ends[1] + 200)
    await tabTo(page, '[data-part="chart"]')
    await page.keyboard.press('ArrowRight')
    expect(await read()).toMatch(/: 51.71, 13, 0 m from the start$/)
    await page.keyboard.press('End')
    expect(await read()).toMatch(/: 52, 13, 32.2 km from the start$/)
  })

  test('a sensor that has been quiet opens on its newest', async () => {
    await open('#/sensors/quiet')
    await part('quiet').getByText('Nothing came in the last hour.').waitFor()
    await part('chart-note').getByText('30 windows').waitFor()
    expect(await page.locator('[data-part="rows"] tr').count()).toBe(30)
    await page.getByRole('link', { name: 'Show the last hour' }).click()
    await page.getByText('No numbers in this time').waitFor()
    expect(await part('quiet').isVisible()).toBe(false)
  })

  describe('several series', () => {
    const add = async (/** @type {string} */ sensor, /** @type {string} */ metric) => {
      await page.getByLabel('Sensor', { exact: true }).fill(sensor)
      await page.getByLabel('Metric', { exact: true }).fill(metric)
      await page.keyboard.press('Enter')
    }
    const legend = () =>
      page.getByRole('list', { name: 'Series of the chart' }).getByRole('listitem')

    test('are chosen by sensor and metric, one after another', async () => {
      await open('#/charts')
      await page.getByText('Choose a sensor and one of its metrics').waitFor()
      // Faster than answers come.
      await page.route('**/latest', async (route) => {
        await new Promise((resolve) => setTimeout(resolve, 500))
        await route.continue()
      })
      await add('kitchen', 'temperature')
      await add('hall', 'temperature')
      await add('kitchen', 'humidity')
      await legend().nth(2).waitFor()
      await page.unroute('**/latest')
      expect(query().getAll('series')).toEqual([
        'kitchen/temperature',
        'hall/temperature',
        'kitchen/humidity',
      ])
      await part('chart-note')
        .getByText(/bands go from lowest to highest/)
        .waitFor()
      await part('chart-note').getByText('The left axis has °C, the right one % RH.').waitFor()
      await part('chart-note')
        .getByText(/Times are in \w+/)
        .waitFor()
      for (const line of ['--line-1', '--line-2', '--line-3']) {
        await until(`${line} is drawn`, async () => {
          return (await inkPixels(page, '.chart canvas', line)) > 100
        })
      }
    })

    test('are read together', async () => {
      await tabTo(page, '[data-part="chart"]')
      await page.keyboard.press('End')
      expect(await read()).toMatch(
        /: kitchen, temperature [\d.]+ °C.*; hall, temperature [\d.]+ °C.*; kitchen, humidity \d+.* % RH/,
      )
    })

    test('of a third unit are refused with the reason, and so is what is not there', async () => {
      await add('hall', 'pressure')
      await page
        .getByText(/^Not drawn: hall, pressure \(no unit\)\. A chart has at most two/)
        .waitFor()
      await page.getByRole('button', { name: 'Remove hall, pressure' }).click()
      await part('refused').waitFor({ state: 'hidden' })
      const refusal = page.getByRole('alert')
      await add('hall', 'temperature')
      await refusal.getByText('temperature of hall is in the chart already.').waitFor()
      await add('hall', 'noise')
      await refusal.getByText('hall has no noise, but pressure, temperature.').waitFor()
      await add('pump', 'state')
      await refusal.getByText('state of pump is not a number: it has a chart of its own').waitFor()
      await add('nobody', 'x')
      await page.getByText('no sensor has this name or id').waitFor()
    })

    test('are the same again by their address, and come from the chart of a sensor', async () => {
      const address = new URL(page.url()).hash
      await open(address)
      await legend().nth(2).waitFor()
      await open('#/sensors/hall?metric=temperature&range=1d')
      await page.getByRole('link', { name: 'Compare' }).click()
      await legend().getByText('hall, temperature').waitFor()
      expect(query().get('range')).toBe('1d')
    })
  })

  describe('states and places', () => {
    const series = () =>
      page.getByRole('list', { name: 'Series of the chart' }).getByRole('listitem')
    const states = () => page.getByRole('list', { name: /^States/ })
    const add = async (/** @type {string} */ metric) => {
      await page.getByLabel('Sensor', { exact: true }).fill('pump')
      await page.getByLabel('Metric', { exact: true }).fill(metric)
      await page.keyboard.press('Enter')
    }

    test('have a chart of their own, to which nothing is added', async () => {
      await open('#/charts?range=1d')
      await add('state')
      await series().getByText('pump, state').waitFor()
      await states()
        .getByText(/^fault 60 min/)
        .waitFor()
      await add('on')
      await page
        .getByRole('alert')
        .getByText('state of pump is not a number: it has a chart of its own. Remove what is here')
        .waitFor()
      expect(query().getAll('series')).toEqual(['pump/state'])
      await page.getByRole('button', { name: 'Remove pump, state' }).click()
      await page.getByText('Choose a sensor and one of its metrics').waitFor()
    })

    test('one that is on or off is states alone, and a line among others', async () => {
      await open('#/charts?series=pump/on&range=1d')
      await states()
        .getByText(/^(yes|on|true) 2 h/)
        .waitFor()
      await open('#/charts?series=pump/on&series=hall/temperature&range=1d')
      await part('chart-note').getByText('Lines are averages').waitFor()
      expect(await states().isVisible()).toBe(false)
      await page.getByRole('button', { name: 'Remove hall, temperature' }).click()
      await states().waitFor()
      expect(await page.locator('.chart canvas').count()).toBe(0)
      await page.goBack()
      await part('chart-note').getByText('Lines are averages').waitFor()
      expect(await states().isVisible()).toBe(false)
      await until('the line is drawn', async () => {
        return (await inkPixels(page, '.chart canvas', '--line-1')) > 10
      })
    })

    test('are saved from the page of their sensor, and drawn on the dashboard', async () => {
      const { id } = await (
        await page.request.post(`${stack.apiUrl}/v1/dashboards`, {
          data: { name: 'works', charts: [{ series: [{ sensor: 'van', metric: 'position' }] }] },
        })
      ).json()
      await open('#/sensors/pump?metric=state&range=1d')
      await page.getByRole('link', { name: 'Save', exact: true }).click()
      await states().waitFor()
      await page.getByRole('button', { name: 'Save to a dashboard' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
      await page.getByRole('heading', { level: 2, name: 'works' }).waitFor()
      await page.getByRole('link', { name: 'Day', exact: true }).click()
      // A way due north has no width, so that a browser does not call it visible.
      await page.locator('.chart .way').waitFor({ state: 'attached' })
      await until('the states are drawn', async () => {
        const texts = await page.locator('.chart text.state').allTextContents()
        return texts.join() === 'fault,idle'
      })
      expect((await page.request.delete(`${stack.apiUrl}/v1/dashboards/${id}`)).ok()).toBe(true)
    })
  })

  describe('a dashboard', () => {
    const dialog = () => page.getByRole('dialog')
    const titles = () => page.locator('[data-part="charts"] h3').allTextContents()
    const save = async (/** @type {string} */ title) => {
      await page.getByRole('button', { name: 'Save to a dashboard' }).click()
      await dialog().getByLabel('Title of the chart').fill(title)
    }
    const saved = async () => {
      const { items } = await getJson(`${stack.apiUrl}/v1/dashboards`)
      return items.length > 0 ? getJson(`${stack.apiUrl}/v1/dashboards/${items[0].id}`) : undefined
    }

    test('is made of a chart, by keys, and gets another one', async () => {
      await open('#/charts?series=kitchen/temperature&series=hall/temperature&range=1d')
      await page.getByText('There are none yet. Make a chart').waitFor()
      await tabTo(page, '[data-part="save"]')
      await page.keyboard.press('Enter')
      await dialog().getByLabel('Name of the dashboard').fill('house')
      await dialog().getByLabel('Title of the chart').fill('warmth')
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { level: 2, name: 'house' }).waitFor()
      await page.getByText('1 chart.').waitFor()
      await open('#/charts?series=kitchen/humidity')
      await page.getByRole('link', { name: 'house' }).waitFor()
      await save('')
      await dialog().getByLabel('To').selectOption('house')
      await dialog().getByRole('button', { name: 'Save' }).click()
      await page.getByText('2 charts.').waitFor()
      expect(await titles()).toEqual(['warmth', 'humidity of kitchen'])
      expect(await saved()).toMatchObject({
        name: 'house',
        range: '1d',
        charts: [
          {
            title: 'warmth',
            series: [
              { sensor: 'kitchen', metric: 'temperature' },
              { sensor: 'hall', metric: 'temperature' },
            ],
          },
          { series: [{ sensor: 'kitchen', metric: 'humidity' }] },
        ],
      })
    })

    test('is opened by its address, and shows its charts over one time', async () => {
      await open(new URL(page.url()).hash)
      const notes = page.getByText('Lines are averages')
      await notes.nth(1).waitFor()
      expect(await page.locator('.ranges [aria-current]').textContent()).toBe('Day')
      for (const line of ['--line-1', '--line-2']) {
        await until(`${line} is drawn`, async () => {
          return (await inkPixels(page, '.chart canvas', line)) > 100
        })
      }
      await page.getByRole('link', { name: 'Hour', exact: true }).click()
      await until('it is in the address', () => query().get('range') === '1h')
      expect(await page.getByRole('link', { name: 'Open warmth' }).getAttribute('href')).toBe(
        '#/charts?series=kitchen%2Ftemperature&series=hall%2Ftemperature&range=1h',
      )
    })

    test('is changed, but not over what somebody else changed; and is deleted', async () => {
      await page.getByRole('button', { name: 'Move up humidity of kitchen' }).click()
      await until('it is above', async () => (await titles())[0] === 'humidity of kitchen')
      await page.getByRole('button', { name: 'Rename' }).click()
      await dialog().getByLabel('Name').fill('home')
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { level: 2, name: 'home' }).waitFor()
      // Charts that come move what is to be clicked.
      await page.getByText('Lines are averages').nth(1).waitFor()
      await page.getByRole('button', { name: 'Remove warmth' }).click()
      await page.getByText('1 chart.').waitFor()
      const { id, changed: _, ...before } = await saved()
      expect(before).toMatchObject({ name: 'home', charts: [{ series: [{ metric: 'humidity' }] }] })
      const url = `${stack.apiUrl}/v1/dashboards/${id}`
      // Of two who read the same, one is refused, also at the same moment.
      const { changed } = await saved()
      const answers = await Promise.all(
        ['mine', 'theirs'].map((name) =>
          page.request.put(url, { data: { ...before, name, changed } }),
        ),
      )
      expect(answers.map((answer) => answer.status()).sort()).toEqual([200, 409])
      await page.getByRole('button', { name: 'Remove humidity' }).click()
      await page.getByRole('alert').getByText('somebody has changed it meanwhile').waitFor()
      expect((await saved()).charts).toHaveLength(1)
      await page.getByRole('button', { name: 'Delete' }).click()
      await page.getByRole('button', { name: 'Really delete?' }).click()
      await page.getByText('There are none yet. Make a chart').waitFor()
      expect(await saved()).toBeUndefined()
    })
  })

  test.each([
    ['numbers', '#/sensors/kitchen?metric=temperature&range=1d', /: 20/],
    ['states', '#/sensors/pump?metric=state&range=1d', /^fault: /],
    ['places', '#/sensors/van?metric=position', /: 5\d[.\d]*, 13, /],
  ])('%s are read by one finger, and time is stretched by two', async (kind, address, text) => {
    await open(address)
    await part('chart-note').getByText('Times are in').waitFor()
    await touch([0.8], [0.82], [0.85])
    expect(await read()).toMatch(text)
    if (kind === 'places') return
    await touch([0.7, 0.8], [0.65, 0.85])
    await until('half a day is shown', () => Math.abs(spanMs() / DAY_MS - 0.5) < 0.02)
  })

  test('live hears the sensors that are chosen, where more fit than can be heard', async () => {
    const proposed = (/** @type {string} */ name) =>
      page.locator(`[data-part="proposed"] input[value="${name}"]`)
    const heard = page.locator('.card h3')
    await open('#/live')
    await page.getByText('More than 96 sensors fit: choose those to hear').waitFor()
    expect(await heard.count()).toBe(0)
    await tabTo(page, '[data-part="proposed"] input[value="hall"]')
    await page.keyboard.press('Space')
    await page.getByText('Listening to 1 sensor.').waitFor()
    await until('it is heard', async () => {
      await publishAll(stack.apiUrl, [
        { sensor: 'hall', temperature: 15 },
        { sensor: 'boiler', level: 1 },
      ])
      return (await heard.allTextContents()).includes('hall')
    })
    await page.keyboard.press('/')
    await page.keyboard.type('unit-9')
    await proposed('unit-99').check()
    await page.getByText('Listening to 2 sensors.').waitFor()
    expect(query().getAll('sensor')).toEqual(['hall', 'unit-99'])
    await page.getByRole('link', { name: 'Leave out unit-99' }).click()
    await page.getByText('Listening to 1 sensor.').waitFor()
    await until('it is not chosen any more', async () => !(await proposed('unit-99').isChecked()))
    expect(await heard.allTextContents()).not.toContain('boiler')
  })

  test('nothing was an error', () => {
    expect(browser.errors).toEqual([])
    const isWanted = (/** @type {string} */ one) => /\/nobody\/|^409 .*dashboards/.test(one)
    expect(browser.refusals.filter((one) => !isWanted(one))).toEqual([])
  })
})
