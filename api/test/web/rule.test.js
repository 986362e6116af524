// An alert rule in words, and as the form of the page says it.
import { describe, expect, test } from '@jest/globals'
import { checkRule } from '@sandglass/common/rules/rule'
import { formOf, printRule, ruleOf, WRONGS } from '../../web/rule.js'

/** @typedef {import('../../web/rule.js').Rule} Rule */
/** @typedef {import('../../web/rule.js').Wrong} Wrong */

/** @type {[string, Rule][]} */
const RULES = [
  [
    'temperature above 80 for 5 min, back to normal at 75, boiler',
    {
      name: 'hot',
      kind: 'threshold',
      metric: 'temperature',
      sensors: ['boiler'],
      above: 80,
      clear: 75,
      for_s: 300,
      receivers: ['r'],
    },
  ],
  [
    'temperature below -4.5, any sensor (type freezer, tag floor:1)',
    {
      name: 'cold',
      kind: 'threshold',
      metric: 'temperature',
      type: 'freezer',
      tags: { floor: '1' },
      below: -4.5,
    },
  ],
  [
    'level falls by more than 3 in 60 min, back to normal at 1, a, b, c and 1 more',
    {
      name: 'leak',
      kind: 'rate',
      metric: 'level',
      sensors: ['a', 'b', 'c', 'd'],
      below: -3,
      clear: -1,
      per_s: 3_600,
    },
  ],
  [
    'level rises by more than 3 in 60 s, any sensor',
    { name: 'flood', kind: 'rate', metric: 'level', above: 3 },
  ],
  ['any metric out of its expected range, any sensor', { name: 'odd', kind: 'range' }],
  ['nothing for 10 min, any sensor', { name: 'dead', kind: 'silence', for_s: 600, enabled: false }],
]

describe('a rule', () => {
  test.each(RULES)('reads: %s', (text, rule) => {
    expect(printRule(rule)).toBe(text)
  })

  test.each(RULES)('comes out of the form as it went in: %s', (_, rule) => {
    const checked = /** @type {Rule} */ (checkRule(/** @type {any} */ (rule)))
    expect(ruleOf(formOf(checked), checked)).toEqual(checked)
  })

  test('that the form says is one that is taken, whatever is wrong', () => {
    for (const wrong of /** @type {Wrong[]} */ (Object.keys(WRONGS))) {
      const form = {
        name: 'n',
        wrong,
        metric: 'm',
        sensors: ' a , b,',
        type: '',
        tags: '',
        limit: '5',
        clear: '',
        minutes: '2',
        severity: 'info',
        receivers: [],
      }
      // Of another kind before, whose words are not its own.
      for (const [, before] of RULES) {
        const whole = /** @type {Rule} */ (checkRule(/** @type {any} */ (before)))
        const rule = ruleOf(form, whole)
        expect(checkRule(/** @type {any} */ (rule))).toMatchObject({
          kind: WRONGS[wrong],
          metric: 'm',
          sensors: ['a', 'b'],
          for_s: 120,
        })
        expect(formOf(rule).wrong).toBe(wrong)
      }
    }
    expect(ruleOf({ ...formOf(RULES[2][1]), tags: 'site:north\nfloor: 1' }).tags).toEqual({
      site: 'north',
      floor: '1',
    })
    expect(() => ruleOf({ ...formOf(RULES[2][1]), tags: 'north' })).toThrow(/“north” is not a tag/)
    expect(ruleOf({ ...formOf(RULES[2][1]), limit: '7' })).toMatchObject({ below: -7, clear: -1 })
  })
})
