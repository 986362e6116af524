import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc')

/** Heap that is used once what nobody needs is gone, in bytes. */
export function heapBytes() {
  collect()
  return process.memoryUsage().heapUsed
}

/** Bytes outside of the heap, as those of buffers, once what nobody needs is gone. */
export function externalBytes() {
  collect()
  return process.memoryUsage().arrayBuffers
}
