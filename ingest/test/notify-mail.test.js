// A mail server may answer for ever: it has to take a mail in a time that ends.
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from '@jest/globals'
import { mailCarrier } from '../src/notify/mail.js'

test('a mail fails in time though its server says something again and again', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.write('220 slow\r\n')
    socket.once('data', () => {
      const timer = setInterval(() => socket.write('250-X-SLOW\r\n'), 20)
      socket.on('close', () => clearInterval(timer))
    })
  })
  const connected = once(server, 'connection')
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = /** @type {any} */ (server.address())
  const url = `smtp://127.0.0.1:${port}`
  const options = { url, from: 'a@example.com', username: undefined, password: undefined }
  const { send } = mailCarrier(options, 500)
  const data = { rule: { name: 'hot' }, sensor: {}, fired: 1, resolved: null, value: null }
  const body = JSON.stringify({ data })
  const notification = { id: 'one', createdMs: 1, receiverId: 'duty', alertId: 'a' }
  const sending = send(
    { id: 'duty', kind: 'mail', name: 'd', to: ['ops@example.com'] },
    { ...notification, change: 'fired', body },
    1_000,
  )
  const [socket] = await connected
  const closed = once(socket, 'close')
  await expect(sending).rejects.toThrow('the mail server has not taken it within 0.5 seconds')
  // The connection does not stay.
  await closed
  server.close()
})
