import type { OptionGroup } from '../../options/group.js'
import { workers as threads } from '../../options/values.js'
import { duration, object, optional, size } from '../../schema/values.js'

const MIB = 1024 * 1024
const GIB = 1024 * MIB
const HOUR = 3_600_000

/** Option for the number of worker threads that serve traffic. */
const workers = threads({
  description:
    'Number of worker threads for traffic (Node 24 and newer). 0: no workers, the main thread handles traffic. auto: one for each CPU that ' +
    'the process may use (CPU quota included). Rate limits are exact across workers.',
  default: 0
})

/** Options of each worker thread. */
const worker = object(
  {
    silence: duration({
      description:
        'Watchdog: a worker whose event loop is blocked gets no new connections after a fifth of this time and is replaced after all of ' +
        'it. 0s: no watchdog.',
      default: '5s',
      min: 0,
      max: HOUR
    }),
    heap: optional(
      size({
        description:
          'Maximum JavaScript heap of each worker; default: three quarters of the memory of the machine or cgroup, divided ' +
          'by the number of workers plus one, 128MiB to 4GiB.',
        min: 32 * MIB,
        max: 64 * GIB
      })
    )
  },
  { description: 'Worker threads.' }
)

/** Options of worker threads. */
export const workerOptions = { after: 'engine', options: { workers, worker } } satisfies OptionGroup
