import type { ProcessHooks } from '../../cli/process-hooks.js'
import { wantedThreads } from './wanted-threads.js'

/** Gives a process the worker threads that its options ask for. */
export const workerHooks = { threads: wantedThreads } satisfies ProcessHooks
