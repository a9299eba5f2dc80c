import { duration, object, optional, size } from '../schema/values.js'
import { workers as threads } from './values.js'

const MIB = 1024 * 1024
const GIB = 1024 * MIB
const HOUR = 3_600_000

/** The option for how many threads carry traffic. */
export const workers = threads({
  description:
    'Threads that carry traffic (Node 24 and newer). 0: the thread that also answers the API carries it. auto: as many as ' +
    'processors that the process may use, its quota counted. Limits are exact over all of them.',
  default: 0
})

/** Options of each thread that carries traffic. */
export const worker = object(
  {
    silence: duration({
      description:
        'How long the event loop of such a thread may stand still: after a fifth of it the thread gets no new connection, at its ' +
        'end it is replaced. 0s: threads are not watched.',
      default: '5s',
      min: 0,
      max: HOUR
    }),
    heap: optional(
      size({
        description:
          'JavaScript heap of each such thread; default: three quarters of the memory of machine and control group, divided ' +
          'among these threads and the main one, 128MiB to 4GiB.',
        min: 32 * MIB,
        max: 64 * GIB
      })
    )
  },
  { description: 'Each thread that carries traffic.' }
)
