import { totalmem } from 'node:os'

const MIB = 1024 * 1024
/** Share of the memory that the heaps of all threads may have; the rest is for buffers, tables and code. */
const HEAPS_SHARE = 0.75
/**
 * Maximum size of a worker's young generation (MiB): three times a semi-space of 16 MiB. V8 never shrinks it, and the
 * default of Node 24 is 192.
 */
export const YOUNG_GENERATION = 48
/** Bounds of the default heap of one thread. MiB. */
const LEAST = 128
/** Maximum heap of one worker (MiB). */
const MOST = 4_096

/**
 * Returns the heap limit of each of `threads` workers beside the main thread (MiB). `wanted`: bytes, from the options.
 * `memory`: bytes that the process may use, by default those of the machine and its control group.
 */
export function workerHeap(wanted: number | undefined, threads: number, memory = memoryOfProcess()): number {
  if (wanted !== undefined) return Math.ceil(wanted / MIB)
  return Math.min(MOST, Math.max(LEAST, Math.floor((memory * HEAPS_SHARE) / (threads + 1) / MIB)))
}

function memoryOfProcess(): number {
  // 0 or more than the machine's memory: the control group has no limit.
  const constrained = process.constrainedMemory()
  return constrained > 0 ? Math.min(totalmem(), constrained) : totalmem()
}
