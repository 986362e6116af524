import { createRegistry, serveMetrics } from '@sandglass/common/metrics'

test('metrics, health and documents are served; health is 503 while it is not well', async () => {
  let ok = true
  const server = await serveMetrics({
    listen: { host: '127.0.0.1', port: 0 },
    registry: createRegistry('sandglass_test_'),
    health: () => ({ ok, database: ok ? 'up' : 'down' }),
    documents: { '/stats': () => ({ received: 3 }) },
  })
  const base = `http://127.0.0.1:${server.port}`
  try {
    expect(await (await fetch(`${base}/metrics`)).text()).toContain('sandglass_test_process_cpu')
    expect(await (await fetch(`${base}/stats`)).json()).toEqual({ received: 3 })
    expect((await fetch(`${base}/health`)).status).toBe(200)
    ok = false
    const sick = await fetch(`${base}/health`)
    expect([sick.status, await sick.json()]).toEqual([503, { ok: false, database: 'down' }])
    expect((await fetch(`${base}/nothing`)).status).toBe(404)
    expect((await fetch(`${base}/toString`)).status).toBe(404)
  } finally {
    await server.stop()
  }
})
