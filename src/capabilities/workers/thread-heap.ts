import { totalmem } from 'node:os'

const MIB = 1024 * 1024
/** Share of the memory that the heaps of all threads may have; the rest is for buffers, tables and code. */
const HEAPS_SHARE = 0.75
/**
 * MiB that the young generation of such a thread may grow to: three times a semi-space of 16 MiB. V8 never gives back what it has
 * grown to, and the default of Node 24 is 192.
 */
export const YOUNG_GENERATION = 48
/** Bounds of the default heap of one thread. MiB. */
const LEAST = 128
const MOST = 4_096

/**
 * MiB that the heap of each of `threads` threads may have beside the main one. `wanted`: bytes, from the options. `memory`: bytes that the
 * process may use, by default what the machine and its control group permit.
 */
export function workerHeap(wanted: number | undefined, threads: number, memory = memoryOfProcess()): number {
  if (wanted !== undefined) return Math.ceil(wanted / MIB)
  return Math.min(MOST, Math.max(LEAST, Math.floor((memory * HEAPS_SHARE) / (threads + 1) / MIB)))
}

function memoryOfProcess(): number {
  // 0 or beyond what the machine has: the control group sets no bound.
  const constrained = process.constrainedMemory()
  return constrained > 0 ? Math.min(totalmem(), constrained) : totalmem()
}
