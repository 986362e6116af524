// Notifications are told until they are taken: pauses, order, refusals, and the ways to receivers.
import { createServer } from 'node:http'
import { afterEach, describe, expect, test } from '@jest/globals'
import { notificationId } from '@sandglass/common/rules/alert'
import { newSecret } from '@sandglass/common/rules/receiver'
import { notificationBody } from '@sandglass/common/rules/text'
import pino from 'pino'
import { SMTPServer } from 'smtp-server'
import { carriersOf } from '../src/notify/carriers.js'
import { Refused, Sender } from '../src/notify/sender.js'
import { until } from './support/ingest.js'

const logger = pino({ level: 'silent' })
const ALERT = '01a20967-3471-8438-8fdc-6bd5e4e66613'

/** @param {string} id  @param {object} [more] */
const notification = (id, more) => ({
  id,
  createdMs: 0,
  receiverId: 'duty',
  alertId: ALERT,
  change: 'fired',
  body: JSON.stringify(
    notificationBody({
      change: 'fired',
      timeMs: 5,
      alertId: ALERT,
      firedMs: 5,
      rule: { id: 'r', name: 'hot', kind: 'threshold', severity: 'critical' },
      sensor: { id: 's', name: 'boiler' },
      metric: 'heat',
      value: 91,
      text: 'heat of boiler is 91, above 80',
    }),
  ),
  ...more,
})

/** Of one change of a series. @param {number} n  @param {Record<string, any>} [more] */
const ofSeries = (n, { sensor = 's', rule = 'r', ...more } = {}) =>
  notification(`${sensor} ${n}`, {
    alertId: `${sensor} ${rule} ${n}`,
    createdMs: n,
    change: 'test',
    body: JSON.stringify({ data: { rule: { id: rule }, sensor: { id: sensor } } }),
    ...more,
  })

/** A queue in memory, and a clock that a test moves. */
class Life {
  nowMs = 0
  /** @type {Map<string, any>} */
  rows = new Map()
  /** Of the queue, as the rules say it: one more with each row that comes while it is read. */
  version = 0
  /** @type {{ id: string, atMs: number }[]} */
  sent = []
  /** @type {any[]} */
  told = []
  /** @type {(what: any) => void | Promise<void>} */
  answer = () => {}
  /** Those to which the reading of the queue has not come. @type {Set<string>} */
  unread = new Set()
  /** Receivers. */
  receivers = ['duty', 'night']
  /** Whether it takes no deletion. */
  isFull = false
  /** @type {Sender} */
  sender

  constructor() {
    this.sender = this.start()
  }

  /** A process that knows nothing yet. */
  start() {
    const life = this
    const store = {
      versions: async () => new Map([[0, life.version]]),
      async *notifications(/** @type {number} */ shard) {
        for (const row of [...life.rows.values()]) {
          if (shard === 0 && !life.unread.has(row.id)) yield row
        }
      },
      async notification(/** @type {number} */ _, /** @type {string} */ id) {
        const row = life.rows.get(id)
        return row && { ...row, writtenUs: 0 }
      },
      receivers: async () => new Map(life.receivers.map((id) => [id, { id, kind: 'test' }])),
      async forget(/** @type {number} */ _, /** @type {string} */ id) {
        if (life.isFull) throw new Error('no space')
        life.rows.delete(id)
      },
      noteTold: async (/** @type {any[]} */ ...what) => life.told.push(what),
      noteReceiver: async () => {},
    }
    const carrier = {
      async send(/** @type {any} */ _, /** @type {any} */ what) {
        life.sent.push({ id: what.id, atMs: life.nowMs })
        await life.answer(what)
      },
    }
    this.sender = new Sender({
      store: /** @type {any} */ (store),
      owns: () => true,
      carriers: { test: carrier },
      now: () => life.nowMs,
      logger,
      sleep: () => new Promise((resolve) => setTimeout(resolve, 1)),
    })
    return this.sender
  }

