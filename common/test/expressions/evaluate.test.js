// An expression says the same of the same payload, and what it cannot say is a refusal.
import { Worker } from 'node:worker_threads'
import { OUTCOME } from '@sandglass/common/expressions/envelope'
import {
  compile,
  evaluate,
  INPUT_BYTES_MAX,
  RESULT_BYTES_MAX,
} from '@sandglass/common/expressions/evaluate'
import { LinearRegex } from '@sandglass/common/expressions/linear-regex'

const WORKER = new URL('match-worker.js', import.meta.url)

/** Far above what an expression takes for the longest of these texts, in milliseconds. */
const EVALUATION_MS_MAX = 10_000

const PLACE = { topic: 'plant/a/boiler', sensor: 'boiler', metric: undefined }

/**
 * @param {string} expression
 * @param {unknown} payload
 * @param {import('@sandglass/common/expressions/evaluate').Reading} [reading]
 */
async function said(expression, payload, reading = 'json') {
  const bytes = Buffer.isBuffer(payload) ? payload : Buffer.from(String(payload))
  return evaluate(compile(expression), reading, bytes, PLACE)
}

/** @param {string} expression  @param {unknown} payload */
async function value(expression, payload) {
  const { outcome, said: text } = await said(expression, payload)
  expect([OUTCOME.value, OUTCOME.record]).toContain(outcome)
  return JSON.parse(text)
}

describe('an expression', () => {
  test('makes measurements of a payload', async () => {
    const payload = '{"d": [{"k": "temp", "r": 215}, {"k": "hum", "r": 40}], "at": 1767225600}'
    const expression = '$merge([{"t": at}, d.{k: r / 10}])'
    expect(await value(expression, payload)).toEqual({ t: 1767225600, temp: 21.5, hum: 4 })
  })

  test('is told the topic, and what that names', async () => {
    expect(await value('[$topic, $sensor, $exists($metric)]', '{}')).toEqual([
      'plant/a/boiler',
      'boiler',
      false,
    ])
  })

  test('names the sensor by a member of that name', async () => {
    expect(await said('{"sensor": id, "x": 1}', '{"id": "a"}')).toEqual({
      outcome: OUTCOME.record,
      said: '{"sensor":"a","x":1}',
    })
  })

  test('is refused where objects of an array name sensors: none becomes a metric of that name', async () => {
    const ofTwo = await said('[{"sensor": "a", "x": 1}, {"x": 2}]', '{}')
    expect(ofTwo).toEqual({
      outcome: OUTCOME.refused,
      said: expect.stringContaining('a message is of one'),
    })
    expect((await said('[{"x": 1}, {"x": 2}]', '{}')).outcome).toBe(OUTCOME.value)
  })

  test('says by null that a message is no measurement, and is refused where it says nothing', async () => {
    const expression = 'type = "data" ? {"x": v} : type = "hello" ? null'
    expect(await value(expression, '{"type": "data", "v": 1}')).toEqual({ x: 1 })
    expect(await said(expression, '{"type": "hello"}')).toEqual({
      outcome: OUTCOME.nothing,
      said: '',
    })
    const nothing = await said(expression, '{"type": "other"}')
    expect(nothing).toEqual({
      outcome: OUTCOME.refused,
      said: expect.stringContaining('gives nothing'),
    })
  })

  test('keeps integers that no double holds, and lets no number become null', async () => {
    const { said: text } = await said(
      '{"i": i, "n": 0/0, "f": $sum, "z": z}',
      '{"i":9007199254740993,"z":-0}',
    )
    expect(text).toBe('{"i":9007199254740993,"n":[],"f":[],"z":-0}')
  })

  test('is given texts, bytes, CBOR and MessagePack, too', async () => {
    const split = '{"a": $number($split($, ";")[0]), "b": $number($split($, ";")[1])}'
    expect((await said(split, '21.5;40', 'text')).said).toBe('{"a":21.5,"b":40}')
    const word = '{"v": ($[0] * 256 + $[1]) / 100}'
    expect((await said(word, Buffer.from([8, 102]), 'bytes')).said).toBe('{"v":21.5}')
    expect((await said('{"v": x}', Buffer.from('a1617807', 'hex'), 'cbor')).said).toBe('{"v":7}')
    expect((await said('{"v": x}', Buffer.from('81a17807', 'hex'), 'messagepack')).said).toBe(
      '{"v":7}',
    )
    expect((await said('$', Buffer.from([0xff]), 'text')).outcome).toBe(OUTCOME.refused)
    expect((await said('$', '{', 'json')).said).toContain('this is not JSON')
  })

  test('that depends on the moment, or on chance, is refused before it is asked', () => {
    const refused = [
      '$now()',
      '{"t": $millis()}',
      '$map([1], $random)',
      '$shuffle([1])',
      '$eval("1")',
    ]
    for (const expression of refused) expect(() => compile(expression)).toThrow('is refused')
    expect(() => compile('x ~> |a|{"b": $now()}|')).toThrow('is refused')
    expect(() => compile('{"now": now, "random": `random`}')).not.toThrow()
  })

  test('that is wrong says where', () => {
    expect(() => compile('{"a": ')).toThrow(/at character 6/)
    expect(() => compile('('.repeat(16_000))).toThrow('nested too deep')
    expect(() => compile('$match(x, /(?=a)b/)')).toThrow('(?=')
  })

  test('has limits: steps, depth, what it is given and what it gives', async () => {
    const reason = async (/** @type {string} */ expression, payload = '{}') => {
      const { outcome, said: text } = await said(expression, payload)
      expect([expression, outcome]).toEqual([expression, OUTCOME.refused])
      return text
    }
    expect(await reason('($f := function($n){ $f($n + 1) }; $f(0))')).toContain('steps')
    expect(await reason('($f := function($n){ $f($n + 1) + 1 }; $f(0))')).toContain('overflow')
    expect(await reason('[1..9999999]')).toMatch(/sequence length|values/)
    expect(await reason('$pad("x", 1000000)')).toContain(`${RESULT_BYTES_MAX} bytes`)
    expect(await reason('[1..9000].($pad("x", 100))')).toContain('bytes')
    expect(await reason('[[1..9000],[1..9000]]')).toContain('values')
    const deep = `${'[1,'.repeat(20)}1${']'.repeat(20)}`
    expect(await reason('$', deep)).toContain('levels')
    const large = JSON.stringify('x'.repeat(INPUT_BYTES_MAX))
    expect(await reason('1', large)).toContain(`${INPUT_BYTES_MAX} bytes`)
  })

  test('that was stopped by a limit starts anew with the next payload', async () => {
    const compiled = compile('($f := function($n){ $n = 0 ? {"x": 1} : $f($n - 1) }; $f(n))')
    const ask = (/** @type {number} */ n) =>
      evaluate(compiled, 'json', Buffer.from(JSON.stringify({ n })), PLACE)
    expect((await ask(1_000_000)).outcome).toBe(OUTCOME.refused)
    expect((await ask(10)).said).toBe('{"x":1}')
  })

  test('reaches nothing of the program, by whatever name', async () => {
    for (const name of ['constructor', '__proto__', 'prototype', 'toString', '__defineGetter__']) {
      for (const path of [name, `a.${name}`, `$lookup($, "${name}")`, `$sum.${name}`]) {
        const { outcome } = await said(path, '{"a": {}}')
        expect([path, outcome]).toEqual([path, OUTCOME.refused])
      }
    }
    const payload = '{"a": {"__proto__": {"polluted": 1}}, "constructor": {"prototype": {"p": 1}}}'
    const expressions = [
      '$merge([a, $])',
      '$sift(a, function($v){ true })',
      '{"__proto__": {"polluted": 1}}',
      '$ ~> |a|{"__proto__": {"polluted": 1}}|',
      '$spread(a)',
      'a{"__proto__": $}',
    ]
    for (const expression of expressions) await said(expression, payload)
    expect(/** @type {any} */ ({}).polluted).toBeUndefined()
    expect(/** @type {any} */ ([]).p).toBeUndefined()
  })
})

