import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Bytes that this process holds in objects and buffers, without what is garbage. */
export function heldMemory(): number {
  collect()
  // Buffers that a collection has freed are counted until the next one.
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
