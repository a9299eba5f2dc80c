import { integer, listOf, object, orNull, ref, text, textOrNull, time, titledObject } from '../schema/answer.js'
import { answer, operation, type Paths } from './openapi-parts.js'

const TAG = 'Processes'
const count = { ...integer, minimum: 0 } as const

const WORKER = object({
  worker: { type: 'integer', minimum: 1, description: 'Its number, which its successor may have again.' },
  state: {
    type: 'string',
    enum: ['starting', 'serving', 'failing'],
    description: 'A failing one takes no connection any more and ends when those that it has are over.'
  },
  started_at: time,
  connections: { ...count, description: 'Client connections that it has now.' },
  requests: { ...count, description: 'Exchanges that it has ended.' },
  event_loop_delay_ms: {
    ...orNull(object({ p50: { type: 'number' }, p99: { type: 'number' }, max: { type: 'number' } })),
    description: 'How late its timers run, in the last 15 to 30 seconds; null: it has not said yet.'
  },
  memory: {
    ...orNull(object({ heap_used: count, heap_limit: count, external: count })),
    description: 'Bytes of its own heap, and of buffers outside of it; null: it has not said yet.'
  }
})

const PROCESS = object({
  id: text,
  applied_revision: { type: 'integer', description: 'The last revision that it serves.' },
  last_error: { ...textOrNull, description: 'What it could not apply.' },
  diverged_at: {
    ...textOrNull,
    description:
      'When it last found that the store was not the one that it had followed (a backup was restored, a standby that lagged took over) and read everything again.'
  },
  seen_at: time,
  gone_since: {
    ...orNull(time),
    description:
      'When the process that answers heard of it last, by the clock of that one; null while it gives signs of life. It is shown for 15 minutes more.'
  },
  self: { type: 'boolean', description: 'Is it the one that answers?' },
  version: { ...textOrNull, description: 'Of the program; null, as what follows: of another process it is not known.' },
  started_at: orNull(time),
  connections: { ...orNull(count), description: 'Client connections that it has now.' },
  event_loop_delay_ms: {
    ...orNull(object({ p50: { type: 'number' }, p99: { type: 'number' }, max: { type: 'number' } })),
    description: 'How late timers of its control thread run, in the last 15 to 30 seconds.'
  },
  memory: {
    ...orNull(object({ rss: count, heap_used: count, external: count })),
    description: 'Bytes of the whole process, of the heap of its control thread, and of buffers outside of that.'
  },
  workers: {
    ...orNull(listOf(WORKER)),
    description:
      'Its threads that carry traffic; empty: one thread does everything, null: of another process it is not known.'
  }
})

/** Adds the processes of the service; answers their tag. */
export function describeProcesses(paths: Paths, schemas: Record<string, object>): object {
  schemas.ProcessList = titledObject('ProcessList', {
    processes: listOf(PROCESS),
    uri: text,
    next_page_uri: { type: 'null' }
  })
  paths['/processes'] = {
    get: operation('processes_list', TAG, 'The processes of the service, what they serve and with which threads.', {
      responses: { 200: answer('The processes.', ref('ProcessList')) }
    })
  }
  return { name: TAG, description: 'The processes of the service.' }
}
