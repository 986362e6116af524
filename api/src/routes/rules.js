/** `/v1/rules`: what is watched, and who is told. `docs/guide/alerts.md` explains it. */

import { randomUUID } from 'node:crypto'
import { invalid, Problem } from '@sandglass/common/problem'
import { ALERT_TTL_S } from '@sandglass/common/rules/alert'
import { checkRule, RULES_MAX } from '@sandglass/common/rules/rule'
import { withinDeadline } from '../deadline.js'
import { RULE_SCHEMAS } from '../rules/schemas.js'
import { newTest } from '../rules/tests.js'
import { parseTime } from '../time.js'

/** @typedef {import('@sandglass/common/rules/rule').RuleBody} RuleBody */
/** @typedef {import('@sandglass/common/rules/rule').Rule} Rule */
/** @typedef {{ Params: { rule: string } }} One */
/** @typedef {{ Body: RuleBody }} Post */
/** @typedef {One & { Body: { until: string | number | null } }} Silence */

/** Longest silence, in milliseconds: as long as an alert is kept. */
const SILENCE_MS_MAX = ALERT_TTL_S * 1000

/** @param {Rule} stored */
function presentRule({ changedMs, silencedMs, isDeleted: _, ids: __, ...shown }) {
  return {
    ...shown,
    changed: changedMs,
    silenced: silencedMs > Date.now() ? silencedMs : null,
  }
}

/**
 * Until when is silenced.
 *
 * @param {string | number | null} until
 * @returns {number}  0: it is not.
 */
export function silencedUntil(until) {
  if (until === null) return 0
  const untilMs = parseTime('until', until)
  const nowMs = Date.now()
  if (untilMs <= nowMs) throw invalid('until', 'must be a time to come, or null')
  if (untilMs > nowMs + SILENCE_MS_MAX) {
    throw invalid('until', 'must be within 400 days: switch the rule off instead')
  }
  return untilMs
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../app.js').Parts} parts
 */
export default async function rules(app, { store }) {
  /** @param {string} id */
  const known = (id) => knownRule(store, id)

  /** @param {RuleBody} given */
  async function checked(given) {
    const whole = checkRule(given)
    const there = new Set((await store.receivers()).map(({ id }) => id))
    const missing = whole.receivers?.find((id) => !there.has(id))
    if (missing)
      throw invalid('receivers', `names ${missing}, which is no receiver: see /v1/receivers`)
    return whole
  }

  app.get('/v1/rules', { schema: RULE_SCHEMAS.list }, (_request, reply) =>
    withinDeadline(reply, async () => {
      const all = await store.rules()
      return { items: all.sort((a, b) => (a.name < b.name ? -1 : 1)).map(presentRule) }
    }),
  )

  app.get(
    '/v1/rules/:rule',
    { schema: RULE_SCHEMAS.one },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => presentRule(await known(request.params.rule))),
  )

  app.post(
    '/v1/rules',
    { schema: RULE_SCHEMAS.post },
    (/** @type {import('fastify').FastifyRequest<Post>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const whole = await checked(request.body)
        if ((await store.rules()).length >= RULES_MAX) {
          throw new Problem('too-many-changes', `there are ${RULES_MAX} rules, which is the limit`)
        }
        const id = randomUUID()
        await store.putRule(id, whole, Date.now())
        reply.code(201).header('location', `/v1/rules/${id}`)
        return presentRule(await known(id))
      }),
  )

  app.put(
    '/v1/rules/:rule',
    { schema: RULE_SCHEMAS.put },
    (/** @type {import('fastify').FastifyRequest<One & Post>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { id, changedMs } = await known(request.params.rule)
        await store.putRule(id, await checked(request.body), Math.max(Date.now(), changedMs + 1))
        return presentRule(await known(id))
      }),
  )

  app.delete(
    '/v1/rules/:rule',
    { schema: RULE_SCHEMAS.remove },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const found = await known(request.params.rule)
        await store.deleteRule(found, Math.max(Date.now(), found.changedMs + 1))
        return reply.code(204).send()
      }),
  )
  ruleActions(app, store)
}

/**
 * @param {import('../store.js').Store} store
 * @param {string} id
 */
async function knownRule(store, id) {
  const found = await store.rule(id)
  if (!found) throw new Problem('unknown-rule', `there is no rule ${id}`, { parameter: 'rule' })
  return found
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../store.js').Store} store
 */
function ruleActions(app, store) {
  app.post(
    '/v1/rules/:rule/silence',
    { schema: RULE_SCHEMAS.silence },
    (/** @type {import('fastify').FastifyRequest<Silence>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const { id } = await knownRule(store, request.params.rule)
        await store.silenceRule(id, silencedUntil(request.body.until) || null)
        return presentRule(await knownRule(store, id))
      }),
  )

  app.post(
    '/v1/rules/:rule/test',
    { schema: RULE_SCHEMAS.test },
    (/** @type {import('fastify').FastifyRequest<One>} */ request, reply) =>
      withinDeadline(reply, async () => {
        const found = await knownRule(store, request.params.rule)
        const notifications = []
        for (const receiver of found.receivers ?? []) {
          const test = newTest(found, receiver, `This is a test of the rule ${found.name}.`)
          await store.notifyTest(test)
          notifications.push({ id: test.id, receiver })
        }
        if (notifications.length === 0) {
          throw invalid('receivers', 'is empty: nobody would be told. Give the rule a receiver')
        }
        return reply.code(202).send({ notifications })
      }),
  )
}