  /** @type {{ atMs: number, end: () => void }[]} */
  #timers = []

  /** Until the clock of this life has gone on. @param {number} ms */
  sleep(ms) {
    const atMs = this.nowMs + ms
    return new Promise((resolve) => this.#timers.push({ atMs, end: () => resolve(undefined) }))
  }

  /** @param {number} untilMs  @param {number} [stepMs] */
  async pass(untilMs, stepMs = 500) {
    for (; this.nowMs < untilMs; this.nowMs += stepMs) {
      for (const { atMs, end } of this.#timers) if (atMs <= this.nowMs) end()
      this.#timers = this.#timers.filter(({ atMs }) => atMs > this.nowMs)
      await this.sender.turn().catch(() => {})
    }
  }
}

describe('a notification', () => {
  test('is told once to a receiver that is away for an hour, with restarts meanwhile', async () => {
    const life = new Life()
    for (let n = 0; n < 50; n++) {
      const alertId = ALERT.replace(/.{2}$/, String(10 + n))
      life.rows.set(`${n}`, notification(`${n}`, { createdMs: n, alertId }))
    }
    let isAway = true
    /** @type {string[]} */
    const taken = []
    life.answer = ({ id }) => {
      if (isAway) throw new Error('ECONNREFUSED')
      taken.push(id)
    }
    for (let minute = 0; minute < 60; minute += 20) {
      await life.pass((minute + 20) * 60_000)
      life.start()
    }
    // Not all of them ask again and again: one does, at most once a minute after a while.
    expect(life.sent.length).toBeLessThan(100)
    expect(life.rows.size).toBe(50)
    isAway = false
    const beforeMs = life.nowMs
    await life.pass(beforeMs + 61_000)
    life.start()
    await life.pass(life.nowMs + 120_000)
    expect(taken.sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 50 }, (_, n) => `${n}`),
    )
    expect(life.rows.size).toBe(0)
    expect(life.told).toHaveLength(50)
  }, 30_000)

  test('that is refused waits alone, and what ends an alert waits for what began it', async () => {
    const life = new Life()
    const other = '01a20967-3471-8438-8fdc-6bd5e4e66614'
    // Found at once, in whatever order they lie.
    life.rows.set('ended', notification('ended', { change: 'resolved' }))
    life.rows.set('began', notification('began'))
    life.rows.set('other', notification('other', { alertId: other, createdMs: 2 }))
    life.answer = ({ id }) => {
      if (id === 'began') throw new Refused('it answers 400')
    }
    await life.pass(5_000)
    expect([...life.rows.keys()]).toEqual(['ended', 'began'])
    life.answer = () => {}
    await life.pass(20_000)
    expect(life.rows.size).toBe(0)
    const ids = life.sent.map(({ id }) => id)
    expect(ids.indexOf('ended')).toBe(ids.length - 1)
  })

  test('that ends an alert waits for what began it, although that was not read yet', async () => {
    const life = new Life()
    const id = notificationId(ALERT, 'fired', 'duty')
    life.rows.set('ended', notification('ended', { change: 'resolved' }))
    life.rows.set(id, notification(id))
    life.unread.add(id)
    await life.pass(2_000)
    expect(life.sent.map((one) => one.id)).toEqual([id, 'ended'])
    expect(life.rows.size).toBe(0)
  })

  test('is among the first, however many of another sensor or rule wait before it', async () => {
    const life = new Life()
    for (let n = 0; n < 1_000; n++) life.rows.set(`${n}`, ofSeries(n, { id: `${n}` }))
    life.rows.set('sensor', ofSeries(1_000, { sensor: 'other', id: 'sensor' }))
    life.rows.set('rule', ofSeries(1_000, { rule: 'other', id: 'rule' }))
    await life.sender.turn()
    await until(() => life.rows.size === 0)
    const ids = life.sent.map(({ id }) => id)
    expect(ids.slice(0, 4)).toEqual(expect.arrayContaining(['sensor', 'rule']))
    // Of one series the oldest is told first, and no lane waits for the next turn.
    expect(ids.filter((id) => Number(id) >= 0)).toEqual(
      Array.from({ length: 1_000 }, (_, n) => `${n}`),
    )
  })

  test('that is gone from the table meanwhile is not told', async () => {
    const life = new Life()
    for (let n = 0; n < 6; n++) life.rows.set(`${n}`, ofSeries(n, { id: `${n}` }))
    life.answer = () => {
      life.rows.delete('5')
    }
    await life.pass(2_000)
    expect(life.sent.map(({ id }) => id)).toEqual(['0', '1', '2', '3', '4'])
    expect(life.sender.waiting).toBe(0)
  })

  test('that is refused over and over does not hurry', async () => {
    const life = new Life()
    for (let n = 0; n < 1_000; n++) life.rows.set(`${n}`, ofSeries(n, { id: `${n}` }))
    life.answer = () => {
      throw new Refused('it answers 404')
    }
    await life.pass(2_000)
    expect(life.sent).toHaveLength(16)
  })

  test('that was taken is not told again while its row cannot be deleted', async () => {
    const life = new Life()
    life.rows.set('one', notification('one'))
    life.isFull = true
    await life.pass(10_000)
    life.isFull = false
    await until(() => life.rows.size === 0)
    expect(life.sent).toHaveLength(1)
  })

  test('is given up after three days, and counted', async () => {
    const life = new Life()
    life.rows.set('one', notification('one'))
    life.answer = () => {
      throw new Error('ECONNREFUSED')
    }
    await life.pass(3 * 86_400_000 + 120_000, 30_000)
    expect(life.rows.size).toBe(0)
    expect(life.sender.counts.givenUp).toBe(1)
    expect(life.told[0][3]).toMatchObject({ state: 'given up', error: 'ECONNREFUSED' })
  }, 60_000)
})

