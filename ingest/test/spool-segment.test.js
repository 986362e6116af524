// A segment is needed from the moment in which a block of it begins to be read.
import { Segment } from '../src/spool/segment.js'

test('a segment whose last block is being read is not done with, nor after a read that failed', async () => {
  /** @type {{ resolve: (length: number) => void, reject: (error: Error) => void }[]} */
  const reads = []
  const file = {
    read: () => new Promise((resolve, reject) => reads.push({ resolve, reject })),
    close: async () => {},
  }
  const disk = /** @type {any} */ ({ open: async () => file })
  const found = /** @type {any} */ ({
    scan: {
      version: 2,
      offsets: [0],
      counts: [3],
      blocksEnd: 64,
      number: 1,
      bytes: 64,
      oldestMs: 5,
    },
    startPosition: 0,
    lost: 0,
    isDamaged: false,
  })
  const segment = new Segment(disk, 'spool-0000000001', 'id', found)
  const failing = segment.readNext()
  expect([segment.isRead, segment.isDone]).toEqual([true, false])
  await new Promise((resolve) => setImmediate(resolve))
  reads[0].reject(new Error('EMFILE'))
  await expect(failing).rejects.toThrow('EMFILE')
  expect([segment.isRead, segment.isDone, segment.outstanding]).toEqual([false, false, 0])
  const read = segment.readNext()
  await new Promise((resolve) => setImmediate(resolve))
  expect(segment.isDone).toBe(false)
  reads[1].resolve(64)
  await read
  expect([segment.isDone, segment.outstanding]).toEqual([false, 1])
})
