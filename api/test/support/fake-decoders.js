/** The row of decoders in memory. */

import { DecoderStore } from '@sandglass/common/expressions/decoder-store'

/** What it is asked, with a hook before each write. */
export function fakeDecoders() {
  /** @type {{ revision: number, body: string } | undefined} */
  let row
  const hook = { beforeWrite: async () => {} }
  const store = new DecoderStore('k', async (query, params) => {
    if (query.startsWith('SELECT')) return row ? [{ ...row }] : []
    await hook.beforeWrite()
    const isInsert = query.startsWith('INSERT')
    const [revision, body] = isInsert ? [params[1], params[2]] : [params[0], params[1]]
    const isApplied = isInsert ? row === undefined : row?.revision === params[3]
    if (isApplied) row = { revision: Number(revision), body: String(body) }
    return [{ '[applied]': isApplied }]
  })
  return Object.assign(store, { hook })
}
