// Whatever an expression does, it does in another process, and for so long only.
import { OUTCOME } from '@sandglass/common/expressions/envelope'
import { Evaluator } from '@sandglass/common/expressions/evaluator'

/** @type {Evaluator[]} */
const opened = []
afterEach(() => {
  for (const evaluator of opened.splice(0)) evaluator.stop()
})

/** @param {ConstructorParameters<typeof Evaluator>[0]} [parts] */
function open(parts) {
  const evaluator = new Evaluator(parts)
  opened.push(evaluator)
  /** @param {string} expression  @param {unknown} payload  @param {string} [client] */
  const ask = (expression, payload = {}, client = 'c') =>
    evaluator.evaluate({
      expression,
      reading: 'json',
      payload: Buffer.from(JSON.stringify(payload)),
      place: { topic: 'a/b', sensor: 's' },
      client,
    })
  return { evaluator, ask }
}

/** Quadratic in its length, within functions that do not come back: seconds on any machine. */
const SLOW = Array(20).fill('$count($distinct(a))').join(' + ')
const slow = { a: Array.from({ length: 40_000 }, (_, at) => at) }

/** A string of a gigabyte becomes an array of its characters. */
const LARGE =
  '($d := function($s, $n){ $n = 0 ? $s : $d($s & $s, $n - 1) }; $split($d("xxxxxxxxxx", 24), ""))'

describe('the process for expressions', () => {
  test('answers in order, each its own', async () => {
    const { ask, evaluator } = open()
    const asked = Array.from({ length: 200 }, (_, x) => ask('{"x": x}', { x }))
    const answers = await Promise.all(asked)
    expect(answers.map(({ said }) => JSON.parse(said).x)).toEqual(asked.map((_, x) => x))
    expect(evaluator.counts).toMatchObject({ evaluated: 200, starts: 1 })
  })

  test('only looks at an expression where there is no payload', async () => {
    const { evaluator } = open()
    const look = (/** @type {string} */ expression) =>
      evaluator.evaluate({
        expression,
        reading: 'json',
        payload: undefined,
        client: 'c',
        place: { topic: '' },
      })
    expect(await look('{"x": x}')).toEqual({ outcome: OUTCOME.none, said: '' })
    expect(await look('{"x": ')).toMatchObject({ outcome: OUTCOME.refused })
  })

  test('is ended when a payload takes too long, which alone is refused', async () => {
    const { ask, evaluator } = open()
    const asked = [ask('1'), ask(SLOW, slow), ask('2'), ask('3', {}, 'other')]
    const answers = await Promise.all(asked)
    expect(answers.map(({ outcome }) => outcome === OUTCOME.refused)).toEqual([
      ...[false, true, false, false],
    ])
    expect(answers[1].said).toContain('500 ms')
    expect(evaluator.counts).toMatchObject({ slow: 1, large: 0 })
  })

  test('is ended when a payload takes too much memory, which alone is refused', async () => {
    const { ask, evaluator } = open()
    const answers = await Promise.all([ask('1'), ask(LARGE), ask('2')])
    expect(answers.map(({ outcome }) => outcome === OUTCOME.refused)).toEqual([false, true, false])
    expect(answers[1].said).toContain('64 MB')
    expect(evaluator.counts).toMatchObject({ slow: 0, large: 1 })
  })

  test('is ended from outside, and nobody is refused for it', async () => {
    const { ask, evaluator } = open()
    await ask('1')
    const asked = Array.from({ length: 50 }, (_, x) => ask('{"x": x}', { x }))
    process.kill(/** @type {number} */ (evaluator.pid), 'SIGKILL')
    const answers = await Promise.all(asked)
    expect(answers.filter(({ outcome }) => outcome === OUTCOME.refused)).toEqual([])
    expect(evaluator.counts.starts).toBe(2)
  })

  test('makes a client that ended it again and again wait, and nobody else', async () => {
    let nowMs = 0
    const { ask, evaluator } = open({
      now: () => nowMs,
      limits: { cpuMsMax: 100, realMsMax: 10_000 },
    })
    const bad = Array.from({ length: 20 }, () => ask(SLOW, slow, 'bad'))
    const good = Array.from({ length: 20 }, () => ask('1', {}, 'good'))
    const answers = await Promise.all(bad)
    expect(answers.filter(({ said }) => said.includes('took more than'))).toHaveLength(3)
    expect(answers.filter(({ said }) => said.includes('was not evaluated'))).toHaveLength(17)
    expect((await Promise.all(good)).map(({ said }) => said)).toEqual(good.map(() => '1'))
    expect((await ask('1', {}, 'bad')).said).toContain('was not evaluated')
    expect(evaluator.counts).toMatchObject({ slow: 3, unasked: 18 })
    nowMs = 60_001
    expect((await ask('1', {}, 'bad')).said).toBe('1')
  })

  test('serves first who has used least of it', async () => {
    const { ask } = open()
    await ask('1')
    /** @type {string[]} */
    const order = []
    const loop = '($f := function($n){ $n = 0 ? 1 : $f($n - 1) }; $f(4000))'
    const heavy = Array.from({ length: 60 }, () =>
      ask(loop, {}, 'heavy').then(() => order.push('heavy')),
    )
    await heavy[0]
    const light = Array.from({ length: 60 }, () =>
      ask('1', {}, 'light').then(() => order.push('light')),
    )
    await Promise.all([...heavy, ...light])
    expect(order.lastIndexOf('light')).toBeLessThan(order.length - 10)
  })

  test('knows no secrets of ours, and cannot make code of texts', async () => {
    const { ask } = open()
    const names = ['process', 'globalThis', 'require', 'env', 'constructor.constructor("1")()']
    for (const name of names) {
      expect([name, (await ask(name)).outcome]).toEqual([name, OUTCOME.refused])
    }
    expect((await ask('$toMillis("10:30", "[H01]:[m01]")')).said).toContain('depends on the day')
    expect((await ask('$toMillis("2026-01-01T10:30:00")')).said).toBe('1767263400000')
  })

  test('leaves nothing of one payload to the next', async () => {
    const { ask } = open()
    await ask('$merge([$, {"constructor": 1}])', JSON.parse('{"__proto__": {"polluted": 1}}'))
    await ask('($x := 5; $x)')
    expect((await ask('polluted')).outcome).toBe(OUTCOME.refused)
    expect((await ask('$x')).outcome).toBe(OUTCOME.refused)
  })
})
