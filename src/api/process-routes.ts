import type { ProcessState, WorkerState } from '../control/calls.js'
import type { Configuration } from '../control/configuration.js'
import {
  count,
  flag,
  integer,
  listOf,
  number,
  object,
  orNull,
  text,
  textOrNull,
  time,
  titledObject,
  type ValueOf,
  words
} from '../schema/answer.js'
import { defineRoute, type RouteGroup } from './define-route.js'

const WORKER = object({
  worker: { ...integer, minimum: 1, description: 'Its number, which its successor may have again.' },
  state: words(
    ['starting', 'serving', 'failing'],
    'A failing one takes no connection any more and ends when those that it has are over.'
  ),
  started_at: time,
  connections: { ...count, description: 'Client connections that it has now.' },
  requests: { ...count, description: 'Exchanges that it has ended.' },
  event_loop_delay_ms: {
    ...orNull(object({ p50: number, p99: number, max: number })),
    description: 'How late its timers run, in the last 15 to 30 seconds; null: it has not said yet.'
  },
  memory: {
    ...orNull(object({ heap_used: count, heap_limit: count, external: count })),
    description: 'Bytes of its own heap, and of buffers outside of it; null: it has not said yet.'
  }
})

const PROCESS = object({
  id: text,
  applied_revision: { ...integer, description: 'The last revision that it serves.' },
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
  self: { ...flag, description: 'Is it the one that answers?' },
  version: { ...textOrNull, description: 'Version of Sluice; null, as the next fields, for another process.' },
  started_at: orNull(time),
  connections: { ...orNull(count), description: 'Open client connections.' },
  event_loop_delay_ms: {
    ...orNull(object({ p50: number, p99: number, max: number })),
    description: 'Delay of the timers of the control thread in the last 15 to 30 seconds.'
  },
  memory: {
    ...orNull(object({ rss: count, heap_used: count, external: count })),
    description: 'Bytes of the whole process, of the heap of its control thread, and of buffers outside of that.'
  },
  waf: {
    ...orNull(object({ rules: text, digest: text })),
    description: 'Name, version and SHA-256 of the rules of its web application firewall; null: it has none.'
  },
  workers: {
    ...orNull(listOf(WORKER)),
    description:
      'Its threads that carry traffic; empty: one thread does everything, null: of another process it is not known.'
  }
})

const PROCESS_LIST = titledObject('ProcessList', {
  processes: listOf(PROCESS),
  uri: text,
  next_page_uri: { type: 'null' }
})

type Worker = ValueOf<typeof WORKER>

interface ProcessService {
  readonly account: { readonly configuration: Pick<Configuration, 'processes'> }
  readonly baseUrl: () => string
}

const listProcesses = defineRoute({
  method: 'GET',
  path: '/processes',
  id: 'processes_list',
  summary: 'The processes of the service, what they serve and with which threads.',
  answers: 'The processes.',
  answer: PROCESS_LIST,
  async run(_asked, { account, baseUrl }: ProcessService) {
    const processes = await account.configuration.processes()
    return {
      processes: processes.map(shownProcess),
      uri: `${baseUrl()}/processes`,
      next_page_uri: null
    }
  }
})

/** Routes of the processes of the service. */
export const processRoutes: RouteGroup<ProcessService> = {
  tag: 'Processes',
  description: 'The processes of the service.',
  routes: [listProcesses]
}

function shownProcess(state: ProcessState): ValueOf<typeof PROCESS> {
  const { id, appliedRevision, lastError, divergedAt, seenAt, goneSince, self, workers, numbers } = state
  return {
    id,
    applied_revision: appliedRevision,
    last_error: lastError,
    diverged_at: divergedAt,
    seen_at: seenAt,
    gone_since: goneSince,
    self,
    version: numbers?.version ?? null,
    started_at: numbers?.startedAt ?? null,
    connections: numbers?.connections ?? null,
    event_loop_delay_ms: numbers?.loopDelay ?? null,
    memory:
      numbers === null
        ? null
        : { rss: numbers.memory.rss, heap_used: numbers.memory.heapUsed, external: numbers.memory.external },
    waf:
      numbers === null || numbers.rules === null
        ? null
        : { rules: numbers.rules.signature, digest: numbers.rules.digest },
    workers: workers?.map(shownWorker) ?? null
  }
}

function shownWorker({ worker, state, startedAt, connections, requests, loopDelay, memory }: WorkerState): Worker {
  return {
    worker,
    state,
    started_at: startedAt,
    connections,
    requests,
    event_loop_delay_ms: loopDelay,
    memory:
      memory === null ? null : { heap_used: memory.heapUsed, heap_limit: memory.heapLimit, external: memory.external }
  }
}