describe('a receiver is told at once', () => {
  /** @param {Life} life  @param {string} id  @param {number} n */
  const addTo = (life, id, n) => {
    const row = ofSeries(n, { id: `${id} ${n}`, receiverId: id, createdMs: life.nowMs })
    life.rows.set(row.id, row)
    life.version++
  }
  /** @param {Life} life  @param {string} id */
  const sentTo = ({ sent }, id) => sent.filter((one) => one.id.startsWith(`${id} `))

  test('while notifications to others are on their way for ever', async () => {
    const life = new Life()
    const slow = Array.from({ length: 8 }, (_, n) => `slow${n}`)
    life.receivers = [...slow, 'live']
    for (const id of slow) for (let n = 0; n < 8; n++) addTo(life, id, n)
    life.answer = ({ receiverId }) => {
      if (receiverId !== 'live') return new Promise(() => {})
    }
    await life.pass(11_000)
    for (let n = 0; n < 20; n++) {
      addTo(life, 'live', n)
      await life.pass(life.nowMs + 1_000)
    }
    expect(sentTo(life, 'live').map(({ atMs }) => atMs)).toEqual(
      Array.from({ length: 20 }, (_, n) => 11_000 + n * 1_000),
    )
    // Who is slow is not asked for more.
    expect(life.sent).toHaveLength(32 + 20)
  })

  test('while two hundred others, with older ones, answer nothing within ten seconds', async () => {
    const life = new Life()
    const dead = Array.from({ length: 200 }, (_, n) => `dead${n}`)
    life.receivers = [...dead, 'live']
    let onTheWay = 0
    /** @type {number[]} */
    const atOnce = []
    life.answer = async ({ receiverId }) => {
      if (receiverId === 'live') return
      atOnce.push(++onTheWay)
      await life.sleep(10_000)
      onTheWay--
      throw new Error('no answer within 10 seconds')
    }
    for (const id of dead) for (let n = 0; n < 8; n++) addTo(life, id, n)
    // Until each of them has failed once.
    await life.pass(150_000, 1_000)
    const fromMs = life.nowMs
    atOnce.length = 0
    for (let n = 0; n < 100; n++) {
      addTo(life, 'live', n)
      await life.pass(life.nowMs + 1_000, 1_000)
    }
    expect(sentTo(life, 'live').map(({ atMs }) => atMs)).toEqual(
      Array.from({ length: 100 }, (_, n) => fromMs + n * 1_000),
    )
    // And these are asked in turn, none is left out, in half of the lanes.
    expect(Math.max(...atOnce)).toBe(16)
    for (const id of dead) expect(sentTo(life, id).length).toBeGreaterThan(1)
  }, 30_000)
})

