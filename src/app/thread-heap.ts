import { totalmem } from 'node:os'

const MIB = 1024 * 1024
/** Share of the memory that the heaps of all threads may have; the rest is for buffers, tables and code. */
const HEAPS_SHARE = 0.75
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
