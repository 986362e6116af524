/** How rewrites of what is stored into another retention class are shown; ingest does them. */

/**
 * @typedef {object} Rewrite  As it is stored: what was asked for, and how far ingest has come.
 * @property {number} askedMs
 * @property {string | null} className  None where it was called off.
 * @property {{ askedMs: number, phase: string, className: string | null, rows: number,
 *   expired: number, untilMs: number | null, updatedMs: number } | undefined} state
 */

/** What the phases of ingest mean for whoever waits for the end. */
const STATES = new Map([
  ['claim', 'preparing'],
  ['announce', 'preparing'],
  ['settle', 'preparing'],
  ['copy', 'copying'],
  ['wait', 'cleaning'],
  ['clean', 'cleaning'],
  ['later', 'waiting'],
  ['done', 'done'],
  ['cancelled', 'cancelled'],
])

const time = { type: 'integer', nullable: true }

/** Of the member `rewrite` of a sensor. */
export const rewriteSchema = {
  type: 'object',
  nullable: true,
  description: 'Of what was stored before retention changed. null: none was asked for.',
  properties: {
    state: {
      type: 'string',
      enum: ['asked', ...new Set(STATES.values())],
      description:
        'asked: no ingest has begun. preparing: all processes hear of it, which takes minutes. ' +
        'copying: `until` grows. cleaning: the old rows are deleted an hour later. waiting: the ' +
        'newest rows follow when the new retention holds.',
    },
    retention: { type: 'string', nullable: true, description: 'Into which class.' },
    asked: { type: 'integer' },
    until: { ...time, description: 'Event time up to which rows are in the new class.' },
    rows: { type: 'integer', description: 'Rewritten so far.' },
    expired: { type: 'integer', description: 'Left out: too old for the new class.' },
    updated: { ...time, description: 'When ingest last said so.' },
  },
}

/** @param {Rewrite | undefined} rewrite */
export function presentRewrite(rewrite) {
  if (!rewrite) return null
  const { askedMs, className, state } = rewrite
  const isBegun = state?.askedMs === askedMs
  return {
    state: isBegun ? STATES.get(state.phase) : 'asked',
    retention: className,
    asked: askedMs,
    until: isBegun ? state.untilMs : null,
    rows: isBegun ? state.rows : 0,
    expired: isBegun ? state.expired : 0,
    updated: state?.updatedMs ?? null,
  }
}