describe('a webhook', () => {
  /** @type {import('node:http').Server} */
  let server
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })

  /** @param {import('node:http').RequestListener} listener */
  async function urlOf(listener) {
    server = createServer(listener)
    await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)))
    return `http://127.0.0.1:${/** @type {any} */ (server.address()).port}/`
  }
  const { webhook } = carriersOf({ options: {}, env: {}, publish: async () => {} })

  test.each([
    [200, undefined],
    [302, Refused],
    [404, Refused],
    [429, Error],
    [500, Error],
  ])('that answers %d', async (status, error) => {
    let asked = 0
    const url = await urlOf((_, response) => {
      asked++
      response.writeHead(status, { location: '/elsewhere' }).end('x'.repeat(100_000))
    })
    const receiver = {
      id: 'duty',
      kind: /** @type {const} */ ('webhook'),
      name: 'd',
      url,
      secret: newSecret(),
    }
    const sending = webhook?.send(receiver, notification('one'), 1_000)
    if (error === undefined) await sending
    else await expect(sending).rejects.toThrow(error)
    expect(asked).toBe(1)
  })
})

test('a mail says what happened, in words, with the id of the notification', async () => {
  /** @type {{ to: string[], text: string, user: string }[]} */
  const mails = []
  let to = /** @type {string[]} */ ([])
  let isRefusing = false
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onRcptTo({ address }, _, done) {
      if (isRefusing) return done(new Error('no such mailbox'))
      to.push(address)
      done()
    },
    onData(stream, _, done) {
      let text = ''
      stream.on('data', (chunk) => {
        text += chunk
      })
      stream.on('end', () => {
        mails.push({ to, text, user: '' })
        to = []
        done()
      })
    },
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)))
  const { port } = /** @type {any} */ (server.server.address())
  const options = { smtpUrl: `smtp://127.0.0.1:${port}`, mailFrom: 'sandglass@example.com' }
  const { mail } = carriersOf({ options, env: {}, publish: async () => {} })
  const receiver = {
    id: 'duty',
    kind: /** @type {const} */ ('mail'),
    name: 'd',
    to: ['ops@example.com', 'night@example.com'],
  }
  await mail?.send(receiver, notification('one'), 1_000)
  expect(mails).toHaveLength(1)
  expect(mails[0].to).toEqual(receiver.to)
  for (const line of [
    'Subject: [fired] hot: heat of boiler is 91, above 80',
    'Message-ID: <one@sandglass>',
    'X-Sandglass-Notification: one',
    'Sensor: boiler, heat',
    'Value: 91',
  ]) {
    expect(mails[0].text).toContain(line)
  }
  isRefusing = true
  await expect(mail?.send(receiver, notification('two'), 1_000)).rejects.toThrow()
  // A password does not travel without TLS.
  const env = { SMTP_USERNAME: 'u', SMTP_PASSWORD: 'secret' }
  const careful = carriersOf({ options, env, publish: async () => {} })
  await expect(careful.mail?.send(receiver, notification('three'), 1_000)).rejects.toThrow(/TLS/)
  expect(mails).toHaveLength(1)
  await new Promise((resolve) => server.close(() => resolve(undefined)))
})
