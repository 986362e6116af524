import {
  bucketOf,
  firstLayout,
  layoutAt,
  RETENTION_CLASSES,
  schemaStatements,
} from '@sandglass/common/schema'

const UNIT_S = { HOURS: 3600, DAYS: 86_400 }

test.each(RETENTION_CLASSES)(
  'class $name: a bucket is a whole fraction of the window, and 20 to 30 windows fill its life',
  ({ ttlS, windowUnit, windowSize, bucketS }) => {
    const windowS = windowSize * UNIT_S[windowUnit]
    expect(windowS % bucketS).toBe(0)
    if (ttlS === 0) return
    expect(ttlS / windowS).toBeGreaterThan(20)
    expect(ttlS / windowS).toBeLessThanOrEqual(30)
  },
)

test('a bucket begins at a multiple of its width, before and after 1970', () => {
  expect(bucketOf(86_400, 86_400_000)).toBe(86_400)
  expect(bucketOf(86_400, 86_399_999)).toBe(0)
  expect(bucketOf(86_400, -1)).toBe(-86_400)
})

test('the layout of an event is the last one that began before it', () => {
  const later = { fromMs: 1_000, className: '7d', bucketS: 3600 }
  const layouts = [firstLayout('30d'), later]
  expect(layoutAt(layouts, 999)).toBe(layouts[0])
  expect(layoutAt(layouts, 1_000)).toBe(later)
  expect(layoutAt(layouts, -5)).toBe(layouts[0])
})

test('the schema has one table for every class, each with its window and life', () => {
  const statements = schemaStatements('k', { class: 'SimpleStrategy', replication_factor: 1 })
  expect(statements[0]).toContain("'replication_factor': '1'")
  for (const { name, ttlS } of RETENTION_CLASSES) {
    const statement = statements.find((text) => text.includes(`k.measurement_${name} (`))
    expect(statement).toContain(`default_time_to_live = ${ttlS} `)
  }
})
