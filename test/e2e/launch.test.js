// Two whole platforms, as `npm run demo` starts them, beside each other: a part that dies comes
// back, and all of it goes when it is told to.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { unaccounted } from '../support/accounts.js'
import { Demo, START_MS_MAX } from '../support/demo.js'
import { until } from '../support/until.js'

describe('two platforms side by side', () => {
  const demos = [new Demo(), new Demo()]

  beforeAll(async () => {
    for (const demo of demos) await demo.start()
  }, START_MS_MAX)
  afterAll(async () => {
    for (const demo of demos) await demo.end()
  })

  test('both store what their sensors measure', async () => {
    for (const demo of demos) {
      await until('messages are stored', async () => (await demo.stats()).stored > 50)
    }
  })

  test('an engine that is killed comes back, and nothing is missing', async () => {
    const [demo] = demos
    const engine = demo.parts().find(({ command }) => command.includes('sandglass-db'))
    process.kill(Number(engine?.pid), 'SIGKILL')
    await until('it is back', () => /engine is back after/.test(demo.output), {
      deadlineMs: 60_000,
    })
    expect(demo.output).toMatch(/engine ended \(SIGKILL\) and is started again in 0\.5 s/)
    const { stored } = await demo.stats()
    await until('more is stored', async () => (await demo.stats()).stored > stored + 50)
    expect(unaccounted(await demo.stats())).toBe(0)
    expect(demos[1].output).not.toContain('started again')
  })

  test('stop in order, with exit code 0, and leave nothing behind', async () => {
    for (const demo of demos) {
      const parts = demo.parts()
      expect(parts.length).toBeGreaterThanOrEqual(4)
      expect(await demo.stop()).toBe(0)
      expect(demo.output.trim().endsWith('stopped')).toBe(true)
      for (const { pid } of parts.filter(({ command }) => !command.includes('trap'))) {
        expect(() => process.kill(pid, 0)).toThrow('ESRCH')
      }
    }
  })
})
