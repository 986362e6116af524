/** Sends back a handle as often as is asked for: each time it becomes a descriptor of its own. */

process.on('message', async (message, handle) => {
  const { count } = /** @type {{ count: number }} */ (message)
  for (let sent = 0; sent < count; sent++) {
    await new Promise((resolve) => process.send?.({}, handle, {}, resolve))
  }
  process.disconnect()
})