describe('a regular expression', () => {
  test('is matched as JavaScript does', async () => {
    const texts = ['', 'ab12', '😀xB1b2', '12x34x', 'a\nb', 'ÄÖ ü', 'aaa']
    const patterns = [/b(.)/i, /(\d+)x/, /^b/m, /(a)|(b)/, /[^a]+/, /\s/, /😀/, /a*?b/, /\w+/]
    for (const pattern of patterns) {
      for (const text of texts) {
        const theirs = new RegExp(pattern.source, `${pattern.flags}g`)
        const ours = new LinearRegex(pattern)
        for (let round = 0; round < 5; round++) {
          const [expected, found] = [theirs.exec(text), ours.exec(text)]
          expect([pattern, text, found && [found.index, ...found]]).toEqual([
            pattern,
            text,
            expected && [expected.index, ...expected],
          ])
          if (expected === null || expected[0] === '') break
          expect(ours.lastIndex).toBe(theirs.lastIndex)
        }
      }
    }
  })

  // In a thread of its own: those of JavaScript would take years, and stop every timer.
  test.each(['/^(a+)+$/', '/(a|aa)+$/', '/(.*a){12}b/'])(
    'takes time by the length of the text alone: %s',
    async (pattern) => {
      const payload = JSON.stringify(`${'a'.repeat(20_000)}!`)
      const workerData = { expression: `{"has": $contains($, ${pattern})}`, payload }
      const worker = new Worker(WORKER, { workerData })
      const timer = setTimeout(() => void worker.terminate(), EVALUATION_MS_MAX)
      const answer = await new Promise((resolve, reject) => {
        worker.once('message', resolve)
        worker.once('error', reject)
        worker.once('exit', () => resolve('it takes too long'))
      })
      clearTimeout(timer)
      await worker.terminate()
      expect(answer).toMatchObject({ outcome: OUTCOME.value, said: '{"has":false}' })
    },
    2 * EVALUATION_MS_MAX,
  )
})
